"""Line charts of the page: curves over load, and latency distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from poise.report.chart import Extras, Line, Mark, Scale, chart
from poise.report.curves import thinned
from poise.report.figures import ATTAINMENT, E2E, GOODPUT, TPOT, TTFT, Case, Figure, by_load
from poise.report.findings import Findings
from poise.report.pieces import fold_all, grid, section, soft

Styles = Mapping[str, int]

WIDE = 20
"""Loads use a logarithmic axis where the highest is more than this many times the lowest."""

POINTS = 12_000
"""The most points of all distributions of a page."""

SWEPT = (
    (TTFT[1], "TTFT, median"),
    (TTFT[4], "TTFT, 99th percentile"),
    (TPOT[4], "TPOT, 99th percentile"),
    (E2E[4], "End to end, 99th percentile"),
    (GOODPUT, "Goodput"),
    (ATTAINMENT, "SLO met"),
)
_UNITS = {GOODPUT: "req/s"}
"""Units of axes whose ticks have none."""

_DISTRIBUTIONS = (
    ("ttft_s", "Time to first token"),
    ("tpot_s", "Time per output token"),
    ("e2e_s", "End to end"),
)


def load_axis(loads: Sequence[float]) -> Scale:
    """The axis of loads, which holds load 1 and begins near the lowest."""
    return Scale("load", log=max(loads) > WIDE * min(loads), reach=1.0, zero=False)


def sweep_section(cases: Sequence[Case], findings: Findings, styles: Styles, legend: str) -> str:
    """Curves over load for each policy; empty unless there are two loads."""
    charts = sweep(cases, findings, styles)
    if not charts:
        return ""
    return section("Over load", soft(_caption(findings)), legend, grid(charts), anchor="over-load")


def sweep(cases: Sequence[Case], findings: Findings, styles: Styles) -> list[str]:
    """A chart of each figure that is drawn over load; none unless there are two loads."""
    loads = [case.load for case in cases if case.load is not None]
    if len(set(loads)) < 2:
        return []
    axis, marks, extras = load_axis(loads), _marks(findings, styles), Extras(named=True, group="load")
    charts = []
    for figure, title in SWEPT:
        lines = [swept(name, style, cases, figure) for name, style in styles.items()]
        y = Scale(_UNITS.get(figure, ""), figure.kind, log=figure.kind == "seconds")
        reading = f"{figure.label}: {{y}} at load {{x}}"
        charts.append(chart(title, lines, axis, y, reading=reading, dots=True, marks=marks, extras=extras))
    return charts


def _caption(findings: Findings) -> str:
    text = (
        f"Load 1, the dotted line, is {findings.one}. Bands are 95 % intervals; a point has none where runs are too "
        "short for one."
    )
    if any(each.load is not None for each in findings.limits):
        text += " Dashed lines are the loads at which policies collapse."
    return f"{text} Lines that run together take turns, as dashes. Point at a panel to read all of them at one load."


def _marks(findings: Findings, styles: Styles) -> list[Mark]:
    limits = [
        Mark(each.policy, each.load, styles[each.policy], each.low, each.high)
        for each in findings.limits
        if each.policy in styles
    ]
    return [Mark("load 1", 1.0), *limits]


def swept(name: str, style: int, cases: Sequence[Case], figure: Figure) -> Line:
    """One policy's figure over load, in order of load, with a gap where a load has none."""
    ordered = sorted((case for case in cases if case.policy == name and case.load is not None), key=_load)
    values = [_number(figure.value(case.result)) for case in ordered]
    halves = [_number(figure.half_width(case.result)) for case in ordered]
    most = 1.0 if figure.kind == "share" else math.inf
    return Line(
        name,
        style,
        [_load(case) for case in ordered],
        values,
        [_clipped(value - half, most) for value, half in zip(values, halves, strict=True)],
        [_clipped(value + half, most) for value, half in zip(values, halves, strict=True)],
        [
            f"{name}\n{figure.label}: {figure.text(case.result)} {figure.margin(case.result)}".rstrip() + f"\n{case.at}"
            for case in ordered
        ],
    )


def _clipped(value: float, most: float) -> float:
    """A value within what is possible: a band of a share ends at 100 %."""
    return value if math.isnan(value) else min(max(value, 0.0), most)


def _load(case: Case) -> float:
    return case.load or 0.0


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def latency_section(cases: Sequence[Case], styles: Styles, legend: str) -> str:
    """Distributions of latency, a fold for each load, the middle one open; empty where no case has any."""
    drawn = [case for case in cases if case.latency]
    if not drawn:
        return ""
    points = POINTS // (len(drawn) * len(_DISTRIBUTIONS))
    text = (
        '<p class="soft">Share of the finished requests of the first seed that took at most the time on the axis.</p>'
    )
    folds = [(some[0].at, _distributions(some, styles, points)) for some in by_load(drawn).values()]
    return section("Latency", text, legend, fold_all(folds), anchor="latency")


def _distributions(cases: Sequence[Case], styles: Styles, points: int) -> str:
    """Three charts of the distributions of these cases, one line each."""
    charts = []
    for name, title in _DISTRIBUTIONS:
        curves = [(case.policy, thinned((case.latency or {}).get(name, ([], [])), points)) for case in cases]
        lines = [Line(policy, styles[policy], xs, ys) for policy, (xs, ys) in curves]
        x, y = Scale("time, logarithmic", "seconds", log=True), Scale("share of requests", "share")
        charts.append(chart(title, lines, x, y, reading="{y} within {x}", steps=True))
    return grid(charts)
