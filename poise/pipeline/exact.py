"""The best schedule of a small shop, or how near a found one is to it, by constraint programming (OR-Tools CP-SAT)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from poise.core.errors import ScheduleError
from poise.core.extras import install
from poise.pipeline.op import Kind, Op
from poise.pipeline.scheduling_problem import SchedulingProblem

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

F, I, W = Kind.F, Kind.I, Kind.W  # noqa: E741

Starts = dict[Op, int]

WORKERS = 8
"""Search strategies side by side, whatever the cores: each finds what the others do not."""


class Found(NamedTuple):
    """Orders of all ranks, or None where none was found in time; `bound` in ticks."""

    ranks: tuple[tuple[Op, ...], ...] | None
    bound: int
    optimal: bool


def solve(problem: SchedulingProblem, by: str, hint: Starts, known: int, most: int, seconds: float) -> Found:
    """Search until the best is proven or `seconds` are over.

    Every operation is an interval of its rank; a rank's room is a reservoir. Microbatches that take the same time pass
    each stage in order, which loses nothing. `known` is a lower bound and `most` the value of the `hint`, in ticks.
    """
    cp = cp_model()
    model = _Model(cp.CpModel(), problem, most if by == "makespan" else 2 * max(problem.work) + most)
    model.minimize(by, known, most)
    for op, start in hint.items():
        model.cp.add_hint(model.start[op], start)
    solver = cp.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = WORKERS
    status = solver.solve(model.cp)
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        return Found(None, max(known, int(solver.best_objective_bound)), False)
    times = {op: (solver.value(start), *model.key(op)) for op, start in model.start.items()}
    rows = (
        sorted((op for op in times if problem.route[op.stage] == rank), key=times.__getitem__)
        for rank in range(problem.ranks)
    )
    return Found(tuple(map(tuple, rows)), max(known, int(solver.best_objective_bound)), status == cp.OPTIMAL)


def cp_model() -> Any:
    """OR-Tools, or ScheduleError with the cure."""
    try:
        from ortools.sat.python import cp_model as found
    except ImportError:
        raise ScheduleError(
            f"zb_exact: needs OR-Tools, which is not installed; {install('train')}, or choose poise or zb_auto"
        ) from None
    return found


class _Model:
    """Variables and constraints of a shop."""

    def __init__(self, cp: CpModel, problem: SchedulingProblem, horizon: int) -> None:
        self.cp, self.problem, self.horizon = cp, problem, horizon
        self.start: dict[Op, IntVar] = {
            Op(stage, kind, batch): cp.new_int_var(0, horizon, "")
            for stage in range(problem.stages) for kind in (F, I, W) for batch in problem.batches
        }  # fmt: skip
        self._ways()
        for rank in range(problem.ranks):
            self._machine(rank)
            self._room(rank)
        if len(set(problem.durations.microbatch)) == 1:
            self._in_order()

    def ticks(self, op: Op) -> int:
        """How long it takes."""
        return self.problem.ticks(op.kind, op.stage, op.microbatch or 0)

    def key(self, op: Op) -> tuple[int, int, int]:
        """Order of operations that start at one instant: the one that takes no time first, then by need."""
        return self.ticks(op), op.kind, op.stage if op.kind is F else -op.stage

    def end(self, op: Op) -> Any:
        """When it ends."""
        return self.start[op] + self.ticks(op)

    def minimize(self, by: str, known: int, most: int) -> None:
        """The makespan, or the largest bubble in a span, between these."""
        goal = self.cp.new_int_var(min(known, most), most, "goal")
        for stage, rank in enumerate(self.problem.route):
            less = self.problem.work[rank] + self._head(self.problem.at[rank][0]) if by == "span" else 0
            for batch in self.problem.batches:
                self.cp.add(self.end(Op(stage, W, batch)) - less <= goal)
        self.cp.minimize(goal)

    def _head(self, stage: int) -> int:
        """When the first microbatch reaches a stage whose rank has nothing to do before."""
        return sum(self.ticks(Op(before, F, 0)) + self.problem.hops[before] for before in range(stage))

    def _ways(self) -> None:
        problem, last = self.problem, self.problem.stages - 1
        for batch in problem.batches:
            for stage in range(last):
                hop = problem.hops[stage]
                one, two = Op(stage, F, batch), Op(stage + 1, F, batch)
                self.cp.add(self.start[two] >= self.end(one) + hop)
                one, two = Op(stage + 1, I, batch), Op(stage, I, batch)
                self.cp.add(self.start[two] >= self.end(one) + hop)
            self.cp.add(self.start[Op(last, I, batch)] >= self.end(Op(last, F, batch)))
            for stage in range(last + 1):
                self.cp.add(self.start[Op(stage, W, batch)] >= self.end(Op(stage, I, batch)))

    def _machine(self, rank: int) -> None:
        here = [op for op in self.start if self.problem.route[op.stage] == rank]
        self.cp.add_no_overlap(
            self.cp.new_fixed_size_interval_var(self.start[op], self.ticks(op), "") for op in here if self.ticks(op)
        )

    def _room(self, rank: int) -> None:
        """Activations of the forwards and all releases; memory freed at a time is available to starts at that time."""
        problem = self.problem
        if problem.room[rank] >= problem.microbatches * problem.size * len(problem.at[rank]):
            return
        times, changes = [], []
        for op in self.start:
            if problem.route[op.stage] == rank:
                change = {F: problem.size, I: problem.kept - problem.size, W: -problem.kept}[op.kind]
                if change:
                    times.append(self.start[op] if op.kind is F else self.end(op))
                    changes.append(change)
        self.cp.add_reservoir_constraint(times, changes, 0, problem.room[rank])

    def _in_order(self) -> None:
        for stage in range(self.problem.stages):
            for kind in (F, I, W):
                for batch in self.problem.batches[1:]:
                    one, two = Op(stage, kind, batch - 1), Op(stage, kind, batch)
                    self.cp.add(self.start[two] >= self.end(one))
