"""Pieces of lines: the duration of a step where it is the larger, or the smaller, of several straight lines in KV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from poise.core.estimate import Piece

EVER = Piece(0).until_kv
"""Beyond any number of KV tokens."""


class Line(NamedTuple):
    """Picoseconds: `base + per_kv · Σ context`."""

    base: float
    per_kv: float = 0.0

    def at(self, kv: float) -> float:
        """Picoseconds where decodes read `kv` tokens."""
        return self.base + self.per_kv * kv

    def plus(self, other: Line, times: float = 1.0) -> Line:
        """The sum with another, `times` over."""
        return Line(self.base + times * other.base, self.per_kv + times * other.per_kv)


def pieces(lines: Sequence[Line], choose: Callable[[Sequence[float]], float], per_window: int = 0) -> Piece:
    """The pieces of `choose` over the values of `lines`, where it answers with one of them, as max and min do.

    Between two neighbouring crossings of lines the choice is one line throughout.
    """
    if all(line.per_kv == lines[0].per_kv for line in lines):
        whole = choose([line.base for line in lines])
        return Piece(max(round(whole), 1), round(lines[0].per_kv), per_window)
    edges = sorted({kv for one, two in combinations(lines, 2) if (kv := _crossing(one, two)) is not None})
    found: list[tuple[int, Line]] = []
    for before, high in zip([-1, *edges], [*edges, EVER], strict=True):
        middle = (before + 1 + min(high, 2 * before + 4)) / 2
        values = [line.at(middle) for line in lines]
        line = lines[values.index(choose(values))]
        if found and found[-1][1] == line:
            found.pop()
        found.append((high, line))
    piece: Piece | None = None
    for until, line in reversed(found):
        piece = Piece(max(round(line.base), 1), round(line.per_kv), per_window, until, piece)
    assert piece is not None
    return piece


def _crossing(one: Line, two: Line) -> int | None:
    """The last whole number of KV tokens up to which neither of two lines has crossed the other; None without one."""
    if one.per_kv == two.per_kv:
        return None
    kv = (two.base - one.base) / (one.per_kv - two.per_kv)
    return int(kv) if 0 <= kv < EVER else None
