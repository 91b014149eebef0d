"""KV blocks lent between replicas, and the step costs of both meanwhile.

Infinite-LLM (arXiv 2401.02669, DistAttention): KV of a request may lie at another replica, which attends to it there
and returns partial results. Blocks are counted, not named, so a loan only moves the end of two pools. What is lent
counts as full of KV that the debtor's decodes read: the creditor reads it in each of its steps, and the debtor only the
rest, for at least as long as a creditor takes for its part. In each layer queries go out and partial results come back.
That keeps the cost of a held batch a straight line, for it changes with loans alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poise.core.estimate import Piece, StepShape

if TYPE_CHECKING:
    from poise.core.engine.replica import Replica

Step = Callable[[StepShape], Piece]


class Loans:
    """One replica's loans. lent: blocks by debtor.  borrowed: blocks that are here, by creditor.

    hop: picoseconds that a step takes longer while KV of its own is elsewhere.  lost: borrowed blocks lost with
    their creditors, in total.
    """

    __slots__ = ("borrowed", "hop", "lent", "lost", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.lent: dict[int, int] = {}
        self.borrowed: dict[int, int] = {}
        self.hop = 0
        self.lost = 0

    def grant(self, debtor: int, blocks: int, now: int, passed: bool = False) -> int:
        """Lend up to `blocks` blocks, as far as they are not held; returns how many."""
        blocks = max(0, min(blocks, self.replica.space.available(now, passed)))
        if blocks:
            self._change(self.lent, debtor, blocks, -blocks, now, passed)
        return blocks

    def regain(self, debtor: int, blocks: int, now: int, passed: bool = False) -> None:
        """Take back lent blocks."""
        self._change(self.lent, debtor, -blocks, blocks, now, passed)

    def take(self, creditor: int, blocks: int, now: int, passed: bool = False) -> None:
        """Allow the use of borrowed blocks."""
        self._change(self.borrowed, creditor, blocks, blocks, now, passed)

    def give(self, creditor: int, blocks: int, now: int, passed: bool = False) -> int:
        """Give back up to `blocks` borrowed blocks, as far as they are not held; returns how many."""
        blocks = min(blocks, self.borrowed.get(creditor, 0), self.replica.space.available(now, passed))
        if blocks <= 0:
            return 0
        self._change(self.borrowed, creditor, -blocks, -blocks, now, passed)
        return blocks

    def lose(self, creditor: int, now: int, passed: bool = False) -> None:
        """Borrowed blocks are lost: at the next step boundary requests that no longer fit are preempted."""
        blocks = self.borrowed.get(creditor, 0)
        if blocks:
            self.lost += blocks
            self._change(self.borrowed, creditor, -blocks, -blocks, now, passed)

    def steps(self, step: Step) -> Step:
        """The step costs under these loans, given those without."""
        block = self.replica.pool.block
        lent, away = sum(self.lent.values()) * block, sum(self.borrowed.values()) * block
        if away:
            most = max(self.borrowed.values()) * block
            return lambda shape: _partly(step(shape), shape, away, most, self.hop)
        if lent:
            return lambda shape: _later(step(shape), _reading(step, shape, lent))
        return step

    def _change(self, side: dict[int, int], other: int, blocks: int, more: int, now: int, passed: bool) -> None:
        replica = self.replica
        side[other] = side.get(other, 0) + blocks
        if not side[other]:
            del side[other]
        replica.space.refresh(now, passed)
        replica.pool.resize(more)
        replica.space.refresh(now, passed)
        replica.retime()
        replica.look_again(now, passed)


def _reading(step: Step, shape: StepShape, tokens: int) -> int:
    """Picoseconds that a lane takes to read this many KV tokens."""
    return step(StepShape(1, (), shape.share)).at(tokens).per_kv * tokens


def _later(piece: Piece, by: int) -> Piece:
    """A step that takes longer."""
    base, per_kv, per_window, until_kv, then = piece
    return Piece(base + by, per_kv, per_window, until_kv, then and _later(then, by))


def _partly(piece: Piece, shape: StepShape, away: int, most: int, hop: int) -> Piece:
    """A step whose decodes read all KV but `away` tokens, and at least as many as the `most` at one creditor."""
    if not shape.decodes:
        return _later(piece, hop)
    near = piece.at(most)
    flat = near.base + near.per_kv * most
    return _later(Piece(flat, 0, near.per_window, away + most, _less(piece, away)), hop)


def _less(piece: Piece, away: int) -> Piece:
    """A step that reads fewer tokens than its decodes hold."""
    base, per_kv, per_window, until_kv, then = piece
    return Piece(base - per_kv * away, per_kv, per_window, until_kv + away, then and _less(then, away))
