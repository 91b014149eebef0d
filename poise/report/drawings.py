"""The sections of the page that hold charts: curves over load, distributions of latency, timelines of replicas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from poise.report.chart import Line, Scale, chart, swatch
from poise.report.figures import ATTAINMENT, E2E, GOODPUT, TPOT, TTFT, Case, Figure
from poise.report.wording import MISSING, significant

Styles = Mapping[str, int]

_SWEPT = (
    (TTFT[1], "TTFT, median"),
    (TTFT[4], "TTFT, 99th percentile"),
    (TPOT[4], "TPOT, 99th percentile"),
    (E2E[4], "End to end, 99th percentile"),
    (GOODPUT, "Goodput"),
    (ATTAINMENT, "SLO attainment"),
)
_DISTRIBUTIONS = (
    ("ttft_s", "Time to first token"),
    ("tpot_s", "Time per output token"),
    ("e2e_s", "End to end"),
)
_TIMELINES = (
    ("waiting", "Waiting", Scale("requests", "count")),
    ("running", "Running", Scale("requests", "count")),
    ("kv", "KV cache", Scale("share of blocks used", "share")),
)


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def _grid(charts: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(charts)}</div>'


def _load(load: float | None, unit: str) -> str:
    return MISSING if load is None else f"{significant(load)} {unit}"


def _swept_line(name: str, style: int, cases: Sequence[Case], figure: Figure) -> Line:
    """One router's figure over load, in order of load, with a gap where a load has none."""
    ordered = sorted((case for case in cases if case.router == name and case.load is not None), key=_by_load)
    values = [figure.value(case.result) for case in ordered]
    return Line(
        name,
        style,
        [_by_load(case) for case in ordered],
        [math.nan if value is None else value for value in values],
        [figure.half_width(case.result) for case in ordered],
    )


def _by_load(case: Case) -> float:
    return case.load or 0.0


def sweep_section(cases: Sequence[Case], styles: Styles, legend: str, unit: str) -> str:
    """Curves over load for each router; empty unless there are two loads."""
    if len({case.load for case in cases if case.load is not None}) < 2:
        return ""
    charts = []
    for figure, title in _SWEPT:
        lines = [_swept_line(name, style, cases, figure) for name, style in styles.items()]
        y = Scale(figure.label, figure.kind, log=figure.kind == "seconds")
        reading = f"{figure.label}: {{y}} at {{x}} {unit}"
        charts.append(chart(title, lines, Scale(f"load, {unit}"), y, reading=reading, dots=True))
    bars = any(case.result.get("interval") for case in cases)
    said = '<p class="soft">Bars are 95 % intervals over seeds.</p>' if bars else ""
    return _section("Over load", said, legend, _grid(charts))


def _distributions(cases: Sequence[Case], styles: Styles) -> str:
    """Three charts of the distributions of these cases, one line each."""
    charts = []
    for name, title in _DISTRIBUTIONS:
        curves = [(case.router, (case.latency or {}).get(name, ([], []))) for case in cases]
        lines = [Line(router, styles[router], xs, ys) for router, (xs, ys) in curves]
        x, y = Scale("seconds, logarithmic", "seconds", log=True), Scale("share of requests", "share")
        charts.append(chart(title, lines, x, y, reading="{y} within {x}", steps=True))
    return _grid(charts)


def latency_section(cases: Sequence[Case], styles: Styles, legend: str, unit: str) -> str:
    """Distributions of latency, a fold for each load, the middle one open; empty where no case has any."""
    drawn = [case for case in cases if case.latency]
    if not drawn:
        return ""
    by_load: dict[float | None, list[Case]] = {}
    for case in sorted(drawn, key=_by_load):
        by_load.setdefault(case.load, []).append(case)
    said = "<p class='soft'>Of finished requests; of the first seed where there are several.</p>"
    if len(by_load) == 1:
        return _section("Latency", said, legend, _distributions(drawn, styles))
    folds = [
        f"<details{' open' if at == len(by_load) // 2 else ''}><summary>Load {escape(_load(load, unit))}</summary>"
        f"{_distributions(some, styles)}</details>"
        for at, (load, some) in enumerate(by_load.items())
    ]
    return _section("Latency", said, legend, *folds)


def _timeline(case: Case) -> str:
    """The three timelines of one case with the legend of its replicas."""
    timeline = case.timeline or {}
    names = {name: style for style, name in enumerate(timeline.get("waiting", {}))}
    charts = []
    for what, title, y in _TIMELINES:
        curves = timeline.get(what, {})
        lines = [Line(name, names[name], xs, ys) for name, (xs, ys) in curves.items()]
        x = Scale("time since the start, s")
        charts.append(chart(title, lines, x, y, reading=f"{title}: {{y}} at {{x}} s", steps=True))
    legend = "".join(swatch(name, style) for name, style in names.items())
    return f'<div class="legend">{legend}</div>{_grid(charts)}'


def timeline_section(cases: Sequence[Case], unit: str) -> str:
    """Queue, running requests and KV use over time, a fold for each case, the first open; empty without samples."""
    drawn = [case for case in cases if case.timeline]
    if not drawn:
        return ""
    folds = []
    for at, case in enumerate(drawn):
        name = case.router if case.load is None else f"{case.router} at {_load(case.load, unit)}"
        start = "<details open>" if at == 0 else "<details>"
        folds.append(f"{start}<summary>{escape(name)}</summary>{_timeline(case)}</details>")
    said = (
        "<p class='soft'>Long runs show the peak within each interval; of the first seed where there are several.</p>"
    )
    return _section("Replicas over time", said, *folds)
