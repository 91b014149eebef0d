"""The proof that a schedule runs to its end and gives right gradients, or the first fault with its place and cure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph, graph_of
from poise.pipeline.memory import PLAIN, Weights, memory, within
from poise.pipeline.messages import check_messages
from poise.pipeline.schedule import Schedule
from poise.pipeline.walk import walk


@dataclass(frozen=True)
class Proof:
    """What was proven: everything runs once, in possible order, without deadlock, within `peak_memory`."""

    operations: int
    messages: int
    """Between ranks; counted from the operations where the schedule does not write them out."""
    peak_memory: tuple[Fraction, ...]
    """Per rank, in full-stage microbatch activations."""


def check(
    schedule: Schedule, *, memory_limit: Fraction | float | None = None, weights: Weights = PLAIN
) -> Proof:  # fmt: skip
    """Prove `schedule`, in linear time; ScheduleError names rank, slot, operation, rule and cure.

    Proven are: every microbatch passes every stage forward and backward exactly once; activations are used on the rank
    that has them; the order can run to its end; memory stays within `memory_limit` (full-stage microbatch activations)
    after every operation. Where communications are written out also: every result that another rank uses is sent and
    received once, in time; sends and receives match first in, first out between each two ranks, as messages without
    tags do; no deadlock, whether sends are buffered or wait for their receiver; gradients are scaled and reduced once,
    behind the last backward. Without them nothing of that can go wrong, since `communicate` derives them.
    """
    graph = graph_of(schedule)
    _alive(graph)
    waits = np.flatnonzero(graph.needs >= 0)
    messages = int((graph.rank[waits] != graph.rank[graph.needs[waits]]).sum())
    if schedule.communicates:
        check_messages(schedule, graph)
    levels = memory(graph, weights)
    if memory_limit is not None:
        within(graph, levels, memory_limit)
    return Proof(graph.first[-1], messages, tuple(levels.peaks))


def _alive(graph: Graph) -> None:
    """Every operation starts some day."""
    needs = graph.needs.tolist()
    zeros = [0] * len(needs)
    *_, stopped = walk(graph.first, needs, zeros, zeros)
    for rank, index in enumerate(stopped):
        if index < graph.first[rank + 1]:
            raise ScheduleError(_cycle(graph, needs, stopped, index))


def _cycle(graph: Graph, needs: list[int], stopped: list[int], index: int) -> str:
    """The ring of operations that wait for each other, told from `index` on."""
    seen: list[int] = []
    while index not in seen:
        seen.append(index)
        index = stopped[graph.rank[needs[index]]]
    ring = seen[seen.index(index) :]
    parts = [f"{graph.place(each)} waits for {graph.at(needs[each])[2]}" for each in ring]
    last = needs[ring[-1]]
    return (
        f"deadlock: {', '.join(parts)}, which comes after {graph.place(ring[0])}; "
        f"move {graph.at(last)[2]} before {graph.at(ring[0])[2]} on rank {graph.rank[last]}"
    )
