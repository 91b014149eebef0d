"""A timeline as inline SVG without script: one row per worker, one bar per piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from poise.report.axis import fit
from poise.report.chart import colour

WIDTH = 1320
_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _GAP = 58, 10, 4, 40, 20, 3

_WRITTEN = 9.0
"""Least pixels of a bar for each character of its text."""

STYLE = (
    ".lanes{display:block;width:100%;height:auto;min-width:640px}.lanes path{stroke:var(--panel);stroke-width:.5}"
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


def timeline(title: str, rows: Sequence[Row], label: str, until: float) -> str:
    """A figure with a row for each worker from 0 to `until`; two figures with one `until` can be read together.

    label: of the axis, with its unit.
    """
    floor = _TOP + len(rows) * (_ROW + _GAP)
    across = fit([0.0, until], _LEFT, WIDTH - _RIGHT)
    parts = []
    for value, text in across.ticks():
        at = across.place(value)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 15}" text-anchor="middle">{text}</text>')
    for place, row in enumerate(rows):
        top = _TOP + place * (_ROW + _GAP)
        parts.append(f'<text x="{_LEFT - 6}" y="{top + 14}" text-anchor="end">{escape(row.name)}</text>')
        placed = [(across.place(bar.start), across.place(bar.end), bar) for bar in row.bars]
        parts += _paths(placed, top)
        parts += _texts(placed, top)
    parts.append(f'<text class="a" x="{WIDTH / 2:.0f}" y="{floor + 33}" text-anchor="middle">{escape(label)}</text>')
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="scroll" tabindex="0">'
        f'<svg class="lanes" viewBox="0 0 {WIDTH} {floor + _BOTTOM}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg></div></figure>"
    )


def key(name: str, style: int) -> str:
    """An entry of the legend."""
    box = (
        f'<svg class="lanes" style="min-width:0;width:14px" viewBox="0 0 12 12" aria-hidden="true">{_box(style)}</svg>'
    )
    return f'<span class="key">{box}{escape(name)}</span>'


def _box(style: int) -> str:
    return f'<path class="{colour(style)}" d="M0 0h12v12h-12z"/>'


def _paths(placed: Sequence[tuple[float, float, Bar]], top: int) -> list[str]:
    """One path for all bars of a colour: thousands of bars stay small."""
    drawn: dict[str, list[str]] = {}
    for start, end, bar in placed:
        if end > start:
            wide, look = end - start, colour(bar.style) + " pale" * bar.pale
            drawn.setdefault(look, []).append(f"M{start:.1f} {top}h{wide:.1f}v{_ROW}h-{wide:.1f}z")
    return [f'<path class="{look}" d="{"".join(boxes)}"/>' for look, boxes in drawn.items()]


def _texts(placed: Sequence[tuple[float, float, Bar]], top: int) -> list[str]:
    return [
        f'<text class="in" x="{(start + end) / 2:.1f}" y="{top + 13}" text-anchor="middle">{escape(bar.text)}</text>'
        for start, end, bar in placed
        if bar.text and end - start >= _WRITTEN * len(bar.text)
    ]
