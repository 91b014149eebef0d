"""Compact SVG paths: coordinates in whole tenths of a unit, each point relative to the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Places = Sequence[int | None]
"""Coordinates in tenths of a unit; None where there is no value."""


def scaled(shapes: str) -> str:
    """Shapes given in tenths, at their size; the style sheet keeps the width of their lines."""
    return f'<g transform="scale(.1)">{shapes}</g>'


def trail(xs: Places, ys: Places, steps: bool) -> str:
    """The unbroken pieces of a line, straight from point to point or as steps, which hold until the next point."""
    return "".join(_piece(piece, steps) for piece in _pieces(xs, ys))


def _pieces(xs: Places, *ys: Places) -> Iterator[list[tuple[int, ...]]]:
    """Runs of points that have all their values."""
    piece: list[tuple[int, ...]] = []
    for point in zip(xs, *ys, strict=True):
        known = tuple(value for value in point if value is not None)
        if len(known) == len(point):
            piece.append(known)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _piece(points: Sequence[tuple[int, ...]], steps: bool) -> str:
    (x, y), *rest = points
    return f"M{x} {y}" + (_stairs(x, y, rest) if steps else _slopes(x, y, rest))


def _slopes(x: int, y: int, points: Sequence[tuple[int, ...]]) -> str:
    parts = []
    for at, high in points:
        parts.append(f"l{at - x} {high - y}")
        x, y = at, high
    return "".join(parts)


def _stairs(x: int, y: int, points: Sequence[tuple[int, ...]]) -> str:
    """Points at which nothing changes are left out, but for the last one."""
    parts = []
    for number, (at, high) in enumerate(points):
        if high != y:
            parts.append(f"h{at - x}v{high - y}")
            x, y = at, high
        elif number == len(points) - 1:
            parts.append(f"h{at - x}")
    return "".join(parts)


def area(xs: Places, low: Places, high: Places, steps: bool) -> str:
    """The area between two lines, in unbroken pieces; a piece of one point is a vertical stroke."""
    return "".join(_strip(piece, steps) for piece in _pieces(xs, low, high))


def _strip(points: Sequence[tuple[int, ...]], steps: bool) -> str:
    """There along the upper line, back along the lower one."""
    x, low, high = points[0]
    if len(points) == 1:
        return f"M{x - 10} {low}h20V{high}h-20z"
    there = [(at, top) for at, _, top in points[1:]]
    back = [(at, under) for at, under, _ in reversed(points)]
    if not steps:
        return f"M{x} {high}{_slopes(x, high, there)}{_slopes(*there[-1], back)}z"
    down = []  # a value holds until the next point, so on the way back it changes before the way to the nearer one
    spot = at = there[-1][0]
    y = there[-1][1]
    for nearer, under in back:
        if under != y:
            down.append(f"h{spot - at}v{under - y}")
            at, y = spot, under
        spot = nearer
    return f"M{x} {high}{_stairs(x, high, there)}{''.join(down)}h{x - at}z"
