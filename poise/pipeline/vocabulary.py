"""The rules of vocabulary passes: each rank has a shard of the output layer, whose passes S and T wait at barriers."""

from __future__ import annotations

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph, ordered
from poise.pipeline.op import Kind

_PASSES = (Kind.S, Kind.T)


def check_vocabulary(graph: Graph) -> None:
    """Check that every rank has S and then T of every microbatch, and that all reach each barrier in one order."""
    barriers = graph.schedule.barriers
    if barriers not in (0, 1, 2):
        raise ScheduleError(f"{barriers} barriers; vocabulary passes have 1 or 2, and 0 is for none")
    passes = np.flatnonzero((graph.kind == Kind.S) | (graph.kind == Kind.T))
    if len(passes) and not barriers:
        raise ScheduleError(f"{graph.place(int(passes[0]))} is a vocabulary pass; say barriers 1 or 2 of the schedule")
    moved = passes[graph.stage[passes] != graph.rank[passes]]
    if len(moved):
        shard = int(graph.stage[moved[0]])
        raise ScheduleError(f"{graph.place(int(moved[0]))} is of shard {shard}, which rank {shard} has; move it there")
    if barriers:
        _everywhere(graph)
        ordered(graph, (graph.beside[Kind.S], graph.beside[Kind.T]))
        for kind in _PASSES[:barriers]:
            _same_order(graph, kind)


def _everywhere(graph: Graph) -> None:
    """All passes on all ranks."""
    ranks, stages, count = len(graph.first) - 1, graph.schedule.stages, graph.schedule.microbatches
    for kind in _PASSES:
        there = np.zeros((max(ranks, stages), count), dtype=bool)
        if graph.beside:
            there[:stages] = graph.beside[kind].reshape(stages, count) >= 0
        missing = np.argwhere(~there[:ranks])
        if len(missing):
            rank, batch = missing[0].tolist()
            raise ScheduleError(
                f"{rank}{kind.name}{batch} never runs on rank {rank}; each rank has a shard of the vocabulary "
                "with an S and a T of every microbatch, so add it"
            )


def _same_order(graph: Graph, kind: Kind) -> None:
    """Check barriers, which are collectives: two ranks with different orders use wrong sums, or hang."""
    orders = graph.microbatch[graph.kind == kind].reshape(len(graph.first) - 1, -1)
    other = np.argwhere(orders != orders[0])
    if len(other):
        rank, at = other[0].tolist()
        name = kind.name
        raise ScheduleError(
            f"rank {rank} runs {rank}{name}{orders[rank, at]} where rank 0 runs 0{name}{orders[0, at]}; the barrier "
            f"behind {name} sums over all ranks, so bring {name} into one order of microbatches"
        )
