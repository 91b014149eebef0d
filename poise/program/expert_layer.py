"""A layer of experts over nodes and their ranks, as a Program whose tasks run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.content import Content
from poise.program.program import Builder, Program
from poise.program.task import Task, at

EXCHANGE, NODE = "exchange", "node"
"""Lanes of collectives over nodes and inside a node."""


class Works(NamedTuple):
    """The work of each task of a layer, in any unit that a clock makes seconds of."""

    dispatch: float = 0.0
    gather: float = 0.0
    up: float = 0.0
    down: float = 0.0
    scatter: float = 0.0
    combine: float = 0.0


NOTHING = Works()


def expert_layer(
    nodes: int, local: int = 1, works: Works = NOTHING, *, before: Sequence[float] = (), reduction: float = 0.0
) -> Program:
    """A layer on nodes × local ranks; rank n·local + j is number j of node n. ProgramError for no nodes or ranks.

    local: ranks of a node, each of which has a part of all experts of the node; 1: each rank has its own experts whole.
    before: works of the operators before the layer, to whose output that of the layer is added.  reduction: work of a
    sum of other gradients over all ranks, which begins when the tokens are home.
    """
    if nodes < 1 or local < 1:
        raise ProgramError(f"expert_layer: {nodes} nodes of {local} ranks; give 1 or more of each")
    build = Builder(f"experts on {nodes} nodes of {local}")
    for rank in range(nodes * local):
        _Rank(build, rank, nodes, local).lay(works, before)
        if reduction:
            _reduction(build, rank, nodes * local, reduction)
    if reduction:
        build.demands["shared"] = {("shared", 0, rank): 1 for rank in range(nodes * local)}
    return build.build()


class _Rank:
    def __init__(self, build: Builder, rank: int, nodes: int, local: int) -> None:
        self.build, self.rank, self.local = build, rank, local
        self.across = tuple(node * local + rank % local for node in range(nodes))
        self.within = tuple(rank - rank % local + each for each in range(local))

    def lay(self, works: Works, before: Sequence[float]) -> None:
        """The tasks of the rank."""
        self.layer, last, nested = len(before), f"state{len(before)}", self.local > 1
        self.build.give(at("state0", self.rank), Content.of("tokens", 0, self.rank))
        for number, work in enumerate(before):
            self._add("dense", "compute", f"state{number}", f"state{number + 1}", work)
        self._add("split", "compute", last, "own.0")
        self._add("dispatch", EXCHANGE, "own.0", "sent.0", works.dispatch, self.across)
        if nested:
            self._add("token_gather", NODE, "sent.0", "there.0", works.gather, self.within)
        self._add("up", "compute", "there.0" if nested else "sent.0", "hidden.0", works.up)
        self._add("down", "compute", "hidden.0", "made.0", works.down)
        if nested:
            self._add("token_scatter", NODE, "made.0", "back.0", works.scatter, self.within)
        self._add("combine", EXCHANGE, "back.0" if nested else "made.0", "home.0", works.combine, self.across)
        self._add("join", "compute", "home.0", "joined")
        names = (at(last, self.rank), at("joined", self.rank)), (at("output", self.rank),)
        self.build.add(Task("add", self.rank, "compute", *names))

    def _add(
        self, kind: str, lane: str, read: str, write: str, work: float = 0.0, group: tuple[int, ...] = ()
    ) -> None:  # fmt: skip
        arg = None if kind in ("split", "join", "dense") else (self.layer, 0, 1)
        names = (at(read, self.rank),), (at(write, self.rank),)
        self.build.add(Task(kind, self.rank, lane, *names, work, group, arg))


def _reduction(build: Builder, rank: int, ranks: int, work: float) -> None:
    """Of gradients that are there from the beginning, and the update with their sum."""
    build.give(at("shared#0", rank), Content.of("w", "shared", 0))
    build.give(at("dshared", rank), Content.of("shared", 0, rank))
    names = (at("dshared", rank),), (at("dshared#1", rank),)
    build.add(Task("all_reduce", rank, EXCHANGE, *names, work, tuple(range(ranks)), "shared"))
    reads = (at("shared#0", rank), at("dshared#1", rank))
    build.add(Task("update", rank, "optimizer", reads, (at("shared#1", rank),)))
