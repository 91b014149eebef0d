"""What was measured, as far as a form misses it: log ratios on a regular grid of octaves, interpolated linearly."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from zlib import compress, decompress, error

LEVEL = 0.02
"""One level of a stored value: the log of measured over form, to 1 %; the largest is 127 levels, a factor of 12.7."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` nodes from `low`, `step` octaves apart; with `beyond`, one more that lies so far above the last, and with
    `before`, one so far below the first.
    """

    low: float
    step: float
    count: int
    beyond: float = 0.0
    before: float = 0.0

    @property
    def high(self) -> float:
        """The last node but the one beyond."""
        return self.low + self.step * (self.count - 1)

    @property
    def nodes(self) -> tuple[float, ...]:
        """The octaves of all nodes."""
        inner = [self.low + self.step * at for at in range(self.count)]
        first = [self.low - self.before] if self.before else []
        return (*first, *inner, self.high + self.beyond) if self.beyond else (*first, *inner)

    def place(self, octave: float) -> tuple[int, float]:
        """The node below and the part of the way to the next, clamped to the grid."""
        along, first = (octave - self.low) / self.step, 1 if self.before else 0
        if along < 0.0:
            return 0, max(0.0, 1.0 + (octave - self.low) / self.before) if self.before else 0.0
        if along >= self.count - 1:
            part = (octave - self.high) / self.beyond if self.beyond else 0.0
            return self.count - 1 + first, part if part < 1.0 else 1.0
        below = int(along)
        return below + first, along - below


@dataclass(frozen=True, slots=True)
class Grid:
    """Values at the nodes of `axes`, the last axis fastest."""

    axes: tuple[Axis, ...]
    values: Sequence[float]

    def at(self, octaves: Sequence[float]) -> float:
        """The multilinear interpolation, constant beyond the edges."""
        total, values = 0.0, self.values
        for index, weight in self.corners(octaves):
            total += weight * values[index]
        return total

    def corners(self, octaves: Sequence[float]) -> Iterator[tuple[int, float]]:
        """The nodes around a place with their weights, those of no weight left out."""
        found = [(0, 1.0)]
        for axis, octave in zip(self.axes, octaves, strict=True):
            below, part = axis.place(octave)
            size = axis.count + (axis.beyond > 0) + (axis.before > 0)
            nearer = [(index * size + below, weight * (1 - part)) for index, weight in found]
            if part:
                nearer += [(index * size + below + 1, weight * part) for index, weight in found]
            found = nearer
        return iter(found)

    def nodes(self) -> Iterator[tuple[float, ...]]:
        """The octaves of all nodes, in order."""
        return product(*(axis.nodes for axis in self.axes))


def rising(grid: Grid, along: Sequence[bool]) -> Grid:
    """`grid` made monotone along the given axes, one after another.

    Each line is replaced by the nearest that rises (isotonic regression: Barlow, Bartholomew, Bremner and Brunk,
    "Statistical inference under order restrictions", 1972). Regression keeps the order of lines, so that what rose
    along an earlier axis still does.
    """
    values = list(grid.values)
    stride = len(values)
    for axis, wanted in zip(grid.axes, along, strict=True):
        count = len(axis.nodes)
        stride //= count
        if wanted and count > 1:
            for block in range(0, len(values), stride * count):
                for start in range(block, block + stride):
                    line = slice(start, start + stride * count, stride)
                    if any(one > next_one for one, next_one in pairwise(values[line])):
                        values[line] = isotonic(values[line])
    return Grid(grid.axes, values)


def isotonic(values: Sequence[float]) -> list[float]:
    """The nearest rising line in the sum of squares, by pooling neighbours that fall."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def pack(values: Sequence[float]) -> str:
    """Values as levels of one byte, compressed, in base 64."""
    levels = bytes(128 + max(-127, min(127, round(value / LEVEL))) for value in values)
    return b64encode(compress(levels, 9)).decode()


def unpack(text: str, axes: tuple[Axis, ...]) -> list[float]:
    """The values of `pack`; ValueError where they are not those of a grid of `axes`."""
    try:
        levels = decompress(b64decode(text, validate=True))
    except error as broken:
        raise ValueError(f"the values cannot be read: {broken}") from None
    if len(levels) != prod(axis.count for axis in axes):
        raise ValueError(f"{len(levels)} values do not fill a grid of {' × '.join(str(a.count) for a in axes)}")
    return [(level - 128) * LEVEL for level in levels]
