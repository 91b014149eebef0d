"""A published V schedule at the true times: the best of its orders, and of what squeezing makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from poise.pipeline.candidate import Candidate
from poise.pipeline.constraint_graph import Rows, rows_of
from poise.pipeline.costs import Costs
from poise.pipeline.schedule import Schedule
from poise.pipeline.scheduling_problem import SchedulingProblem, problem
from poise.pipeline.search import Effort, floor, full, improve, line_of, reduced

Make = Callable[[int], Schedule]
"""From a number of microbatches to a schedule of it."""

EFFORT = 60_000
"""Operations that squeezing may place."""


def fitted(made: Sequence[Make], microbatches: int, costs: Costs | None, effort: int = EFFORT) -> Schedule:
    """The best at these costs of some orders of one schedule, and of what squeezing (squeeze.py) makes of the best.

    All have two chunks per rank as a V. None in `made` is faster than the result, and it holds no more at its peak than
    they. Without costs it is the best of the orders at T_F = T_B = T_W. A long run repeats the steady state of a short
    one, of the orders the one at T_F = T_B = T_W.
    """
    ranks = len(made[0](1).ranks)
    small = reduced(problem("", ranks, microbatches, costs=None, chunks=2)).microbatches
    rows = [rows_of(make(small)) for make in made]
    limit = max(_peak(each, ranks, small) for each in rows)
    plain, whole = (problem("", ranks, microbatches, costs=each, limit=limit, chunks=2) for each in (None, costs))
    orders = [_long(each, make, plain) for each, make in zip(rows, made, strict=True)]
    found = [Candidate(whole.net, each, "makespan") for each in orders]
    short = reduced(whole)
    begun = found if short is whole else [line_of(short, each, "makespan") for each in rows]
    if costs is not None and effort:
        some = Effort(effort if short is whole else 1)  # one step, where steps are long
        tried = improve(sorted(begun, key=_value)[:1], floor(short, "makespan"), some, 1)
        found += [line for line in (full(each, whole) for each in tried[:1]) if line]
    return replace(min(found, key=_value).schedule, name=rows[0].name)


def _value(line: Candidate) -> int:
    return line.value[0]


def _peak(rows: Rows, ranks: int, microbatches: int) -> Fraction:
    """The most full-stage activations that a rank holds."""
    change, pairs = np.array([1, 0, -1]), 2 * ranks * microbatches
    return Fraction(max(int(change[row // pairs].cumsum().max()) for row in rows.ranks), 2)


def _long(rows: Rows, make: Make, whole: SchedulingProblem) -> Rows:
    """The rows of all microbatches, from those of a short run if they repeat themselves."""
    short = reduced(whole)
    if short is whole:
        return rows
    found = full(line_of(short, rows, "makespan"), whole)
    return rows_of(make(whole.microbatches)) if found is None else found.rows
