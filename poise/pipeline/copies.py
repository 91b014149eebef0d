"""What is recomputed, and what is copied to the host and back: the rules, and the order of a rank's copies."""

from __future__ import annotations

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph, Ints, ordered
from poise.pipeline.op import Kind

Copy = tuple[int, int]
"""OFFLOAD or RELOAD (index in the graph), and the operation behind which its copy may begin."""


def check_copies(graph: Graph) -> None:
    """Check R, OFFLOAD and RELOAD: each belongs to a forward, on its rank, and lies between it and its backward.

    What is offloaded is reloaded. An R comes before the OFFLOAD of the same activations: between the forward and the R
    there is but the input to be copied.
    """
    again, away, back = (graph.beside[kind] for kind in (Kind.R, Kind.OFFLOAD, Kind.RELOAD))
    for table in (again, away, back):
        _only(graph, table, graph.forward, "concerns a stage that its microbatch does not pass; remove it")
    _only(graph, away, back, "has no RELOAD, though the backward needs what it takes away; add one before that")
    _only(graph, back, away, "brings back what no OFFLOAD has taken away; remove it")
    for table in (again, away, back):
        ordered(graph, (graph.forward, table), (table, graph.gradient))
    ordered(graph, (again, away), (away, back))


def _only(graph: Graph, table: Ints, other: Ints, fault: str) -> None:
    """Where `table` has an operation, `other` has one too."""
    alone = np.flatnonzero((table >= 0) & (other < 0))
    if len(alone):
        raise ScheduleError(f"{graph.place(int(table[alone[0]]))} {fault}")


def reloads(graph: Graph) -> dict[int, int]:
    """For each backward that waits for a RELOAD, that RELOAD."""
    if not graph.beside:
        return {}
    back = graph.beside[Kind.RELOAD]
    pairs = back >= 0
    return dict(zip(graph.gradient[pairs].tolist(), back[pairs].tolist(), strict=True))


def streams(graph: Graph, shared: bool) -> list[list[Copy]]:
    """The copies of each link, in its order: that in which they may begin. Two links to a rank, or a `shared` one."""
    found: list[list[Copy]] = []
    if not graph.beside:
        return found
    away, back, again = (graph.beside[kind] for kind in (Kind.OFFLOAD, Kind.RELOAD, Kind.R))
    pairs = np.flatnonzero(away >= 0)
    made = np.where(again[pairs] >= 0, again[pairs], graph.forward[pairs])
    order = np.argsort(made)
    down = list(zip(away[pairs][order].tolist(), made[order].tolist(), strict=True))
    up = [(index, index) for index in np.sort(back[pairs]).tolist()]
    cuts = [np.searchsorted(starts, graph.first).tolist() for starts in (made[order], np.sort(back[pairs]))]
    for rank in range(len(graph.first) - 1):
        own = [each[cut[rank] : cut[rank + 1]] for each, cut in zip((down, up), cuts, strict=True)]
        found += [sorted(own[0] + own[1], key=lambda copy: copy[1])] if shared else own
    return [each for each in found if each]
