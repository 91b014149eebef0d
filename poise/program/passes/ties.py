"""Weights that are in several stages, as an embedding that is also the head: one gradient for all copies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from poise.core.errors import ProgramError
from poise.program.content import Content
from poise.program.passes.gradients import added
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at

LANE = "ties"
BACKWARDS = ("B", "W")


def tied(program: Program, ties: Sequence[Collection[int]]) -> Program:
    """Sum the gradients of weights of which several stages have a copy, over the ranks of these stages.

    ties: for each such weight its stages. Weight k is `tied{k}`, of which every rank with one of the stages has a sum
    `dtied{k}` to which the backwards of all these stages add. The mean over samples and the sum over ranks, on the lane
    `ties`, stand behind the last of them; then each rank updates its copy. The proof demands the gradients by all
    stages, so a copy that is updated without the sum is refused. ProgramError for stages that the Program does not
    have, and where weights change behind every backward.
    """
    into = Builder.of(program)
    stages = {stage for path in program.paths for stage in path}
    for number, each in enumerate(ties):
        missing = next((stage for stage in each if stage not in stages), None)
        if missing is not None:
            raise ProgramError(f"tied: weight {number} is in stage {missing}, which no sample passes; leave it out")
        if any("#" in name for name in program.demands):
            raise ProgramError(
                f"tied: weight {number} is in stages {', '.join(map(str, each))}, and weights change behind every "
                "backward, so its copies would drift apart; take a schedule that updates once a step"
            )
        _tie(into, program, f"tied{number}", frozenset(each))
    return into.build()


def _tie(into: Builder, program: Program, name: str, stages: frozenset[int]) -> None:
    samples = len(program.paths)
    into.demands[name] = {
        (name, stage, sample): Fraction(1, samples)
        for sample, path in enumerate(program.paths)
        for stage in path
        if stage in stages
    }
    found = {rank: _add(into.rows[Lane(rank, "compute")], name, stages) for rank in range(program.ranks)}
    ranks = tuple(rank for rank, count in found.items() if count)
    for rank in ranks:
        last = found[rank]
        names = [at(f"d{name}#{number}", rank) for number in range(last + 3)]
        weights = into.give(at(name, rank), Content.of("w", name, 0))
        into.give(names[0], Content({}))
        row = into.rows[Lane(rank, "compute")]
        first = next((slot for slot, task in enumerate(row) if task.kind == "update"), len(row))
        row.insert(first, Task("scale", rank, "compute", (names[last],), (names[last + 1],), arg=(1, samples)))
        if len(ranks) > 1:
            reads, writes = (names[last + 1],), (names[last + 2],)
            into.add(Task("all_reduce", rank, LANE, reads, writes, 0.0, ranks, name))
        gradient = names[last + (2 if len(ranks) > 1 else 1)]
        into.add(Task("update", rank, "compute", (weights, gradient), (at(f"{name}#1", rank),)))


def _add(row: list[Task], name: str, stages: frozenset[int]) -> int:
    """Let the backwards of a rank add to the sum as well; how many do."""
    count = 0
    for slot, task in enumerate(row):
        if task.kind in BACKWARDS and task.arg[0] in stages:
            behind = (2 if task.kind == "B" else 1) + len(added(task))  # context, weights, and the sums there are
            old, new = (at(f"d{name}#{number}", task.rank) for number in (count, count + 1))
            reads = (*task.reads[:behind], old, *task.reads[behind:])
            row[slot] = task._replace(reads=reads, writes=(*task.writes, new))
            count += 1
    return count
