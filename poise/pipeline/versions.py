"""Which weights forwards and backwards use where weights change behind every backward, and the rules of that.

A version is how often the weights of a stage have changed on its rank: the number of W or B of the stage that come
before. "stash" and "vertical" are PipeDream's (Narayanan et al., SOSP 2019, section 3.3), "latest" is pipelined
backpropagation (Kosson et al., MLSys 2021).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph, Ints, graph_of
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Schedule

UPDATES = ("flush", "stash", "vertical", "latest")


class Version(NamedTuple):
    """The versions of one (stage, microbatch)."""

    forward: int
    backward: int
    newest: int
    """When the backward runs; the difference to `backward` is its staleness."""


Versions = dict[tuple[int, int], Version]


def versions(schedule: Schedule) -> Versions:
    """The versions of all pairs (stage, microbatch); all 0 where weights change but once, at the end."""
    graph = graph_of(schedule)
    check_updates(graph)
    count = schedule.microbatches
    pairs = np.flatnonzero(graph.forward >= 0)
    if schedule.updates == "flush":
        return {divmod(pair, count): Version(0, 0, 0) for pair in pairs.tolist()}
    before = _updates_before(graph)
    forward, newest = before[graph.forward[pairs]], before[graph.gradient[pairs]]
    if schedule.updates == "vertical":
        forward = before[graph.forward[pairs % count]]
    backward = newest if schedule.updates == "latest" else forward
    columns = zip(pairs.tolist(), forward.tolist(), backward.tolist(), newest.tolist(), strict=True)
    return {divmod(pair, count): Version(*three) for pair, *three in columns}


def check_updates(graph: Graph) -> None:
    """Weights change in the order of the microbatches, and the first stage's version is known wherever it is used."""
    schedule = graph.schedule
    if schedule.updates not in UPDATES:
        raise ScheduleError(f"updates {schedule.updates!r}; give {', '.join(UPDATES[:-1])} or {UPDATES[-1]}")
    if schedule.updates == "flush":
        return
    done = np.flatnonzero((graph.kind == Kind.W) | (graph.kind == Kind.B))
    order = done[np.lexsort((done, graph.stage[done], graph.rank[done]))]
    same = (np.diff(graph.stage[order]) == 0) & (np.diff(graph.rank[order]) == 0)
    wrong = np.flatnonzero(same & (np.diff(graph.microbatch[order]) < 0))
    if len(wrong):
        one, two = int(order[wrong[0]]), int(order[wrong[0] + 1])
        raise ScheduleError(
            f"{graph.place(two)} comes after {graph.place(one)}; each changes the weights, which must happen in the "
            "order of the microbatches: swap them, or choose updates flush"
        )
    if schedule.updates == "vertical":
        _comparable(schedule)


def _comparable(schedule: Schedule) -> None:
    """Versions of two stages are the same microbatches' only if both have as many copies."""
    for stage, homes in enumerate(schedule.homes):
        if len(homes) != len(schedule.homes[0]):
            raise ScheduleError(
                f"stage {stage} has copies on {len(homes)} ranks and stage 0 on {len(schedule.homes[0])}; with updates "
                "vertical all stages need as many, since the version of the first is used: choose updates stash"
            )


def _updates_before(graph: Graph) -> Ints:
    """For each operation how many W or B of its stage come before it on its rank."""
    changes = (graph.kind == Kind.W) | (graph.kind == Kind.B)
    order = np.lexsort((np.arange(len(graph.kind)), graph.stage, graph.rank))
    sorted_changes = changes[order].astype(np.int64)
    running = np.cumsum(sorted_changes) - sorted_changes
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(graph.rank[order]) != 0) | (np.diff(graph.stage[order]) != 0)
    starts = np.flatnonzero(new)
    base = np.repeat(running[starts], np.diff([*starts.tolist(), len(order)]))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = running - base
    return found
