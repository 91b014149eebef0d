"""A curve of a claim as a small picture that stands alone: one SVG file, light and dark."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

from poise.claims.claim import Curve, Point
from poise.report.chart import WIDTH, Line, Scale, colour, dash, plot
from poise.report.style import DRAWN, TINTS

ROW = 17
"""The height of a line of text."""

TITLE = 66
"""Characters of a title in a row."""

KEYS = 52
"""Characters of a row of the legend; each key takes seven beside its name."""


def lines_of(curve: Curve) -> list[Line]:
    """The lines of a curve as charts take them, with the bands of their intervals."""
    return [
        Line(
            name,
            style,
            [point.x for point in points],
            [math.nan if point.value is None else point.value for point in points],
            [_end(point, -1) for point in points],
            [_end(point, 1) for point in points],
        )
        for style, (name, points) in enumerate(curve.lines.items())
    ]


def scales(curve: Curve) -> tuple[Scale, Scale]:
    """The axes of a curve: times are drawn on a logarithmic one."""
    return Scale(curve.across), Scale(
        "" if curve.kind == "number" else curve.kind, curve.kind, log=curve.kind == "seconds"
    )


def _end(point: Point, side: int) -> float:
    """The lower (-1) or upper (1) end of a point's interval, NaN where it has none."""
    return math.nan if point.value is None or point.half is None else point.value + side * point.half


def picture(curve: Curve) -> str | None:
    """The picture as text; None where no line has a value."""
    lines = [line for line in lines_of(curve) if any(math.isfinite(value) for value in line.y)]
    if not lines:
        return None
    x, y = scales(curve)
    drawn = plot(curve.title, lines, x, y, reading="", dots=True)
    high = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', drawn)[0])
    titles, keys = wrap(curve.title, TITLE), list(_rows(lines))
    top = ROW * len(titles) + 6
    whole = top + high + ROW * len(keys) + 6
    inner = re.sub(
        r"<svg [^>]*>", f'<svg y="{top}" width="{WIDTH}" height="{high}" viewBox="0 0 {WIDTH} {high}">', drawn
    )
    names = "".join(f'<text class="a" x="4" y="{ROW * at + 14}">{escape(row)}</text>' for at, row in enumerate(titles))
    legend = "".join(_legend(row, top + high + ROW * at) for at, row in enumerate(keys))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}"'
        f' width="{WIDTH}" height="{whole}" role="img">'
        f"<title>{escape(curve.title)}</title><style>{TINTS}{DRAWN}text{{font-family:system-ui,sans-serif}}</style>"
        f'<rect width="{WIDTH}" height="{whole}" style="fill:var(--ground)"/>{names}{inner}{legend}</svg>\n'
    )


def _rows(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The keys of the legend in rows."""
    row: list[Line] = []
    for line in lines:
        if row and sum(len(each.name) + 7 for each in (*row, line)) > KEYS + 14:
            yield row
            row = []
        row.append(line)
    yield row


def _legend(row: Sequence[Line], y: int) -> str:
    parts, x = [], 8.0
    for line in row:
        pattern = f' stroke-dasharray="{dash(line.style)}"' if dash(line.style) else ""
        parts.append(f'<path class="l {colour(line.style)}"{pattern} d="M{x:.0f} {y + 9}h22"/>')
        parts.append(f'<text x="{x + 27:.0f}" y="{y + 13}">{escape(line.name)}</text>')
        x += 40 + 6.6 * len(line.name)
    return "".join(parts)
