"""The exact optimum of Zero Bubble (Qi et al., ICLR 2024, appendix G): by constraints, not by integer programming."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from poise.core.errors import ScheduleError
from poise.pipeline.candidate import Candidate, true
from poise.pipeline.certified import Certified, certify
from poise.pipeline.constraint_graph import rows_of
from poise.pipeline.costs import Costs
from poise.pipeline.exact import Found, cp_model, solve
from poise.pipeline.memory import Limit
from poise.pipeline.op import Op
from poise.pipeline.schedules.poise import within
from poise.pipeline.scheduling_problem import problem
from poise.pipeline.search import floor

MOST = 3000
"""The most operations for which a proof is attempted."""


def zb_exact(
    stages: int, microbatches: int, costs: Costs | None = None, memory_limit: Limit | None = None, chunks: int = 1,
    placement: str = "wave", by: str = "makespan", kept: Fraction | float = 1, seconds: float = 20,
) -> Certified:  # fmt: skip
    """No schedule of this placement is better, if its certificate says `optimal`; else its `bound` is the proven one.

    Any times, messages and limit, one chunk per rank or more as a wave (two: a V) or in a loop; by makespan or by (the
    largest bubble in a) span. The search starts from what `poise` finds and ends with a proof or after a time limit.
    What reaches the bound of `bound.py` needs no search. Needs OR-Tools (`poise[train]`).
    """
    if by not in ("makespan", "span") or seconds <= 0:
        raise ScheduleError(f"zb_exact: by {by!r}, seconds {seconds:g}; give makespan or span, and some time")
    cp_model()
    where = problem(
        "zb_exact", stages, microbatches, costs=costs, limit=memory_limit, chunks=chunks, placement=placement, kept=kept
    )
    if 3 * where.stages * microbatches > MOST:
        raise ScheduleError(
            f"zb_exact: {3 * where.stages * microbatches} operations are too many to prove an optimum for, at most "
            f"{MOST}; give fewer microbatches, or choose poise, which tells how far from its bound it is"
        )
    least = floor(where, by)[0]
    line = within(where, costs, by)
    if line.value[0] > least:
        found = solve(where, by, _starts(line), least, line.value[0], seconds)
        line, least = _better(line, found), found.bound
    proof = "bound" if least <= floor(where, by)[0] else "search"
    bound = Fraction(least, where.durations.scale)
    return certify(replace(line.schedule, name="zb_exact"), by, true(line)[0], bound, proof)


def _starts(line: Candidate) -> dict[Op, int]:
    starts = line.times[0]
    rows = zip(line.schedule.ranks, line.orders, strict=True)
    return {op: starts[number] for ops, order in rows for op, number in zip(ops, order, strict=True)}


def _better(line: Candidate, found: Found) -> Candidate:
    """What the search found, where it is better; its times follow from its orders."""
    if found.ranks is None:
        return line
    other = Candidate(line.net, rows_of(replace(line.schedule, ranks=found.ranks)), line.by)
    return min(line, other, key=lambda each: each.value)
