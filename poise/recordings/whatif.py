"""What-if: simulates other policies on the recorded requests, and compares them with the recorded ones.

The engines are simulated with a cost that was fitted to them. The recorded policies are simulated first: how far that
is from what really happened shows how reliable the rest is. Every candidate then gets the same requests at the same
instants, and its difference to the recorded policies *as simulated* has an interval from blocks of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from poise.core.records.header import belief_of
from poise.core.slot import SCENARIO
from poise.core.spec import Slo
from poise.core.units import seconds
from poise.cost.fitted import Fitted
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter
from poise.experiment.workers import Workers, worker_pool
from poise.policies import Policies
from poise.recordings.calibrate import Calibration
from poise.recordings.caveats import of_the_cost, of_the_recording
from poise.recordings.cluster import cluster_of, present
from poise.recordings.control import FLEET, policy_of
from poise.recordings.recording import Recorded
from poise.recordings.reproduce import Reproduction, reproduce
from poise.report.figures import E2E, TPOT, TTFT, Figure
from poise.report.intervals import Interval
from poise.report.seeds import CONFIDENCE
from poise.report.verdict import REACH
from poise.report.wording import significant, write
from poise.scenario.compare.cell import Cell, Task, cell_of, run_of, simulated
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.study import Place, Setting, Study
from poise.scenario.compare.uncertainty import paired

FIGURES: tuple[Figure, ...] = (TTFT[0], TTFT[1], TTFT[4], TPOT[0], TPOT[4], E2E[0], E2E[4])
"""The figures that are set side by side."""

RECORDED = "as recorded"
"""The label of the recorded policies."""


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """changes: for each candidate, by its label, the policies that it has in other slots than the recording.

    replicas: how many engines the candidates have (None: as many as there were).  by: the figure that decides.
    draw: keep what reports draw.  workers: where.
    """

    changes: Mapping[str, Mapping[str, Any]]
    replicas: int | None = None
    by: Figure = E2E[0]
    slo: Slo = field(default_factory=Slo)
    draw: bool = False
    workers: Workers = field(default_factory=Workers)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """cost: that the engines are simulated with; calibration: where it was fitted here.  comparison: the recorded
    policies, under `RECORDED`, and the candidates, all as simulated.
    """

    day: Recorded
    question: WhatIfQuestion
    cost: Fitted
    calibration: Calibration | None
    reproduction: Reproduction
    comparison: Comparison
    _gaps: dict[tuple[str, str], Interval] = field(default_factory=dict, repr=False)

    @property
    def candidates(self) -> list[str]:
        """The finished candidates."""
        return [name for name in self.comparison.policies(1.0) if name != RECORDED]

    def difference(self, candidate: str, figure: Figure) -> Interval:
        """How much more of a figure a candidate has than the recorded policies: both simulated, paired by block.

        Each is computed at 1 − 5 %/k confidence for k candidates, so that all hold together with 95 %.
        """
        key = candidate, figure.name
        if key not in self._gaps:
            confidence = 1 - (1 - CONFIDENCE) / max(len(self.question.changes), 1)
            cells = self.comparison.of(RECORDED, 1.0), self.comparison.of(candidate, 1.0)
            self._gaps[key] = paired(*cells, figure, False, confidence)
        return self._gaps[key]

    def verdict(self, candidate: str) -> str:
        """The verdict on a candidate, in a sentence."""
        by = self.question.by
        gap, base = self.difference(candidate, by), by.value(self.comparison.result(RECORDED, 1.0))
        if gap.value is None or base is None:
            return f"{candidate}: no verdict by {by.label}, for {gap.why or 'there is no such figure'}."
        if gap.half is None:
            much = f"{'+' if gap.value > 0 else '−'}{write(abs(gap.value), by.kind, 3)}"
            return f"{candidate}: {by.label} {much}; {gap.why}."
        text = f"{by.label} {self._much(gap)}"
        if not gap.apart:
            return f"{candidate}: no difference found by {text}{self._longer(gap)}."
        better = {"more": gap.value > 0, "less": gap.value < 0}.get(by.better)
        return f"{candidate}: {'changes' if better is None else 'better' if better else 'worse'} by {text}."

    def answer(self) -> str:
        """Which policies to take, by how much, and how many engines would do, or that nothing is better; in a sentence.

        Empty where no candidate is done.
        """
        by = self.question.by
        gaps = {name: gap for name in self.candidates if (gap := self.difference(name, by)).value is not None}
        if not gaps:
            return ""
        sure = {name: gap for name, gap in gaps.items() if gap.apart and not self._worse(gap)}
        pick = max if by.better == "more" else min
        best = pick(sure or gaps, key=lambda name: gaps[name].value or 0.0)
        much, gain = f"{by.label} {self._much(gaps[best])}", abs(gaps[best].value or 0.0)
        if sure and gain < (off := abs(self.reproduction.gap(by.name) or 0.0)):
            doubt = f"less than the {write(off, by.kind, 3)} by which the recorded policies are simulated off"
            return f"Not decided: {best} has {much}, {doubt}; a longer recording may fit the engines better."
        if sure:
            return f"Take {best}: {much} against the recorded policies, both simulated{self._fewer}."
        if gaps[best].half is None:
            return f"No verdict: {best} has {much}; {gaps[best].why}."
        if self._fewer and not gaps[best].apart:
            return f"Take {best}: {much}, no difference beyond chance{self._fewer}."
        worse = all(map(self._worse_for_sure, gaps.values()))
        why = "every candidate is worse" if worse else "none is better beyond chance"
        return f"Keep the recorded policies: {why}, and the nearest, {best}, has {much}{self._longer(gaps[best])}."

    @property
    def _fewer(self) -> str:
        """That fewer engines would do, where that was asked."""
        there = len(present(self.day.replicas, self.day.faults))
        count = self.question.replicas
        return "" if count is None or count >= there else f", so {count} of the {there} engines would do"

    def _much(self, gap: Interval) -> str:
        """A difference of the deciding figure, with its interval and its share of what was."""
        by, base = self.question.by, self.question.by.value(self.comparison.result(RECORDED, 1.0))
        sign = "+" if (gap.value or 0) > 0 else "−"
        text = f"{sign}{write(abs(gap.value or 0), by.kind, 3)} ± {write(gap.half, by.kind, 2) if gap.half else '?'}"
        if by.kind == "share" or not base:
            return text
        return f"{text} ({sign}{significant(100 * abs((gap.value or 0) / base), 2)} %)"

    def _longer(self, gap: Interval) -> str:
        times = None if gap.apart else gap.longer
        return f"; about {significant(times, 2)} times as long might tell" if times and times < REACH else ""

    def _worse(self, gap: Interval) -> bool:
        return {"more": (gap.value or 0) < 0, "less": (gap.value or 0) > 0}.get(self.question.by.better, False)

    def _worse_for_sure(self, gap: Interval) -> bool:
        return gap.apart and self._worse(gap)

    def warnings(self) -> list[str]:
        """The caveats of the figures."""
        return [*of_the_recording(self.day), *of_the_cost(self.calibration), *self._of_the_gains()]

    def _of_the_gains(self) -> list[str]:
        by = self.question.by
        gap = self.reproduction.gap(by.name)
        if gap is None:
            return []
        doubted = [name for name in self.candidates if abs(self.difference(name, by).value or 0.0) < abs(gap)]
        if not doubted:
            return []
        off = write(abs(gap), by.kind, 3)
        return [
            f"{by.label} of the recorded policies is simulated {off} off, more than what {', '.join(doubted)} changes"
        ]

    def as_dict(self) -> dict[str, Any]:
        """The result JSON."""
        return {
            "answer": self.answer(),
            "by": self.question.by.name,
            "interrupted": self.comparison.interrupted,
            "recording": {
                **self.day.counts,
                "replicas": len(self.day.replicas),
                "edges_s": [*map(seconds, self.day.edges)],
            },
            "cost": {"coefficients": self.cost.coefficients, **self.cost.about},
            "reproduction": self.reproduction.as_dict(),
            "warnings": self.warnings(),
            "recorded": self.comparison.result(RECORDED, 1.0),
            "candidates": {name: self._candidate(name) for name in self.candidates},
        }

    def _candidate(self, name: str) -> dict[str, Any]:
        gaps = {figure.name: self.difference(name, figure) for figure in (self.question.by, *FIGURES)}
        return {
            "verdict": self.verdict(name),
            "differences": {
                figure: {"difference": gap.value, "interval": gap.half, "why": gap.why} for figure, gap in gaps.items()
            },
            "figures": self.comparison.result(name, 1.0),
        }


def whatif(
    day: Recorded,
    question: WhatIfQuestion,
    cost: Fitted,
    calibration: Calibration | None = None,
    progress: Meter | None = None,
) -> WhatIf:
    """Simulate the recorded policies and each candidate; Ctrl-C ends it with what is done.

    TraceError for a recording whose belief cannot be simulated.
    """
    setting = _setting(day, cost, None, question)
    base = recorded_policies(day)
    changed = {name: replace(base, **each) for name, each in question.changes.items()}
    study = Study(
        setting, {RECORDED: base, **changed}, lambda seed, load: day.workload, True, question.by, seeds=(_seed(day),)
    )
    comparison = Comparison(study)
    comparison.offered[1.0] = {
        **day.workload.source,
        **day.workload.summary(setting.cluster.pools[0].engine.block_tokens),
    }
    tell: Callable[[str, int, int], None] = progress or (lambda label, done, total: None)
    with interrupts() as stop, worker_pool(question.workers, stop, simulated) as hands:
        task = _task(day, question, setting, RECORDED, base)
        run = run_of(task, stop.is_set)
        if run is None:
            raise KeyboardInterrupt
        comparison.cells[task.place] = cell_of(task, run)

        def done(cell: Cell) -> None:
            comparison.cells[cell.place] = cell
            tell("simulations", len(comparison.cells), 1 + len(changed))

        other = setting if question.replicas is None else _setting(day, cost, question.replicas, question)
        hands.work((_task(day, question, other, name, policies) for name, policies in changed.items()), done)
        comparison.interrupted = stop.is_set()
    return WhatIf(day, question, cost, calibration, reproduce(day, run), comparison)


def recorded_policies(day: Recorded) -> Policies:
    """The bundle that the header names, but for the fleet; slots that it does not name have their defaults."""
    return Policies(**{slot: policy_of(day.header, slot) for slot in SCENARIO if slot not in FLEET})


def _setting(day: Recorded, cost: Fitted, replicas: int | None, question: WhatIfQuestion) -> Setting:
    belief = belief_of(day.header)
    cluster, specs = cluster_of(day.replicas, day.header, day.faults, replicas)
    return Setting(cluster, cost, belief, question.slo, seconds(day.edges[0]), known=tuple(specs))


def _task(day: Recorded, question: WhatIfQuestion, setting: Setting, name: str, policies: Policies) -> Task:
    place = Place(1.0, name, _seed(day))
    return Task(place, setting, day.workload, policies, cut=True, draw=question.draw, timeline=question.draw)


def _seed(day: Recorded) -> int:
    return int(day.header.get("seed", 0))
