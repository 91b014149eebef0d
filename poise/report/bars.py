"""The page section on latency attribution: one bar per policy, divided into the parts of the requests' time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate

from poise.core.records.blame import MEANING, PARTS
from poise.report.axis import Axis, fit
from poise.report.blame import SAMPLES, STRETCHES
from poise.report.chart import WIDTH
from poise.report.figures import Case, by_load
from poise.report.pieces import fold, fold_all, grid, section, table
from poise.report.wording import MISSING, write

_ROW, _BAR, _LEFT, _TOP, _BOTTOM = 44, 18, 12, 6, 28

_VIEWS = (
    ("mean", ("ttft", "rest"), "End to end"),
    ("slowest", ("ttft", "rest"), "End to end"),
    ("mean", ("ttft",), "Until the first token"),
    ("slowest_ttft", ("ttft",), "Until the first token"),
)
"""What is drawn: which sample of requests, which stretches of time, and the heading."""

Pieces = list[tuple[str, str, float]]
"""Stretch, part and seconds, in the order in which they are drawn."""


def blame_section(cases: Sequence[Case]) -> str:
    """Attribution in the mean and for the slowest requests, one fold per load; empty where it was not recorded."""
    drawn = [case for case in cases if case.blame]
    if not drawn:
        return ""
    folds = [(some[0].at, _at_load(some)) for some in by_load(drawn).values()]
    text = (
        "Of the finished requests of the first seed, from arrival to end; the upright stroke is the first token. Point "
        "at a piece, or tap it, for its value; slivers are at least a pixel wide, and the table has all values."
    )
    used = [part for part in PARTS if any(_seconds(case, part) for case in drawn)]
    return section(
        "Where the time went", f'<p class="soft">{text}</p>', _legend(used), fold_all(folds), anchor="where-time-went"
    )


def _seconds(case: Case, part: str) -> float:
    """The total of a part in the bars."""
    return sum(means[stretch][part] for means in (case.blame or {}).values() for stretch in STRETCHES)


def _legend(used: Sequence[str]) -> str:
    items = "".join(
        f'<span class="key" title="{escape(MEANING[part])}"><svg viewBox="0 0 28 12" aria-hidden="true">'
        f'<rect width="28" height="12" class="p{PARTS.index(part)}"/></svg>{part}</span>'
        for part in used
    )
    meanings = "".join(f"<dt>{part}</dt><dd>{escape(MEANING[part])}</dd>" for part in used)
    return f'<div class="legend">{items}</div>{fold("What the parts mean", f"<dl>{meanings}</dl>")}'


def _at_load(cases: Sequence[Case]) -> str:
    figures = []
    for sample, stretches, what in _VIEWS:
        bars = {case.policy: _pieces(case.blame[sample], stretches) for case in cases if case.blame}
        title = f"{what}, {SAMPLES[sample]}"
        figures.append(f"<figure><figcaption>{escape(title)}</figcaption>{_drawing(bars, title)}</figure>")
    return grid(figures, pairs=True) + fold("As a table", _table(cases))


def _pieces(means: Mapping[str, Mapping[str, float]], stretches: Sequence[str]) -> Pieces:
    return [(stretch, part, seconds) for stretch in stretches for part, seconds in means[stretch].items() if seconds]


def _drawing(bars: Mapping[str, Pieces], title: str) -> str:
    longest = max(sum(seconds for *_, seconds in bar) for bar in bars.values()) or 1.0
    across = fit([longest], _LEFT, WIDTH - _LEFT, kind="seconds")
    floor = _TOP + _ROW * len(bars)
    ground = "".join(
        f'<line class="g" x1="{across.place(value):.1f}" x2="{across.place(value):.1f}" y1="{_TOP}" y2="{floor}"/>'
        f'<text x="{across.place(value):.1f}" y="{floor + 17}" text-anchor="middle">{text}</text>'
        for value, text in across.ticks()
    )
    rows = "".join(_bar(name, bar, across, _TOP + _ROW * at) for at, (name, bar) in enumerate(bars.items()))
    return (
        f'<svg class="bars" viewBox="0 0 {WIDTH} {floor + _BOTTOM}" role="img" aria-label="{escape(title)}">'
        f"{ground}{rows}</svg>"
    )


def _bar(name: str, bar: Pieces, across: Axis, top: float) -> str:
    """A policy's name with its whole time, and the bar below."""
    whole = sum(seconds for *_, seconds in bar)
    first = sum(seconds for stretch, _, seconds in bar if stretch == "ttft")
    at, edge = top + 20, across.place(first)
    stroke = f'<line class="t" x1="{edge:.1f}" x2="{edge:.1f}" y1="{at - 3}" y2="{at + _BAR + 3}"/>'
    return (
        f'<text class="a" x="{_LEFT}" y="{top + 14}">{escape(name)}: {write(whole, "seconds")}</text>'
        f"{''.join(_boxes(name, bar, whole, across, at))}"
        f"{stroke if first < whole else ''}"
    )


def _boxes(name: str, bar: Pieces, whole: float, across: Axis, at: float) -> Iterator[str]:
    """The pieces of a bar, each with its tooltip text."""
    ends = [0.0, *accumulate(seconds for *_, seconds in bar)]
    for (stretch, part, seconds), begin, end in zip(bar, ends, ends[1:], strict=False):
        share = write(seconds / whole, "share", 3)
        text = f"{name}\n{part}, {STRETCHES[stretch]}: {write(seconds, 'seconds')} ({share})"
        left, wide = across.place(begin), max(across.place(end) - across.place(begin), 1)
        yield (
            f'<rect class="p{PARTS.index(part)}" x="{left:.2f}" y="{at}" width="{wide:.2f}" height="{_BAR}"'
            f' data-text="{escape(text)}"/>'
        )


def _table(cases: Sequence[Case]) -> str:
    """Seconds by part, a column for each policy and sample."""
    columns = [
        (f"{case.policy}, {title}", case.blame[name]) for case in cases if case.blame for name, title in SAMPLES.items()
    ]
    head = '<th scope="col" class="n">Part</th>' + "".join(
        f'<th scope="col">{escape(title)}</th>' for title, _ in columns
    )
    rows = ""
    for stretch, title in STRETCHES.items():
        rows += _cells(title, [sum(means[stretch].values()) for _, means in columns], "th")
        for part in PARTS:
            values = [means[stretch][part] for _, means in columns]
            rows += _cells(part, values, "td") if any(values) else ""
    return table(head, rows)


def _cells(name: str, values: Sequence[float], kind: str) -> str:
    text = "".join(f"<{kind}>{write(value, 'seconds') if value else MISSING}</{kind}>" for value in values)
    return f'<tr><{kind} class="n">{escape(name)}</{kind}>{text}</tr>'
