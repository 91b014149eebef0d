"""Our own: for any times, links and limits the best of everything that is known, improved, with a certificate.

The rule. A placement is one chunk per rank, or more of them in a loop or as a wave (two: a V). Each has a bound that no
schedule of it can beat (`bound.py`); placements are taken by their bounds, and one whose bound is no better than what
was found already is passed over. In a placement start

1. the published schedules that fit the limit, at the true times (of a V with all blocks of controllable memory),
2. the steady states that modulo scheduling finds at the true times (`modulo.py`),

of which the best are pressed against their end and their begin until the bound is reached or the effort is spent
(`squeeze.py`, `search.py`). Whatever was published and fits is among the candidates, so nothing published is better.
Long runs choose on a short one (`long_run.py`), so of them nothing published is better as far as that shows it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

from poise.core.errors import ScheduleError
from poise.pipeline.candidate import Candidate, Value, true
from poise.pipeline.certified import Certified, certify
from poise.pipeline.constraint_graph import Rows, rows_of
from poise.pipeline.costs import Costs
from poise.pipeline.find import make, takes
from poise.pipeline.long_run import LongRun
from poise.pipeline.memory import Limit
from poise.pipeline.modulo import steady
from poise.pipeline.scheduling_problem import SchedulingProblem, problem
from poise.pipeline.search import EFFORT, Effort, Seed, floor, improve, lines, reduced

Place = tuple[int, str]
"""Chunks per rank, and how they lie."""

PUBLISHED: dict[Place, tuple[str, ...]] = {
    (1, "wave"): ("zb_auto", "zb_h1", "zb_h2", "one_f_one_b", "two_bp", "gpipe"),
    (2, "wave"): ("v_auto", "zb_v", "v_half", "v_min", "dualpipe_v", "hanayo"),
    (0, "wave"): ("hanayo",),
    (0, "loop"): ("zeropp", "interleaved", "breadth_first", "gis", "gis_h"),
}
"""By chunks (0: any other number) and placement."""

COPIES = {"dualpipe": 1, "bitpipe": 2, "chimera": 1}
"""Those that keep all weights twice, and into how many chunks a rank's part of one copy is cut."""

LONG: dict[Place, tuple[str, ...]] = {
    (1, "wave"): ("zb_auto", "zb_h1", "zb_h2"),
    (2, "wave"): ("zb_v", "dualpipe_v"),
    (0, "loop"): ("interleaved", "breadth_first", "gis_h"),
}
"""Those that long runs start from; all other V-shaped ones repeat blocks, of which the best are tried …"""

RANKS = 16
"""… or, up to so many ranks, `v_auto`."""

SMALL = 1024
"""Ranks · microbatches up to which four chunks are tried unasked."""


def poise(
    stages: int, microbatches: int, costs: Costs | None = None, memory_limit: Limit | None = None,
    chunks: int | None = None, by: str = "makespan", kept: Fraction | float = 1, copies: int = 1,
    effort: int = EFFORT,
) -> Certified:  # fmt: skip
    """The best schedule that is found within `memory_limit`, by makespan or by (the largest bubble in a) span.

    The limit is in full-stage activations, one for all ranks or one for each (default: none); the part `kept` of an
    activation stays from the input gradient to the weight gradient. Without `chunks` one and two per rank are tried,
    and four of small pipelines. With two `copies` of the weights the bidirectional schedules are candidates too.
    `effort` are the operations that improving may place. The certificate has the least bound of the placements.
    """
    if by not in ("makespan", "span"):
        raise ScheduleError(f"poise: by {by!r}; give makespan or span")
    if copies not in (1, 2):
        raise ScheduleError(f"poise: {copies} copies of the weights; give 1, or 2 for bidirectional schedules")
    counts = [chunks] if chunks else [1, 2, 4] if stages * microbatches <= SMALL else [1, 2]
    places = [(each, place) for each in counts for place in (("wave", "loop") if each > 1 else ("wave",))]
    ground = _Ground(stages, microbatches, costs, memory_limit, kept, by, Effort(effort))
    best = ground.best(places)
    if copies == 2 and not chunks:
        best = ground.copied(best)
    if best is None:
        raise ScheduleError("poise: no schedule was found within the memory limit; raise it")
    return best


class _Ground:
    """The problem, and the best result so far."""

    def __init__(
        self, stages: int, microbatches: int, costs: Costs | None, limit: Limit | None, kept: Fraction | float, by: str,
        effort: Effort,
    ) -> None:  # fmt: skip
        self.stages, self.microbatches, self.costs, self.by, self.effort = stages, microbatches, costs, by, effort
        self.problem = partial(problem, "poise", stages, microbatches, costs=costs, limit=limit, kept=kept)

    def best(self, places: list[Place]) -> Certified | None:
        """The placements worth trying by their bounds; of long runs by what short ones promise."""
        shops = {place: self.problem(chunks=place[0], placement=place[1]) for place in places}
        floors = {place: floor(each, self.by) for place, each in shops.items()}
        bounds = {place: Fraction(floors[place][0], each.durations.scale) for place, each in shops.items()}
        runs = {place: self._long(each, floors[place]) for place, each in shops.items() if reduced(each) is not each}
        order = sorted(places, key=lambda place: (bounds[place], place[0], place[1] == "loop"))
        if runs:
            order.sort(key=lambda place: (place[0] == 1, place in runs and place[0] > 1 and runs[place].hope))
        best: Candidate | None = None
        for place in order:
            if best is not None and bounds[place] >= true(best)[0]:
                continue
            if place in runs:
                line = runs[place].best(self.effort, best)
            else:
                line = _placed(shops[place], floors[place], self.costs, self.by, self.effort)
            best = min((each for each in (best, line) if each), key=true, default=None)
        return self._certified(best, min(bounds.values())) if best else None

    def _long(self, whole: SchedulingProblem, least: Value) -> LongRun:
        return _long(whole, least, self.costs, self.by)

    def copied(self, best: Certified | None) -> Certified | None:
        """The best with bidirectional schedules, for which nothing more is known than that the work must be done."""
        for name, chunks in COPIES.items():
            where = self.problem(chunks=chunks)
            bound = Fraction(sum(where.work), self.stages * where.durations.scale)
            for line in lines(where, [partial(_published, name, where, self.costs, self.by, 0)], self.by, (0, 0)):
                found = next(iter(improve([line], (0, 0), self.effort)))
                if best is None or true(found)[0] < best.value:
                    best = self._certified(found, bound if self.by == "makespan" else Fraction(0))
        return best

    def _certified(self, line: Candidate, bound: Fraction) -> Certified:
        return certify(replace(line.schedule, name="poise"), self.by, true(line)[0], bound, "bound")


def within(where: SchedulingProblem, costs: Costs | None, by: str) -> Candidate:
    """The best that is found in one placement; ScheduleError if there is none."""
    least = floor(where, by)
    long = reduced(where) is not where
    found = _long(where, least, costs, by).best(Effort()) if long else _placed(where, least, costs, by, Effort())
    if found is None:
        raise ScheduleError("poise: no schedule was found within the memory limit; raise it")
    return found


def _placed(
    whole: SchedulingProblem, least: Value, costs: Costs | None, by: str, effort: Effort
) -> Candidate | None:  # fmt: skip
    """The best of one placement; None where there is none."""
    seeds = (partial(_published, name, whole, costs, by, effort.whole) for name in _names(whole, PUBLISHED))
    found = improve(lines(whole, chain(seeds, steady(whole, 4)), by, least), least, effort)
    return found[0] if found else None


def _long(whole: SchedulingProblem, least: Value, costs: Costs | None, by: str) -> LongRun:
    """The same for a long run."""
    seeds: dict[str, Seed] = {name: partial(_published, name, whole, costs, by, 0) for name in _names(whole, LONG)}
    run = LongRun(whole, least, by, seeds)
    limited = min(whole.room) < whole.microbatches * whole.unit
    if limited and whole.ranks <= RANKS and "zb_v" in seeds:
        run.seeds["v_auto"] = partial(_published, "v_auto", whole, costs, by, EFFORT)
    return run


def _names(whole: SchedulingProblem, table: dict[Place, tuple[str, ...]]) -> tuple[str, ...]:
    """The schedules of a table for a placement."""
    return table.get((whole.stages // whole.ranks, whole.placement)) or table.get((0, whole.placement), ())


def _published(
    name: str, whole: SchedulingProblem, costs: Costs | None, by: str, effort: int, microbatches: int
) -> Rows:
    """A schedule by its name, with the arguments that it accepts from the problem."""
    chunks, known = whole.stages // whole.ranks, takes(name)
    room = min(whole.room) // whole.unit
    offered: dict[str, Any] = {"by": by, "kept": Fraction(whole.kept, whole.size), "effort": min(effort, EFFORT // 2)}
    if chunks > 1:
        offered |= {"chunks": chunks, "unit": max(whole.ranks, min(microbatches, room))}
    given = {word: value for word, value in offered.items() if word in known}
    limits = [Fraction(each, whole.unit) for each in whole.room]
    return rows_of(make(name, whole.ranks, microbatches, costs=costs, memory_limit=limits, **given))
