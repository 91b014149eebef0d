"""The page of a schedule next to others: figures, timelines on one axis, and the fullest rank's memory over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from poise.pipeline.op import COPIES, Kind
from poise.pipeline.time import Timing
from poise.report.chart import Line, Scale, chart, swatch
from poise.report.frame import document
from poise.report.pieces import section, table
from poise.report.timeline import STYLE as LANES
from poise.report.timeline import Bar, Row, key, timeline

_STYLES = {Kind.F: 0, Kind.I: 2, Kind.B: 2, Kind.W: 1, Kind.R: 5, Kind.S: 3, Kind.T: 4, Kind.OFFLOAD: 7, Kind.RELOAD: 7}

_WORDS = {
    Kind.F: "forward", Kind.I: "backward: input gradient, or both", Kind.W: "weight gradient", Kind.R: "recomputation",
    Kind.S: "vocabulary pass S", Kind.T: "vocabulary pass T", Kind.OFFLOAD: "copy to or from the host",
}  # fmt: skip

MOST = 60_000
"""Most bars on a page; a larger one would be slow to open."""


def page(title: str, timings: Sequence[Timing], headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The page as text; it loads nothing from outside. `rows`: the figures of each timing under `headers`."""
    figures = section("Figures", listed(headers, rows), anchor="figures")
    body = f"<header><h1>{escape(title)}</h1></header>{figures}{drawn(timings)}"
    return document(title, body, style=LANES)


def drawn(timings: Sequence[Timing], unit: str = "", per: float = 1.0) -> str:
    """Two sections: the timelines on one axis, and the memory of each one's fullest rank.

    unit: in which times are shown, and how many of the costs' own it has; "" is that of the largest forward.
    """
    scale = [per if unit else float(timing.largest_f) for timing in timings]
    until = max(float(timing.makespan) / each for timing, each in zip(timings, scale, strict=True))
    label = f"time, {unit}" if unit else "time, in units of the largest F"
    lanes = "".join(
        timeline(_named(timing), _rows(timing, timing.scale * each), label, until)
        for timing, each in zip(timings, scale, strict=True)
    )
    used = {op.kind for timing in timings for row in timing.graph.schedule.ranks for op in row}
    legend = "".join(key(word, _STYLES[kind]) for kind, word in _WORDS.items() if kind in used or _is_b(kind, used))
    return section("Who computes when", f'<div class="legend">{legend}</div>', lanes, anchor="timeline") + section(
        "What the fullest rank holds", *_memory(timings, scale, until, label), anchor="memory"
    )


def listed(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column has names."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if not at else ''}>{escape(cell)}</{tag}>" for at, cell in enumerate(row))

    return table(cells("th", headers), "".join(f"<tr>{cells('td', row)}</tr>" for row in rows))


def _named(timing: Timing) -> str:
    return timing.graph.schedule.name or "the schedule"


def _is_b(kind: Kind, used: set[Kind]) -> bool:
    return kind is Kind.I and Kind.B in used


def _rows(timing: Timing, unit: float) -> list[Row]:
    """Operations of every rank; a number is the microbatch, and every other chunk of a rank is paler."""
    ranks = timing.graph.schedule.ranks
    found = []
    for rank, row in enumerate(ranks):
        first, bars = timing.graph.first[rank], []
        for at, op in enumerate(row, first):
            if op.kind not in COPIES:
                start, end = timing.starts[at] / unit, timing.ends[at] / unit
                bars.append(Bar(start, end, _STYLES[op.kind], str(op.microbatch), op.stage // len(ranks) % 2 == 1))
        found.append(Row(f"rank {rank}", bars))
    return found + _copies(timing, unit)


def _copies(timing: Timing, unit: float) -> list[Row]:
    """The copies of every rank that has any."""
    rows: dict[int, list[Bar]] = {}
    for copy in timing.copies:
        rank, _, op = timing.graph.at(copy.number)
        bar = Bar(copy.start / unit, copy.end / unit, _STYLES[op.kind], str(op.microbatch))
        rows.setdefault(rank, []).append(bar)
    return [Row(f"copies {rank}", rows[rank]) for rank in sorted(rows)]


def _memory(timings: Sequence[Timing], scale: Sequence[float], until: float, label: str) -> list[str]:
    lines = []
    for style, (timing, each) in enumerate(zip(timings, scale, strict=True)):
        peaks = timing.memory.peaks
        curve = timing.held(peaks.index(max(peaks)))
        unit = timing.scale * each
        lines.append(Line(_named(timing), style, [at / unit for at, _ in curve], [float(level) for _, level in curve]))
    across = Scale(label, reach=until)
    up = Scale("full-stage activations", reach=0.0)
    drawn = chart("", lines, across, up, reading="{y} at {x}", steps=True)
    return [f'<div class="legend">{"".join(swatch(line.name, line.style) for line in lines)}</div>', drawn]
