"""The section of the page that shows the replicas over time: maps of all of them, and lines below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from poise.report.axis import fit
from poise.report.chart import LEFT, RIGHT, WIDTH, Line, Scale, plot, swatch
from poise.report.figures import Case, by_load
from poise.report.fleet import Fleet, Floats, courses, fleet, title
from poise.report.heat import heat, legend, shade
from poise.report.parts import fold_all, grid, section, tabs
from poise.report.wording import duration

CELLS, POINTS = 300_000, 24_000
"""The most pixels of all maps of a page, and the most points of all its timelines; steps are joined to keep below."""

LOW = 200
"""The height of the lines below a map."""

_WHAT = (
    ("waiting", "Waiting", Scale("requests waiting", "count")),
    ("running", "Running", Scale("requests running", "count")),
    ("kv", "KV cache", Scale("share of KV blocks used", "share")),
)

Fleets = Mapping[str, Fleet]


def replicas_section(cases: Sequence[Case], pools: Sequence[str]) -> str:
    """Waiting, running and KV use of each replica over time, a fold for each load; empty without samples.

    pools: the pool of each replica where there are several.
    """
    drawn = [case for case in cases if case.timeline]
    if not drawn:
        return ""
    fleets = [{what: fleet(case.timeline[what]) for what, *_ in _WHAT} for case in drawn if case.timeline]
    times = _joined(fleets)
    fleets = [{what: each.coarser(times) for what, each in some.items()} for some in fleets]
    shown = dict(zip(map(id, drawn), fleets, strict=True))
    lines = _legend(fleets[0]["waiting"], pools)
    folds = {
        some[0].at: _at_load([(case.policy, shown[id(case)]) for case in some], pools, f"at{number}")
        for number, some in enumerate(by_load(drawn).values())
    }
    return section(
        "Replicas over time", _said(fleets, lines), lines, fold_all(folds), anchor="replicas", names=_names(pools)
    )


def _joined(fleets: Sequence[Fleets]) -> int:
    """How many steps must become one for a page of bounded size."""
    cells = sum(each.values.size for some in fleets for each in some.values())
    points = sum(3 * len(each.at) for some in fleets for each in some.values())
    return max(math.ceil(cells / CELLS), math.ceil(points / POINTS), 1)


def _said(fleets: Sequence[Fleets], lines: str) -> str:
    step = max(each.step for some in fleets for each in some.values())
    told = (
        "Of the first seed. In a map each row is a replica and its colour the quantity, on one scale for all policies "
        f"of a load; each step of up to {duration(step, 2)} shows its peak. Point at a map, or tap it, for its values."
    )
    if "mean of" in lines:
        told += " Below it the mean over replicas, and as a band from the lowest to the highest."
    return f'<p class="soft">{escape(told)}</p>'


def _legend(some: Fleet, pools: Sequence[str]) -> str:
    names = "".join(swatch(name, style) for style, name in enumerate(courses(some, pools)))
    return f'<div class="legend">{names}</div>'


def _names(pools: Sequence[str]) -> str:
    """What the script calls the replicas."""
    return "|".join(title(replica, pools) for replica in range(len(pools)))


def _at_load(cases: Sequence[tuple[str, Fleets]], pools: Sequence[str], key: str) -> str:
    """Several policies: a grid of them for each quantity, of which one is chosen; one policy: a grid of quantities."""
    panes = {name: _pane(cases, what, name, scale, pools) for what, name, scale in _WHAT}
    if len(cases) == 1:
        return grid([figure for _, figures in panes.values() for figure in figures])
    return tabs({name: legends + grid(figures) for name, (legends, figures) in panes.items()}, key)


def _pane(
    cases: Sequence[tuple[str, Fleets]], what: str, name: str, scale: Scale, pools: Sequence[str]
) -> tuple[str, list[str]]:
    """The legend of one quantity, and a figure for each policy; of a single one, the legend is within the figure."""
    some = [(policy, fleets[what]) for policy, fleets in cases]
    top = max(each.highest for _, each in some)
    colours, end = shade(top, scale.kind), max(each.end for _, each in some)
    across = Scale("time since the start, s", reach=end)
    upward = Scale(scale.label, scale.kind, reach=top)
    told = legend(scale.label, colours)
    alone = len(some) == 1
    figures = []
    for policy, each in some:
        axis = fit([*each.at.tolist(), end], LEFT, WIDTH - RIGHT)
        caption = f"<figcaption>{escape(name if alone else policy)}</figcaption>{told if alone else ''}"
        drawn = heat(f"{name} by replica, {policy}", each, colours, axis, _ticks(each, pools))
        lines = [
            Line(title, style, each.at.tolist(), course.mean.tolist(), _list(course.low), _list(course.high))
            for style, (title, course) in enumerate(courses(each, pools).items())
        ]
        reading = f"{name}: {{y}} at {{x}} s"
        below = plot(f"{name} over time, {policy}", lines, across, upward, reading=reading, steps=True, height=LOW)
        figures.append(f"<figure>{caption}{drawn}{below}</figure>")
    return told, figures


def _list(values: Floats | None) -> list[float]:
    return [] if values is None else values.tolist()


def _ticks(some: Fleet, pools: Sequence[str]) -> list[str]:
    """The number of each replica; the first of a pool has its name too."""
    told = []
    for row, replica in enumerate(some.replicas):
        first = pools and (not row or pools[replica] != pools[some.replicas[row - 1]])
        told.append(f"{pools[replica]} {replica}" if first else str(replica))
    return told
