"""Timelines as inline SVG without script: one row per worker, one bar per piece of work; a choice of magnifications."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from poise.report.axis import fit
from poise.report.chart import colour
from poise.report.pieces import soft

WIDTH = 1320
_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _GAP = 58, 10, 4, 20, 20, 3

ZOOMS = (1, 2, 4, 8)
"""Magnifications that a reader can choose."""

_THIN = 6.0
"""Median width of a row's bars, in units, below which they are drawn without gaps, which would be most of them."""

_WRITTEN = 9.0
"""Least pixels of a bar for each character of its text."""

STYLE = (
    ".lanes{display:block;width:100%;height:auto;min-width:900px}.key .box{min-width:0;width:14px}"
    ".lanes path{stroke:var(--panel);stroke-width:.5}"
    ".lanes path.dense{stroke:none;shape-rendering:crispEdges}.pan{overflow-x:auto}.stack{display:grid;gap:var(--s4)}"
    ".zoom>input{position:absolute;opacity:0}.zoom>.stack{margin-top:var(--s2)}"
    ".zoom>input:checked+label{background:var(--ink);color:var(--ground)}"
    ".zoom>input:focus-visible+label{outline:2px solid var(--link);outline-offset:2px}"
    + "".join(
        f".zoom>input:nth-of-type({at}):checked~.stack .lanes{{width:{100 * times}%;min-width:{900 * times}px}}"
        for at, times in enumerate(ZOOMS, 1)
    )
    + "".join(f".lanes path.c{style}{{fill:var(--c{style})}}" for style in range(8))
    + ".lanes path.pale{fill-opacity:.6}.lanes .in{fill:var(--ground);font-size:9px}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of work; `style` picks the colour, `pale` makes it lighter, `text` is written in it where it fits."""

    start: float
    end: float
    style: int
    text: str = ""
    pale: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A worker and its pieces of work."""

    name: str
    bars: Sequence[Bar]


def timeline(title: str, rows: Sequence[Row], label: str, until: float, *, left: int = _LEFT) -> str:
    """A figure with a row for each worker from 0 to `until`; two figures with one `until` can be read together.

    label: of the axis, with its unit.  left: room for the names of rows, in units.
    """
    floor = _TOP + len(rows) * (_ROW + _GAP)
    across = fit([0.0, until], left, WIDTH - _RIGHT)
    parts = []
    for value, text in across.ticks():
        at = across.place(value)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 15}" text-anchor="middle">{text}</text>')
    for place, row in enumerate(rows):
        top = _TOP + place * (_ROW + _GAP)
        parts.append(f'<text x="{left - 6}" y="{top + 14}" text-anchor="end">{escape(row.name)}</text>')
        placed = [(across.place(bar.start), across.place(bar.end), bar) for bar in row.bars]
        parts += _paths(placed, top)
        parts += _texts(placed, top)
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="pan" tabindex="0" role="region"'
        f' aria-label="{escape(title)}">'
        f'<svg class="lanes" viewBox="0 0 {WIDTH} {floor + _BOTTOM}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg></div>{soft(label)}</figure>"
    )


def zoomed(figures: Sequence[str]) -> str:
    """Timelines below one another, with a choice of magnification that works without script."""
    buttons = "".join(
        f'<input type="radio" name="zoom" id="zoom-{times}"{" checked" if times == 1 else ""}>'
        f'<label class="button" for="zoom-{times}">{times}×</label> '
        for times in ZOOMS
    )
    stack = f'<div class="stack">{"".join(figures)}</div>'
    return f'<div class="zoom"><span class="soft">Magnification </span>{buttons}{stack}</div>'


def key(name: str, style: int, pale: bool = False) -> str:
    """An entry of the legend."""
    box = f'<svg class="lanes box" viewBox="0 0 12 12" aria-hidden="true">{_box(style, pale)}</svg>'
    return f'<span class="key">{box}{escape(name)}</span>'


def _box(style: int, pale: bool) -> str:
    return f'<path class="{colour(style)}{" pale" * pale}" d="M0 0h12v12h-12z"/>'


def _paths(placed: Sequence[tuple[float, float, Bar]], top: int) -> list[str]:
    """One path for all bars of a colour: thousands of bars stay small."""
    drawn: dict[str, list[str]] = {}
    widths = sorted(end - start for start, end, _ in placed if end > start)
    dense = " dense" * bool(widths and widths[len(widths) // 2] < _THIN)
    nexts = [*(start for start, *_ in placed[1:]), math.inf]
    for (start, end, bar), after in zip(placed, nexts, strict=True):
        if end > start:
            end = after if dense and 0 < after - end < 1 else end  # a gap below a pixel would be drawn as a whole one
            look = colour(bar.style) + " pale" * bar.pale + dense
            drawn.setdefault(look, []).append(f"M{start:.2f} {top}H{end:.2f}v{_ROW}H{start:.2f}z")
    return [f'<path class="{look}" d="{"".join(boxes)}"/>' for look, boxes in drawn.items()]


def _texts(placed: Sequence[tuple[float, float, Bar]], top: int) -> list[str]:
    return [
        f'<text class="in" x="{(start + end) / 2:.1f}" y="{top + 13}" text-anchor="middle">{escape(bar.text)}</text>'
        for start, end, bar in placed
        if bar.text and end - start >= _WRITTEN * len(bar.text)
    ]
