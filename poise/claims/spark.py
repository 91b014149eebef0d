"""Curves as small text: a line of blocks for each policy, with the ends of its values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poise.claims.claim import Curve, Point
from poise.report.wording import MISSING, significant, write

BLOCKS = "▁▂▃▄▅▆▇█"


def sparks(curve: Curve) -> list[str]:
    """A line for each policy: its name, a block for each place on the axis, all on one scale, and its first and last
    value; then the ends of the axis. Times are drawn on a logarithmic scale."""
    places = sorted({point.x for points in curve.lines.values() for point in points})
    known = [point.value for points in curve.lines.values() for point in points if point.value is not None]
    log = curve.kind == "seconds" and all(value > 0 for value in known)
    ends = (min(known), max(known)) if known else (0.0, 1.0)
    width = max((len(name) for name in curve.lines), default=0)
    rows = [
        f"{name:<{width}}  {_line(points, places, ends, log)}  {_ends(points, curve)}"
        for name, points in curve.lines.items()
    ]
    return [*rows, f"{'':<{width}}  from {significant(places[0])} to {significant(places[-1])}"] if places else rows


def _line(points: Sequence[Point], places: Sequence[float], ends: tuple[float, float], log: bool) -> str:
    at = {point.x: point.value for point in points}
    return "".join(_block(at.get(place), ends, log) for place in places)


def _block(value: float | None, ends: tuple[float, float], log: bool) -> str:
    if value is None:
        return " "
    low, high, here = (math.log(each) for each in (*ends, value)) if log else (*ends, value)
    share = (here - low) / (high - low) if high > low else 0.0
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def _ends(points: Sequence[Point], curve: Curve) -> str:
    values = [point.value for point in sorted(points, key=lambda point: point.x) if point.value is not None]
    if not values:
        return MISSING
    return " to ".join(write(value, curve.kind, 3) for value in dict.fromkeys((values[0], values[-1])))
