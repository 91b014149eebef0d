"""The page section on replicas over time: a map of all of them, and lines below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from poise.report.chart import LEFT, RIGHT, WIDTH, Extras, Line, Scale, plot, swatch
from poise.report.faults import FAULTS
from poise.report.figures import Case, by_load
from poise.report.fleet import LINES, Fleet, Floats, courses, fleet, title
from poise.report.heat import heat, legend, shade
from poise.report.pieces import fold_all, grid, section, tabs
from poise.report.wording import duration

CELLS, POINTS = 300_000, 24_000
"""The most pixels of all maps of a page, and the most points of all its timelines; steps are joined to keep below."""

LETTERS = 8
"""Letters of a name that fit next to a map."""

LOW = 200
"""The height of the lines below a map."""

_WHAT = (
    ("waiting", "Waiting", Scale("requests waiting", "count")),
    ("running", "Running", Scale("requests running", "count")),
    ("kv", "KV cache", Scale("KV blocks used", "share")),
)

Fleets = Mapping[str, Fleet]


def replicas_section(cases: Sequence[Case], styles: Mapping[str, int], pools: Sequence[str]) -> str:
    """Waiting, running and KV use of each replica over time, a fold for each load; empty without samples.

    styles: of policies.  pools: the pool of each replica where there are several.
    """
    drawn = [case for case in cases if case.timeline]
    if not drawn:
        return ""
    fleets = [{what: fleet(case.timeline[what]) for what, *_ in _WHAT} for case in drawn if case.timeline]
    times = _joined(fleets)
    shown = [
        _Shown(case, {what: each.coarser(times) for what, each in some.items()})
        for case, some in zip(drawn, fleets, strict=True)
    ]
    folds = []
    for number, (load, some) in enumerate(by_load(drawn).items()):
        here = [each for each in shown if each.case.load == load]
        folds.append((some[0].at, _at_load(here, styles, pools, f"at{number}")))
    sentence, legend = _caption(shown), _legend(shown[0].fleets["waiting"], pools)
    return section("Replicas over time", sentence, legend, fold_all(folds), anchor="replicas", names=_names(pools))


def _joined(fleets: Sequence[Fleets]) -> int:
    """How many steps must be merged into one for a page of bounded size."""
    cells = sum(each.values.size for some in fleets for each in some.values())
    points = sum(3 * len(each.at) for some in fleets for each in some.values())
    return max(math.ceil(cells / CELLS), math.ceil(points / POINTS), 1)


def _caption(shown: Sequence[_Shown]) -> str:
    fleets = [each for some in shown for each in some.fleets.values()]
    step, most = max(each.step for each in fleets), max(len(each.replicas) for each in fleets)
    text = (
        "Of the first seed. In a map each row is a replica and its colour the quantity, on one scale for all policies "
        f"of a load; each step of up to {duration(step, 2)} shows its peak. Point at a map, or tap it, for its values."
    )
    if any(FAULTS in (each.case.timeline or {}) for each in shown):
        text += " Outlines in a map are faults and starts: a loss, a notice, a start, a slow device or link."
    if most > LINES:
        text += f" Lines are means over the {most} replicas, or a pool's; bands go from the lowest to the highest."
    return f'<p class="soft">{escape(text)}</p>'


def _legend(some: Fleet, pools: Sequence[str]) -> str:
    """The lines of a figure, where it has several."""
    names = courses(some, pools)
    text = "".join(swatch(name, style) for style, name in enumerate(names))
    return f'<div class="legend">{text}</div>' if len(names) > 1 else ""


def _names(pools: Sequence[str]) -> str:
    """The replicas' names in the script."""
    return "|".join(title(replica, pools) for replica in range(len(pools)))


def _at_load(shown: Sequence[_Shown], styles: Mapping[str, int], pools: Sequence[str], key: str) -> str:
    """Several policies: a grid of them for each quantity, of which one is chosen; one policy: a grid of quantities."""
    panes = {}
    figures = []
    for what, name, scale in _WHAT:
        fleets = [each.fleets[what] for each in shown]
        gaps = any(each.gaps for each in fleets)
        pane = _Pane(what, name, scale, max(each.highest for each in fleets), max(each.end for each in fleets), gaps)
        drawn = [pane.figure(each, styles, pools, key, alone=len(shown) == 1) for each in shown]
        panes[name] = pane.legend + grid(drawn)
        figures += drawn
    return grid(figures) if len(shown) == 1 else tabs(panes, key)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A case and its fleets by quantity."""

    case: Case
    fleets: Fleets


@dataclass(frozen=True, slots=True)
class _Pane:
    """One quantity at one load, on the scale that all policies share: up to `top`, and up to the second `end`.

    gaps: some replica was not up all the time.
    """

    what: str
    name: str
    scale: Scale
    top: float
    end: float
    gaps: bool

    @property
    def legend(self) -> str:
        """The legend of its colours."""
        return legend(self.scale.label, shade(self.top, self.scale.kind), gaps=self.gaps)

    def figure(self, shown: _Shown, styles: Mapping[str, int], pools: Sequence[str], key: str, *, alone: bool) -> str:
        """The map of a policy with its lines below; one that is alone has its legend within."""
        some, policy = shown.fleets[self.what], shown.case.policy
        across = Scale("time since the start, s", reach=self.end, tight=True)
        axis = across.fit(some.at.tolist(), LEFT, WIDTH - RIGHT)
        colours = shade(self.top, self.scale.kind)
        drawn = heat(
            f"{self.name} by replica, {policy}", some, colours, axis, _ticks(some, pools), shown.case.timeline or {}
        )
        lines = _lines(some, pools, 0 if alone else styles[policy])
        upward = Scale("", self.scale.kind, reach=self.top)
        title, reading = f"{self.name} over time, {policy}", f"{self.name}: {{y}} at {{x}} s"
        extras = Extras(group=f"{key}-time")
        below = plot(title, lines, across, upward, reading=reading, steps=True, height=LOW, extras=extras)
        caption = f"<figcaption>{escape(self.name if alone else policy)}</figcaption>{self.legend if alone else ''}"
        return f"<figure>{caption}{drawn}{below}</figure>"


def _lines(some: Fleet, pools: Sequence[str], style: int) -> list[Line]:
    """The lines of a fleet; a single one has the given style."""
    fleet = courses(some, pools)
    return [
        Line(
            name, number if len(fleet) > 1 else style, some.at.tolist(),
            course.mean.tolist(), _list(course.low), _list(course.high),
        )
        for number, (name, course) in enumerate(fleet.items())
    ]  # fmt: skip


def _list(values: Floats | None) -> list[float]:
    return [] if values is None else values.tolist()


def _ticks(some: Fleet, pools: Sequence[str]) -> list[str]:
    """The number of each replica; the first of a pool has its name too."""
    labels = []
    for row, replica in enumerate(some.replicas):
        first = pools and (not row or pools[replica] != pools[some.replicas[row - 1]])
        labels.append(f"{pools[replica][: LETTERS - len(str(replica))]} {replica}" if first else str(replica))
    return labels
