"""Where each operation of a rank gets its inputs from, and where its result goes."""

from __future__ import annotations

from typing import NamedTuple

from poise.pipeline.communicate import communicate
from poise.pipeline.graph import Graph, graph_of
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule


class Place(NamedTuple):
    """A stage on a rank."""

    rank: int
    stage: int


class Task(NamedTuple):
    """An operation with the places before and after it in the microbatch's way; None at the ends of the pipeline."""

    op: Op
    source: Place | None
    target: Place | None


def tasks_of(schedule: Schedule, rank: int) -> list[Task]:
    """The row of `rank`, with its communications (derived where they are not written out)."""
    whole = schedule if schedule.communicates else communicate(schedule)
    graph = graph_of(schedule)
    ways = _ways(graph, rank)
    forward = {Kind.F, Kind.SEND_F, Kind.RECV_F}
    found = []
    for op in whole.ranks[rank]:
        source, target = ways.get((op.kind in forward, op.stage, op.microbatch), (None, None))
        found.append(Task(op, source, target))
    return found


def _ways(graph: Graph, rank: int) -> dict[tuple[bool, int, int | None], tuple[Place | None, Place | None]]:
    """Source and target of every forward (True) and input gradient (False) on `rank`."""
    needs, ranks, stages = graph.needs.tolist(), graph.rank.tolist(), graph.stage.tolist()
    users = {need: index for index, need in enumerate(needs) if need >= 0}

    def place(index: int) -> Place | None:
        return None if index < 0 else Place(ranks[index], stages[index])

    found = {}
    for index in range(graph.first[rank], graph.first[rank + 1]):
        _, _, op = graph.at(index)
        if op.kind in (Kind.F, Kind.I, Kind.B):
            found[op.kind is Kind.F, op.stage, op.microbatch] = place(needs[index]), place(users.get(index, -1))
    return found
