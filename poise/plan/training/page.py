"""The page of a schedule next to others: figures, timelines on one axis, and the fullest rank's memory over time."""

from __future__ import annotations

from collections.abc import Sequence

from poise.pipeline.op import COPIES, Kind
from poise.pipeline.time import Timing
from poise.report.chart import Extras, Line, Scale, chart, swatch
from poise.report.frame import document
from poise.report.pieces import fitted, section, soft, text_table
from poise.report.timeline import STYLE as LANES
from poise.report.timeline import Bar, Row, key, timeline, zoomed

KIND_STYLES = {
    Kind.F: 0,
    Kind.I: 2,
    Kind.B: 2,
    Kind.W: 1,
    Kind.R: 5,
    Kind.S: 3,
    Kind.T: 4,
    Kind.OFFLOAD: 7,
    Kind.RELOAD: 7,
}

KIND_WORDS = {
    Kind.F: "forward", Kind.I: "backward: input gradient, or both", Kind.W: "weight gradient", Kind.R: "recomputation",
    Kind.S: "vocabulary pass S", Kind.T: "vocabulary pass T", Kind.OFFLOAD: "copy to or from the host",
}  # fmt: skip

WIDE = 1300
"""Width of the drawing of memory on a wide screen, in units."""

MOST = 60_000
"""Most bars on a page; a larger one would be slow to open."""


def page(title: str, timings: Sequence[Timing], headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The page as text; it loads nothing from outside. `rows`: the figures of each timing under `headers`."""
    figures = section("Figures", text_table(headers, rows, label="Figures"), anchor="figures")
    return document(title, figures + drawn(timings), style=LANES)


def drawn(timings: Sequence[Timing], unit: str = "", per: float = 1.0) -> str:
    """Two sections: the timelines on one axis, and the memory of each one's fullest rank.

    unit: in which times are shown, and how many of the costs' own it has; "" is that of the largest forward.
    """
    scale = [per if unit else float(timing.largest_f) for timing in timings]
    until = max(float(timing.makespan) / each for timing, each in zip(timings, scale, strict=True))
    label = f"time, {unit}" if unit else "time, in units of the largest F"
    lanes = zoomed(
        [
            timeline(_named(timing), _rows(timing, timing.scale * each), label, until)
            for timing, each in zip(timings, scale, strict=True)
        ]
    )
    used = {op.kind for timing in timings for row in timing.graph.schedule.ranks for op in row}
    legend = "".join(
        key(word, KIND_STYLES[kind]) for kind, word in KIND_WORDS.items() if kind in used or _is_b(kind, used)
    )
    if any(len(t.graph.schedule.ranks) < t.graph.schedule.stages for t in timings):
        legend += key("paler: a rank's second chunk of layers (and fourth, …)", KIND_STYLES[Kind.F], pale=True)
    words = soft("A row is a rank, and the number in a box is its microbatch.")
    return section(
        "Who computes when", f'<div class="legend">{legend}</div>', words, lanes, anchor="timeline"
    ) + section("What the fullest rank holds", *_memory(timings, scale, until, label), anchor="memory")


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
                bars.append(Bar(start, end, KIND_STYLES[op.kind], str(op.microbatch), op.stage // len(ranks) % 2 == 1))
        found.append(Row(f"rank {rank}", bars))
    return found + _copies(timing, unit)


def _copies(timing: Timing, unit: float) -> list[Row]:
    """The copies of every rank that has any."""
    rows: dict[int, list[Bar]] = {}
    for copy in timing.copies:
        rank, _, op = timing.graph.at(copy.number)
        bar = Bar(copy.start / unit, copy.end / unit, KIND_STYLES[op.kind], str(op.microbatch))
        rows.setdefault(rank, []).append(bar)
    return [Row(f"copies {rank}", rows[rank]) for rank in sorted(rows)]


def held_chart(lines: Sequence[Line], until: float, label: str, what: str) -> list[str]:
    """Legend and drawing of memory over time, from 0 to `until`; the labels are those of both axes."""
    across = Scale(label, reach=until, tight=True)
    up = Scale(what, reach=0.0)
    drawn = chart("", lines, across, up, reading="{y} at {x}", steps=True, extras=Extras(width=WIDE))
    narrow = chart("", lines, across, up, reading="{y} at {x}", steps=True)
    legend = "".join(swatch(line.name, line.style) for line in lines)
    return [f'<div class="legend">{legend}</div>', fitted(drawn, narrow)]


def _memory(timings: Sequence[Timing], scale: Sequence[float], until: float, label: str) -> list[str]:
    lines = []
    for style, (timing, each) in enumerate(zip(timings, scale, strict=True)):
        peaks = timing.memory.peaks
        curve = timing.held(peaks.index(max(peaks)))
        unit = timing.scale * each
        lines.append(Line(_named(timing), style, [at / unit for at, _ in curve], [float(level) for _, level in curve]))
    return held_chart(lines, until, label, "activations of whole stages")
