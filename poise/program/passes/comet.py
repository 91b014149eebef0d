"""Tiles of the experts' products that begin as their tokens arrive, and go home as their columns are done: Comet.

After Zhang et al., "Comet: Fine-grained Computation-communication Overlapping for Mixture-of-Experts" (MLSys 2025,
arXiv 2502.19811), section 3: the first product is cut by tokens, in the order of their arrival, a rank's own first; the
second by columns, of all experts at once, as the outputs of a token are summed over experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.expert_layer import EXCHANGE
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at


def fine_grained(program: Program, columns: int) -> Program:
    """A layer (`poise.program.expert_layer`, one rank a node) with messages for the dispatch, and column blocks.

    Rank r gets the tokens of r + 1, r + 2, … in turn, so that at each time every rank sends and receives one message.
    A message has an equal part of the dispatch's work, as has a tile of the first product. ProgramError for fewer than
    1 column block, and for a layer with collectives inside a node or in chunks.
    """
    if columns < 1:
        raise ProgramError(f"fine_grained: {columns} column blocks; give 1 or more")
    into = Builder.of(program)
    for lane in list(into.rows):
        if any(task.kind == "token_gather" or (task.kind == "up" and task.arg[2] > 1) for task in into.rows[lane]):
            raise ProgramError(f"fine_grained: {lane} has chunks or collectives inside a node; give a layer without")
    for rank in range(program.ranks):
        _Rank(into, rank, program.ranks, columns).cut()
    return into.build()


class _Rank:
    def __init__(self, into: Builder, rank: int, ranks: int, columns: int) -> None:
        self.into, self.rank, self.ranks, self.columns = into, rank, ranks, columns
        self.order = [(rank + step) % ranks for step in range(ranks)]
        """Whose tokens are computed in turn."""
        self.parts = {task.kind: task for lane in ("compute", EXCHANGE) for task in into.rows[Lane(rank, lane)]}

    def cut(self) -> None:
        """Write the rank's lanes anew."""
        compute, exchange = Lane(self.rank, "compute"), Lane(self.rank, EXCHANGE)
        before = [task for task in self.into.rows[compute] if task.kind == "dense"]
        sums = [task for task in self.into.rows[exchange] if task.kind == "all_reduce"]
        self.into.rows[compute] = before
        self.into.rows[exchange] = [*self._homeward(), *sums]
        self._arriving()
        self._computing()

    def _name(self, text: str) -> str:
        return at(text, self.rank)

    def _arriving(self) -> None:
        part = self.parts["dispatch"]
        own = tuple(self._name(f"from{self.rank}.to{target}") for target in range(self.ranks))
        self.into.add(self.parts["split"])
        self.into.add(Task("route", self.rank, "compute", part.reads, own, arg=part.arg))
        work = part.work / max(self.ranks - 1, 1)
        for step in range(1, self.ranks):
            target, source = (self.rank - step) % self.ranks, (self.rank + step) % self.ranks
            self._move("send", (self.rank, target), work)
            self._move("recv", (source, self.rank), work)

    def _move(self, kind: str, pair: tuple[int, int], work: float) -> None:
        name = (self._name(f"from{pair[0]}.to{pair[1]}"),)
        reads, writes = (name, ()) if kind == "send" else ((), name)
        self.into.add(Task(kind, self.rank, "to" if kind == "send" else "from", reads, writes, work, pair))

    def _computing(self) -> None:
        up, down, join = self.parts["up"], self.parts["down"], self.parts["join"]
        for source in self.order:
            names = (self._name(f"from{source}.to{self.rank}"),), (self._name(f"hidden{source}"),)
            self.into.add(up._replace(reads=names[0], writes=names[1], work=up.work / self.ranks))
        reads = tuple(self._name(f"hidden{source}") for source in range(self.ranks))
        for column in range(self.columns):
            made, arg = (self._name(f"made.{column}"),), (down.arg[0], column, self.columns)
            self.into.add(down._replace(reads=reads, writes=made, work=down.work / self.columns, arg=arg))
        self.into.add(join._replace(reads=tuple(self._name(f"home.{column}") for column in range(self.columns))))
        self.into.add(self.parts["add"])

    def _homeward(self) -> Sequence[Task]:
        part, arg = self.parts["combine"], self.parts["combine"].arg[0]
        return [
            part._replace(
                reads=(self._name(f"made.{column}"),), writes=(self._name(f"home.{column}"),),
                work=part.work / self.columns, arg=(arg, column, self.columns),
            )
            for column in range(self.columns)
        ]  # fmt: skip


class Tiled(NamedTuple):
    """Seconds of all of a layer's exchange there and back, and of its two products, where they run side by side."""

    there: float
    up: float
    down: float
    back: float

    def seconds(self, ranks: int, columns: int) -> float:
        """Of the layer with tiles of each rank's tokens, of which its own are there, and with column blocks.

        The makespan of `fine_grained`: the first product ends behind all its tiles, or the first or the last message
        and the tiles behind it; the exchange home behind all its blocks, or the products and the last block.
        """
        tile, message = self.up / ranks, self.there / max(ranks - 1, 1)
        first = max(self.up, message + self.up - tile, self.there + tile) if ranks > 1 else self.up
        return first + max(self.down + self.back / columns, self.down / columns + self.back)
