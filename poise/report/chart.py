"""A line chart as inline SVG: static, readable without script, with the data that a script needs to show values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from poise.report.axis import Axis, fit
from poise.report.path import area, scaled, trail
from poise.report.wording import Kind

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 26, 44

COLOURS = 8
"""Colours in the palette of the page's style sheet; further lines are distinguished by dashes."""

_DASHES = ("", "7 3", "2 3", "9 3 2 3")

_STRIP = 8
"""The height that the range of a mark takes above the plot."""


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; `style` picks colour and dash.

    NaN in `y` breaks it. low, high: a band around it, NaN where there is none.  said: tooltip text of each point.
    """

    name: str
    style: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    said: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis's label and scale. reach: a value that it includes at least."""

    label: str
    kind: Kind = "number"
    log: bool = False
    reach: float = math.nan


@dataclass(frozen=True, slots=True)
class Mark:
    """A position on the x axis, with the range that is certain to contain it; a range without an end runs to the edge.

    style: that of the line it belongs to; None for one that belongs to all lines and has a label.
    """

    name: str
    x: float | None
    style: int | None = None
    low: float | None = None
    high: float | None = None


def dash(style: int) -> str:
    """The SVG dash pattern of a line's style: another one each time the colours are used up."""
    return _DASHES[style // COLOURS % len(_DASHES)]


def colour(style: int) -> str:
    """The class of the style sheet that gives a line's style its colour."""
    return f"c{style % COLOURS}"


def swatch(name: str, style: int) -> str:
    """One entry of a legend: a piece of the line and its name."""
    line = f'<line x1="1" y1="6" x2="27" y2="6" class="l {colour(style)}" stroke-dasharray="{dash(style)}"/>'
    return f'<span class="key"><svg viewBox="0 0 28 12" aria-hidden="true">{line}</svg>{escape(name)}</span>'


def chart(
    title: str, lines: Sequence[Line], x: Scale, y: Scale, *,
    reading: str, dots: bool = False, steps: bool = False, marks: Sequence[Mark] = (),
) -> str:  # fmt: skip
    """A figure with its title, axes and lines; says so where nothing can be drawn.

    reading: the text of a point, with `{x}` and `{y}` in it.  dots: mark every point.
    steps: a value holds until the next point.
    """
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.y)]
    if not drawn:
        return f'<figure>{caption}<p class="none">Nothing to draw: no request has this figure.</p></figure>'
    return f"<figure>{caption}{plot(title, drawn, x, y, reading=reading, dots=dots, steps=steps, marks=marks)}</figure>"


def plot(
    title: str, lines: Sequence[Line], x: Scale, y: Scale, *,
    reading: str, dots: bool = False, steps: bool = False, marks: Sequence[Mark] = (), height: int = HEIGHT,
) -> str:  # fmt: skip
    """The drawing of a `chart` without its frame; some line has a value."""
    ranges = [mark for mark in marks if mark.style is not None]
    top, floor = TOP + _STRIP * len(ranges), height + _STRIP * len(ranges) - BOTTOM
    across = fit([*(v for line in lines for v in line.x), x.reach], LEFT, WIDTH - RIGHT, log=x.log, kind=x.kind)
    values = [v for line in lines for v in (*line.y, *line.low, *line.high)]
    up = fit([*values, y.reach], floor, top, log=y.log, kind=y.kind)
    body = "".join(_line(line, across, up, dots, steps) for line in lines)
    data = "".join(_scale_data(name, axis) for name, axis in (("x", across), ("y", up)))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {floor + BOTTOM}" role="img"'
        f' aria-label="{escape(title)}" data-read="{escape(reading)}"{data}>'
        f"{_frame(across, up, x, y)}{''.join(_marks(marks, across, up))}{body}</svg>"
    )


def _scale_data(name: str, axis: Axis) -> str:
    """The data with which the script turns a position back into a value."""
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
    middle, foot = (across.start + across.end) / 2, up.start + BOTTOM - 6
    parts.append(f'<text class="a" x="{middle:.0f}" y="{foot:.0f}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(f'<text class="a" x="4" y="13">{escape(y.label)}</text>')
    return "".join(parts)


def _marks(marks: Sequence[Mark], across: Axis, up: Axis) -> Iterator[str]:
    """Upright lines; above the plot a bar each for the ranges."""
    row = TOP - 6
    for mark in marks:
        tint = "own" if mark.style is None else colour(mark.style)
        at = across.place(mark.x) if mark.x is not None and across.low <= mark.x <= across.high else None
        if mark.style is not None:
            yield _range(mark, across, at, row)
            row += _STRIP
        if at is None:
            continue
        yield f'<line class="m {tint}" x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"/>'
        if mark.style is None:
            side, gap = ("end", -4) if at > (across.start + across.end) / 2 else ("start", 4)
            place = f'x="{at + gap:.1f}" y="{up.start - 6:.1f}" text-anchor="{side}"'
            yield f"<text {place}>{escape(mark.name)}</text>"


def _range(mark: Mark, across: Axis, at: float | None, row: int) -> str:
    """The bar of a mark's sure range, and a dot where the mark is."""
    tint = colour(mark.style or 0)
    dot = "" if at is None else f'<circle class="d {tint}" cx="{at:.1f}" cy="{row}" r="4"/>'
    if mark.low is None and mark.high is None:
        return dot
    low, high = span(mark, across)
    return f'<line class="r {tint}" x1="{low:.1f}" x2="{high:.1f}" y1="{row}" y2="{row}"/>{dot}'


def span(mark: Mark, across: Axis) -> tuple[float, float]:
    """Where the sure range of a mark begins and ends."""
    low = across.start if mark.low is None else across.place(max(mark.low, across.low))
    high = across.end if mark.high is None else across.place(min(mark.high, across.high))
    return low, high


def _line(line: Line, across: Axis, up: Axis, dots: bool, steps: bool) -> str:
    """One line: its band, its unbroken pieces and dots."""
    tint = colour(line.style)
    xs, ys = _places(line.x, across), _places(line.y, up)
    parts = []
    if line.low:
        band = area(xs, _places(line.low, up), _places(line.high, up), steps)
        parts.append(f'<path class="b {tint}" d="{band}"/>' if band else "")
    pattern = f' stroke-dasharray="{dash(line.style)}"' if dash(line.style) else ""
    parts.append(f'<path class="l {tint}"{pattern} d="{trail(xs, ys, steps)}"/>')
    said = line.said or [""] * len(xs)
    known = [each for each in zip(xs, ys, said, strict=True) if each[1] is not None]
    spots = "".join(_dot(x / 10, (y or 0) / 10, tint, text) for x, y, text in known if x is not None) if dots else ""
    return f'<g data-name="{escape(line.name)}">{scaled("".join(parts))}{spots}</g>'


def _dot(x: float, y: float, tint: str, said: str) -> str:
    text = f' data-said="{escape(said)}"' if said else ""
    return f'<circle class="d {tint}" cx="{x:.1f}" cy="{y:.1f}" r="3"{text}/>'


def _places(values: Sequence[float], axis: Axis) -> list[int | None]:
    """Tenths of a unit within the axis; None where there is no value."""
    low, high = sorted((axis.start, axis.end))
    return [round(10 * min(max(axis.place(value), low), high)) if math.isfinite(value) else None for value in values]
