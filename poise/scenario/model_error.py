"""How far a measured run may be from a simulated one: the error of the cost model, which more seeds do not reduce.

It is stated beside chance (`interval`), never in one figure with it: chance comes from the requests of a run, and the
model's error from how far `poise validate` found predictions of the same kind to be off (`poise.intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from poise.core.spec import Pool
from poise.cost import Fitted, Measured, Roofline
from poise.cost.term import Termed
from poise.intervals.conditions import Conditions, FigureKind
from poise.intervals.interval import CONFIDENCE, Bounds, Interval
from poise.intervals.shipped import interval_of
from poise.report.wording import significant, write
from poise.scenario.engine_cost import EngineCost
from poise.scenario.evidence import conditions

LATENCIES: dict[str, FigureKind] = {"ttft_s": "ttft", "tpot_s": "tpot", "e2e_s": "e2e"}
RATES = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
TAILS = ("p90", "p95", "p99")
TITLES: dict[FigureKind, str] = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "throughput": "throughput"}
NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E", "output_tokens_per_s": "output tokens"}
"""The figures that the line of a run names."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """The intervals of a run's figures.

    by: the interval by kind of figure and whether it is a tail; throughputs are left out of an open load, which itself
    decides them.  because: what widens them.  why: the reason where none is stated.
    """

    by: Mapping[tuple[FigureKind, bool], Interval] = field(default_factory=dict)
    because: tuple[str, ...] = ()
    why: str = ""

    def bounds(self, result: Mapping[str, Any], confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Lower and upper ends for each figure of a result, under the names that it has there."""
        found: dict[str, Any] = {}
        for name, kind in LATENCIES.items():
            values = result.get(name) or {}
            found[name] = {
                at: self._ends(kind, at in TAILS, value, confidence) for at, value in values.items() if value
            }  # fmt: skip
        for name in RATES:
            if result.get(name) and ("throughput", False) in self.by:
                found[name] = self._ends("throughput", False, result[name], confidence)
        return {name: each for name, each in found.items() if each}

    def _ends(self, kind: FigureKind, tail: bool, value: float, confidence: float) -> dict[str, float]:
        return self.by[kind, tail].bounds(value, confidence)._asdict()

    def as_dict(self, result: Mapping[str, Any], confidence: float = CONFIDENCE) -> dict[str, Any]:
        """For JSON: the ends of each figure, what was not seen, or why there are none."""
        if self.why:
            return {"confidence": None, "why": self.why}
        return {"confidence": confidence, "because": list(self.because), **self.bounds(result, confidence)}

    def line(self, result: Mapping[str, Any], confidence: float = CONFIDENCE) -> str:
        """One line for a run: between which values medians would be measured."""
        if self.why:
            return f"Model error: {self.why}."
        ends = self.bounds(result, confidence)
        parts = []
        for name, title in NAMES.items():
            if name in LATENCIES and "p50" in ends.get(name, {}):
                low, high = (write(ends[name]["p50"][end], "seconds", 3) for end in ("low", "high"))
                parts.append(f"{title} p50 {low} to {high}")
            elif name in RATES and name in ends:
                low, high = (write(ends[name][end], "number", 3) for end in ("low", "high"))
                parts.append(f"{title}/s {low} to {high}")
        share = write(confidence, "share")
        return (
            f"Model error, chance apart: with {share} confidence a measured run has {', '.join(parts)}{self._wider()}."
        )

    def factors(self, confidence: float = CONFIDENCE) -> str:
        """One line for a comparison: by which factors its figures may be off, whatever the policy."""
        if self.why:
            return f"Model error: {self.why}."
        parts = [
            f"{TITLES[kind]} {significant(low, 2)} to {significant(high, 2)} times"
            for kind, (low, high) in self._factors(confidence).items()
        ]
        share = write(confidence, "share")
        return (
            f"Model error, chance apart: with {share} confidence measured figures are {', '.join(parts)} these; one "
            f"model prices all policies, so much of it should cancel between them (not measured){self._wider()}."
        )

    def factors_as_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """The same for JSON."""
        if self.why:
            return {"confidence": None, "why": self.why}
        found = {kind: each._asdict() for kind, each in self._factors(confidence).items()}
        return {"confidence": confidence, "because": list(self.because), "factors": found}

    def _factors(self, confidence: float) -> dict[FigureKind, Bounds]:
        return {kind: each.bounds(1.0, confidence) for (kind, tail), each in self.by.items() if not tail}

    def _wider(self) -> str:
        return f"; what widens it: {', '.join(self.because)}" if self.because else ""


def model_error(cost: object, pools: Sequence[Pool], closed: bool) -> ModelError:
    """The error of a cost on `pools`; without intervals where a cost of its kind was not compared with served requests.

    closed: whether requests wait for earlier ones to end.
    """
    if not isinstance(cost, EngineCost):
        return ModelError(why=f"not stated for {_kind(cost)}; `cost: {{engine: vllm}}` was compared with measured runs")
    if cost.speculative is not None:
        return ModelError(why="not stated with drafts, which few measured runs have")
    load = "closed" if closed else "rate"
    kinds: tuple[FigureKind, ...] = (*LATENCIES.values(), *(("throughput",) if closed else ()))
    under = {
        (kind, tail): conditions(kind, pools, cost.engine, cost.version, load=load, tail=tail)
        for kind in kinds
        for tail in (False, True)
    }
    by = {key: interval_of(each) for key, each in under.items()}
    return ModelError(by, _because(list(under.values()), list(by.values())))


def _because(under: Sequence[Conditions], found: Sequence[Interval]) -> tuple[str, ...]:
    """What widens intervals: what no measurement behind them had, and evidence that is worse than measured tables."""
    unseen = [f"no measured run of {name.partition(' ')[2]}" for each in found for name in each.unseen]
    worse = {"roofline": "by the roofline", "borrowed": "borrowed from other devices"}
    borrowed = [f"operators of {each.device} {worse[each.origin]}" for each in under if each.origin in worse]
    apart = ["prefill and decode in pools of their own" for each in under if each.disagg]
    return tuple(dict.fromkeys(unseen + borrowed + apart))


def _kind(cost: object) -> str:
    names: tuple[tuple[type, str], ...] = (
        (Roofline, "the roofline"), (Measured, "measured operators without an engine"),
        (Fitted, "a cost fitted to a recording"), (Termed, "a cost with terms"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(cost, kind)), "this cost")
