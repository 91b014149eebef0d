"""A line chart as inline SVG: static, readable without script, with the data that a script needs to show values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from poise.report.axis import Axis, fit
from poise.report.wording import Kind

WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 26, 44

COLOURS = 8
"""Colours in the palette of the page's style sheet; dashes tell further lines apart."""

_DASHES = ("", "7 3", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; `style` picks colour and dash.

    NaN in `y` breaks it, `margins` (half-widths, None for none) become error bars.
    """

    name: str
    style: int
    x: Sequence[float]
    y: Sequence[float]
    margins: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """How an axis is labelled and scaled."""

    label: str
    kind: Kind = "number"
    log: bool = False


def dash(style: int) -> str:
    """The SVG dash pattern of a line's style: another one each time the colours are used up."""
    return _DASHES[style // COLOURS % len(_DASHES)]


def swatch(name: str, style: int) -> str:
    """One entry of a legend: a piece of the line and its name."""
    line = f'<line x1="1" y1="6" x2="27" y2="6" class="l c{style % COLOURS}" stroke-dasharray="{dash(style)}"/>'
    return f'<span class="key"><svg viewBox="0 0 28 12" aria-hidden="true">{line}</svg>{escape(name)}</span>'


def chart(
    title: str, lines: Sequence[Line], x: Scale, y: Scale, *, reading: str, dots: bool = False, steps: bool = False
) -> str:
    """A figure with its title, axes and lines; says so where nothing can be drawn.

    reading: how a point is read aloud, with `{x}` and `{y}` in it.  dots: mark every point.
    steps: a value holds until the next point.
    """
    caption = f"<figcaption>{escape(title)}</figcaption>"
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.y)]
    if not drawn:
        return f'<figure>{caption}<p class="none">Nothing to draw: no request has this figure.</p></figure>'
    across = fit([v for line in drawn for v in line.x], _LEFT, WIDTH - _RIGHT, log=x.log, kind=x.kind)
    reach = [v + (m or 0.0) for line in drawn for v, m in zip(line.y, _margins(line), strict=True)]
    up = fit([*reach, *(v for line in drawn for v in line.y)], HEIGHT - _BOTTOM, _TOP, log=y.log, kind=y.kind)
    body = "".join(_line(line, across, up, dots, steps) for line in drawn)
    data = "".join(_scale_data(name, axis) for name, axis in (("x", across), ("y", up)))
    return (
        f'<figure>{caption}<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}" data-read="{escape(reading)}"{data}>'
        f"{_frame(across, up, x, y)}{body}</svg></figure>"
    )


def _margins(line: Line) -> Sequence[float | None]:
    return line.margins or [None] * len(line.y)


def _scale_data(name: str, axis: Axis) -> str:
    """What the script needs to turn a place back into a value."""
    numbers = ",".join(f"{value:.9g}" for value in (axis.low, axis.high, axis.start, axis.end))
    return f' data-{name}="{numbers},{int(axis.log)},{axis.kind}"'


def _frame(across: Axis, up: Axis, x: Scale, y: Scale) -> str:
    """Grid, ticks and labels; a tick that would touch the one before stays without text."""
    parts, free = [], -math.inf
    for value, text in across.ticks():
        at, half = across.place(value), 3.6 * len(text)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"/>')
        if at - half > free and at + half < WIDTH:
            parts.append(f'<text x="{at:.1f}" y="{up.start + 17:.1f}" text-anchor="middle">{text}</text>')
            free = at + half
    for value, text in up.ticks():
        at = up.place(value)
        parts.append(f'<line class="g" x1="{across.start}" x2="{across.end}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{across.start - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (across.start + across.end) / 2
    parts.append(f'<text class="a" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(f'<text class="a" x="4" y="13">{escape(y.label)}</text>')
    return "".join(parts)


def _line(line: Line, across: Axis, up: Axis, dots: bool, steps: bool) -> str:
    """One line: its unbroken pieces, error bars and dots."""
    colour = f"c{line.style % COLOURS}"
    parts: list[str] = []
    piece: list[tuple[float, float]] = []
    for x, y, margin in zip(line.x, line.y, _margins(line), strict=True):
        if not math.isfinite(y):
            parts.append(_piece(piece, colour, line.style, steps))
            piece = []
            continue
        at, high = across.place(x), up.place(y)
        piece.append((at, high))
        if margin:
            ends = (min(up.place(y - margin), up.start), up.place(y + margin))
            parts.append(
                f'<line class="e {colour}" x1="{at:.1f}" x2="{at:.1f}" y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>'
            )
        if dots:
            parts.append(f'<circle class="d {colour}" cx="{at:.1f}" cy="{high:.1f}" r="3"/>')
    parts.append(_piece(piece, colour, line.style, steps))
    return f'<g data-name="{escape(line.name)}">{"".join(parts)}</g>'


def _piece(points: Sequence[tuple[float, float]], colour: str, style: int, steps: bool) -> str:
    """An unbroken line; its numbers are the points in turn, straight (`L x,y`) or as steps (`H x V y`)."""
    if not points:
        return ""
    (at, high), *rest = points
    shape = "H{:.2f}V{:.2f}" if steps else "L{:.2f},{:.2f}"
    path = f"M{at:.2f},{high:.2f}" + "".join(shape.format(*point) for point in rest)
    pattern = f' stroke-dasharray="{dash(style)}"' if dash(style) else ""
    return f'<path class="l {colour}"{pattern} d="{path}"/>'
