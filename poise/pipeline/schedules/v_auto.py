"""The adaptive scheduler of Qi et al., "Pipeline Parallelism with Controllable Memory" (NeurIPS 2024, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.constraint_graph import Rows, rows_of
from poise.pipeline.costs import Costs
from poise.pipeline.family import family, lengths, repeat
from poise.pipeline.memory import Limit
from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.v_half import v_half
from poise.pipeline.schedules.v_min import v_min
from poise.pipeline.schedules.zb_v import zb_v
from poise.pipeline.scheduling_problem import SchedulingProblem, problem
from poise.pipeline.search import EFFORT, Effort, Seed, floor, full, improve, lines, reduced

TRIED = 12
"""Blocks that are squeezed, the best ones as they are."""

MANY, FEW, KEPT = 12, 12, 16
"""With more ranks than that, blocks are compared on few microbatches first, and this many of them kept."""


def v_auto(
    stages: int, microbatches: int, costs: Costs | None = None, memory_limit: Limit | None = None,
    kept: Fraction | float = 1, by: str = "makespan", effort: int = EFFORT // 2,
) -> Schedule:  # fmt: skip
    """Two chunks per rank as a V: of all building blocks that the limit allows the one that ends first.

    Every block (see `family.py`) is repeated and timed with the true costs, the best are squeezed within the limit, the
    best of these is taken, by makespan or by span. ZB-V takes part, of short runs also V-Half and V-Min as published.
    `memory_limit` is in full-stage activations (default p, as ZB-V), one or one per rank; `effort` are the operations
    that squeezing may place. Long runs choose on a short one and repeat its steady state.
    """
    limit = stages if memory_limit is None else memory_limit
    whole = problem("v_auto", stages, microbatches, costs=costs, limit=limit, chunks=2, kept=kept)
    small = reduced(whole)
    fixed = [partial(_fixed, made, stages) for made in ((zb_v, v_half, v_min) if small is whole else (zb_v,))]
    under = floor(small, by)
    tried = lines(small, chain(fixed, blocks(small, by, TRIED if small is whole else 3)), by, under)
    if not tried:
        raise ScheduleError(f"v_auto: no block fits {min(whole.room) / whole.unit:g} activations; {least(stages)}")
    for line in improve(tried, under, Effort(effort), 2 if small is whole else 4, few=small is not whole):
        found = full(line, whole)
        if found is not None:
            return replace(found.schedule, name="v_auto")
    raise ScheduleError(f"v_auto: no steady state was found to repeat for {microbatches} microbatches; choose poise")


def least(stages: int) -> str:
    """The cure where no block fits."""
    return f"the smallest needs {family(stages).peaks.max(axis=1).min() / 2:g}: give that, or choose zb_auto or poise"


def blocks(problem: SchedulingProblem, by: str, count: int) -> Iterator[Seed]:
    """The best of the blocks that fit the shop of a V, as they are."""
    slots = family(problem.ranks).within(np.array(problem.room) // problem.size).slots
    if not len(slots):
        return
    if problem.ranks > MANY:
        slots = slots[np.sort(_order(slots, reduced(problem, FEW), by)[:KEPT])]
    for each in _order(slots, reduced(problem, problem.ranks + 8), by)[:count]:
        yield partial(_made, slots[each])


def _order(slots: np.ndarray, problem: SchedulingProblem, by: str) -> np.ndarray:
    """The best blocks first."""
    first, second = lengths(slots, problem)
    return np.lexsort((second, first) if by == "makespan" else (first, second))


def _made(slots: np.ndarray, microbatches: int) -> Rows:
    return repeat(slots, microbatches, "v_auto")


def _fixed(made: Callable[[int, int], Schedule], stages: int, microbatches: int) -> Rows:
    return rows_of(made(stages, microbatches))
