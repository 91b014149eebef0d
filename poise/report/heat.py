"""A heat map of replicas over time: a picture with one pixel per value, which the script reads back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from poise.report.axis import Axis
from poise.report.chart import WIDTH
from poise.report.faults import marks
from poise.report.figures import Curves
from poise.report.fleet import Fleet, Floats
from poise.report.png import ANCHORS, LEVELS, colours, data_url, png
from poise.report.wording import Kind, write

NONE: Mapping[str, Curves] = {}
"""The timelines of a case without any."""

ROW, LEAST, MOST = 14, 56, 240
"""The height of a row that has room, of the lowest map and of the highest."""

HATCH = (
    '<svg class="defs" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="x" x1="0" x2="0" y1="0" y2="6"/>'
    '</pattern><linearGradient id="heat">'
    + "".join(
        f'<stop offset="{place / (len(ANCHORS) - 1):.3f}" stop-color="rgb({red},{green},{blue})"/>'
        for place, (red, green, blue) in enumerate(ANCHORS)
    )
    + "</linearGradient></defs></svg>"
)
"""The shared settings of a page's maps: the colour of unknown values, and the colours of the legend."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Colours from 0 to `top` in `levels` steps."""

    top: float
    levels: int
    kind: Kind

    def of(self, values: Floats) -> NDArray[np.uint8]:
        """The level of each value; the one after the last for an unknown one."""
        level = np.clip(np.rint(np.nan_to_num(values) / self.top * self.levels), 0, self.levels)
        return np.where(np.isnan(values), self.levels + 1, level).astype(np.uint8)


def shade(highest: float, kind: Kind) -> HeatCell:
    """A scale up to the highest value: a colour for each count, if not too many, or for each half percent."""
    if kind == "share":
        top = max(math.ceil(100 * highest), 1) / 100
        return HeatCell(top, min(round(200 * top), LEVELS), kind)
    top = max(math.ceil(highest), 1)
    return HeatCell(top, min(top, LEVELS), kind)


def legend(label: str, scale: HeatCell, *, gaps: bool) -> str:
    """The colours from nothing to the most, with both ends in words. gaps: some replica was not up all the time."""
    bar = '<svg viewBox="0 0 160 12" aria-hidden="true"><rect width="160" height="12" rx="2" fill="url(#heat)"/></svg>'
    hatched = '<svg class="none" viewBox="0 0 16 12" aria-hidden="true"><rect width="16" height="12" '
    hatched += 'fill="url(#hatch)"/></svg>'
    none = f"<span>{hatched} replica not up</span>" if gaps else ""
    ends = f"{write(0, scale.kind)} {bar} {write(scale.top, scale.kind)}"
    return f'<p class="scale soft">{escape(label)}: {ends} {none}</p>'


def heat(
    title: str, some: Fleet, scale: HeatCell, across: Axis, ticks: Sequence[str], timeline: Mapping[str, Curves] = NONE
) -> str:
    """The map of a fleet over an axis of time that another drawing labels; `ticks` names its rows.

    timeline: of the case, for the faults that are marked on it.
    """
    rows = len(some.replicas)
    height = min(max(ROW * rows, LEAST), MOST)
    left, right = across.place(float(some.at[0])), across.place(some.end)
    picture = data_url(png(scale.of(some.values), colours(scale.levels)))
    place = f'x="{left:.1f}" y="4" width="{right - left:.1f}" height="{height}"'
    numbers = f"{some.at[0]:.9g},{some.end:.9g},{scale.top:.9g},{scale.levels},{scale.kind}"
    return (
        f'<svg class="heat" viewBox="0 0 {WIDTH} {height + 8}" role="img" aria-label="{escape(title)}"'
        f' data-heat="{numbers}" data-replicas="{" ".join(map(str, some.replicas))}">'
        f'<rect class="ground" x="{across.start}" y="4" width="{across.end - across.start:.1f}" height="{height}"/>'
        f'<rect {place} fill="url(#hatch)"/>'
        f'<image {place} preserveAspectRatio="none" href="{picture}"/>'
        f"{marks(timeline, across, some.replicas, height)}{_names(ticks, height, across.start - 6)}</svg>"
    )


def _names(ticks: Sequence[str], height: int, right: float) -> str:
    """Names at the middle of their rows, where one does not touch the one before."""
    parts, free = [], 0.0
    for row, name in enumerate(ticks):
        at = 4 + height * (row + 0.5) / len(ticks)
        if name and at >= free:
            parts.append(f'<text x="{right:.0f}" y="{at + 4:.1f}" text-anchor="end">{escape(name)}</text>')
            free = at + ROW
    return "".join(parts)
