"""Boxing: the collectives that take a tensor from one signature to another, and the bytes that they move.

Along one axis of p devices a tensor of T bytes moves, over all devices together (OneFlow, arXiv 2110.15032, table 2),

    S to B    all-gather       (p − 1) T        P to B    all-reduce       2 (p − 1) T
    S to S'   all-to-all       (p − 1) T / p    P to S    reduce-scatter   (p − 1) T
    B to S    slice            0                B, S to P zeros elsewhere  0

On a mesh this is done along one axis after the other, in each group of devices that lie along it; T is then the part
that such a group has.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import NamedTuple

from poise.core.errors import UserError
from poise.sharding.signature import Mesh, Shape, Signature


class Move(NamedTuple):
    """A collective along one axis; `bytes` over all devices."""

    collective: str
    axis: str
    before: Signature
    after: Signature
    bytes: int


Moves = tuple[Move, ...]


def box(shape: Shape, before: Signature, after: Signature, on: Mesh, itemsize: int = 1) -> Moves:
    """The moves of fewest bytes, and among these fewest moves, from one signature to another."""
    if before == after:
        return ()
    found = reach(shape, before, on, itemsize).get(after)
    if found is None:
        raise UserError(
            f"boxing: {list(shape)} cannot get from {before.text(on)} to {after.text(on)}; its dimensions must divide"
        )
    return found


def moved(moves: Moves) -> int:
    """Their bytes."""
    return sum(move.bytes for move in moves)


@lru_cache(maxsize=4096)
def reach(shape: Shape, start: Signature, on: Mesh, itemsize: int = 1) -> dict[Signature, Moves]:
    """The best moves to every signature that can be reached: shortest paths by bytes, then by number of moves."""
    ways: dict[Signature, Moves] = {}
    order = count()
    heap: list[tuple[int, int, int, Signature, Moves]] = [(0, 0, next(order), start, ())]
    while heap:
        spent, steps, _, here, moves = heappop(heap)
        if here in ways:
            continue
        ways[here] = moves
        for move in _next(shape, here, on, itemsize):
            if move.after not in ways:
                heappush(heap, (spent + move.bytes, steps + 1, next(order), move.after, (*moves, move)))
    return ways


def across(shape: Shape, before: Signature, after: Signature, here: Mesh, there: Mesh, itemsize: int = 1) -> int:
    """The bytes from the devices of one mesh to those of another, which have none in common.

    A tensor crosses once, split or as the part of a sum whose others are zero, and is boxed on either side.
    """
    whole = prod(shape) * itemsize
    sent = min(moved(moves) for each, moves in reach(shape, before, here, itemsize).items() if not each.partial)
    return sent + whole + min(moved(reach(shape, each, there, itemsize)[after]) for each in _whole(shape, there))


def _whole(shape: Shape, on: Mesh) -> Iterator[Signature]:
    """Signatures in which each entry is on one device alone: what T bytes can fill."""
    pending = [Signature(((),) * len(shape))]
    for axis in on:
        pending = [next_ for each in pending for next_ in (each.summed(axis), *_splits(each, axis, shape, on))]
    yield from pending


def _next(shape: Shape, at: Signature, on: Mesh, itemsize: int) -> Iterator[Move]:
    """All single moves. An axis that splits a dimension can leave it only where no other one splits its parts."""
    for axis in on:
        p, place = on[axis], at.place(axis)
        bare = at.without(axis)
        group = prod(shape) * itemsize // bare.ways(on)
        ring = on.devices // p * (p - 1) * group
        if place == "P":
            yield Move("all-reduce", axis, at, bare, 2 * ring)
            for after in _splits(bare, axis, shape, on):
                yield Move("reduce-scatter", axis, at, after, ring)
        elif place == "B":
            for after in _splits(at, axis, shape, on):
                yield Move("slice", axis, at, after, 0)
            yield Move("zeros", axis, at, at.summed(axis), 0)
        elif any(axes[-1:] == (axis,) for axes in at.dims):
            yield Move("all-gather", axis, at, bare, ring)
            yield Move("zeros", axis, at, bare.summed(axis), 0)
            for after in _splits(bare, axis, shape, on):
                if after != at:
                    yield Move("all-to-all", axis, at, after, ring // p)


def _splits(at: Signature, axis: str, shape: Shape, on: Mesh) -> Iterator[Signature]:
    made = (at.split(axis, dim) for dim in range(len(shape)))
    return (each for each in made if each.fits(shape, on))
