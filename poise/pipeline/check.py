"""The proof that a schedule runs to its end and gives right gradients, or the first fault with its place and cure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import graph_of
from poise.pipeline.memory import PLAIN, Limit, Weights, memory, within
from poise.pipeline.messages import check_messages
from poise.pipeline.rows import rows_of
from poise.pipeline.schedule import Schedule
from poise.pipeline.versions import check_updates


@dataclass(frozen=True)
class Proof:
    """What was proven: everything runs once, in possible order, without deadlock, within `peak_memory`."""

    operations: int
    messages: int
    """Between ranks; counted from the operations where the schedule does not write them out."""
    peak_memory: tuple[Fraction, ...]
    """Per rank, in full-stage microbatch activations."""
    idle: tuple[int, ...] = ()
    """Ranks without operations: allowed, but they do nothing."""


def check(
    schedule: Schedule, *, memory_limit: Limit | None = None, weights: Weights = PLAIN
) -> Proof:  # fmt: skip
    """Prove `schedule`, in linear time; ScheduleError names rank, slot, operation, rule and cure.

    Proven are: every microbatch passes every stage on its path forward and backward exactly once; activations are used
    on the rank that has them, recomputed or reloaded in time where they were given up; vocabulary passes are complete
    and reach their barriers in one order; weights change in the order of the microbatches where they change behind
    every backward; the order can run to its end; memory stays within `memory_limit` (full-stage microbatch activations)
    at every instant. Where communications are written out also: every result that another rank uses is sent and
    received once, in time; sends and receives match first in, first out between each two ranks, as messages without
    tags do; no deadlock, whether sends are buffered or wait for their receiver; gradients are scaled and reduced once,
    behind the last backward. Without them nothing of that can go wrong, since `communicate` derives them.
    """
    graph = graph_of(schedule)
    ring = rows_of(graph).cycle()
    if ring:
        raise ScheduleError(ring)
    check_updates(graph)
    waits = np.flatnonzero(graph.needs >= 0)
    messages = int((graph.rank[waits] != graph.rank[graph.needs[waits]]).sum())
    if schedule.communicates:
        check_messages(schedule, graph)
    levels = memory(graph, weights)
    if memory_limit is not None:
        within(graph, levels, memory_limit)
    idle = tuple(rank for rank, (low, high) in enumerate(pairwise(graph.first)) if low == high)
    return Proof(graph.first[-1], messages, tuple(levels.peaks), idle)
