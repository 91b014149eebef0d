"""One self-contained page: predicted over measured for each metric, coloured by source, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

from poise.report.axis import Axis, fit
from poise.report.chart import colour
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import grid, section, table
from poise.validation.folder import Answered
from poise.validation.score import ALL, Score, by_device, by_source, totals
from poise.validation.show import HEAD, cells
from poise.validation.training.score import REGRET, training_scores
from poise.validation.training.score import by_source as training_by_source

SIZE, LEFT, RIGHT, TOP, BOTTOM = 380, 62, 14, 14, 44

NEAR = 1.25
"""The factor of the dashed lines around the diagonal."""

TITLE = "Predictions against measurements"

_OWN = (
    ".p{fill:none;stroke-width:4;stroke-linecap:round;opacity:.45}"
    ".x{stroke:currentColor;stroke-width:1;opacity:.6;fill:none}.x.n{stroke-dasharray:3 4;opacity:.4}"
)


def write_page(found: Answered, folder: Path) -> Path:
    """Write `validate.html` into `folder` and return its path."""
    path = folder / "validate.html"
    with replacing(path) as file:
        file.write(page(found).encode())
    return path


class Dot(NamedTuple):
    """A measured value and its prediction."""

    metric: str
    source: str
    measured: float
    predicted: float


def page(found: Answered) -> str:
    """The page as text."""
    shown = dots(found)
    styles = {name: number for number, name in enumerate(sorted({dot.source for dot in shown}))}
    metrics = sorted({dot.metric for dot in shown})
    plots = [scatter(metric, [dot for dot in shown if dot.metric == metric], styles) for metric in metrics]
    body = "".join((
        section("All sources", _scores(totals(found.answers), lambda s: (s.metric,), ("metric",)), anchor="all"),
        section("Predicted over measured", _legend(styles), grid(plots), anchor="plots"),
        section(
            "By source",
            _scores(by_source(found.answers), lambda s: (_source(s), s.metric), ("source", "metric")),
            anchor="source",
        ),
        section(
            "By device",
            _scores(by_device(found.answers), lambda s: (s.device, s.metric), ("device", "metric")),
            anchor="device",
        ),
        training(found),
    ))  # fmt: skip
    day = datetime.now(UTC).date().isoformat()
    head = (
        f"<header><h1>{TITLE}</h1><p>{len(shown):,} of {len(found.answers) + len(found.training):,} measured values "
        f"answered, {day}. On the diagonal a prediction is right; the dashed lines are a factor of {NEAR} away.</p>"
        "</header>"
    )
    return document(TITLE, head + body, style=_OWN)


def dots(found: Answered) -> list[Dot]:
    """Sections for serving and for training; whether a layout fits into memory is not shown in a chart."""
    serving = [
        Dot(each.row.metric, each.row.source, each.row.value, each.predicted)
        for each in found.answers if each.predicted is not None and each.row.quality != "C"
    ]  # fmt: skip
    return serving + [
        Dot(f"training {each.run.metric}", each.run.source, each.run.value, each.predicted)
        for each in found.training if each.predicted is not None and each.run.metric != "fits"
    ]  # fmt: skip


def training(found: Answered) -> str:
    """Training runs by source, in all, and the regret of the layouts chosen; nothing where there are none."""
    if not found.training:
        return ""
    totals = [score for score in training_scores(found.training) if score.source == ALL or score.metric == REGRET]
    whole = _scores(totals, lambda s: (_rows(s), s.metric), ("rows", "metric"))
    parts = _scores(training_by_source(found.training), lambda s: (s.source, s.metric), ("source", "metric"))
    return section("Training runs", whole, parts, anchor="training")


def _rows(score: Score) -> str:
    """The rows of a total, in words."""
    if score.source != ALL:
        return score.source
    return "complete conditions" if score.quality == "A" else "all"


def _source(score: Score) -> str:
    return score.source if score.quality != "C" else f"{score.source} (quality C)"


def _scores(scored: Sequence[Score], names: object, heads: Sequence[str]) -> str:
    assert callable(names)
    head = "".join(f"<th>{escape(name)}</th>" for name in (*heads, *HEAD))
    rows = [(*names(score), *cells(score)) for score in scored]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return table(head, body)


def _legend(styles: Mapping[str, int]) -> str:
    spots = "".join(
        f'<span class="key"><svg viewBox="0 0 28 12" aria-hidden="true"><path class="l p {colour(style)}" d="M14 6h0"/>'
        f"</svg>{escape(name)}</span>"
        for name, style in styles.items()
    )
    return f'<div class="legend">{spots}</div>'


def scatter(metric: str, shown: Sequence[Dot], styles: Mapping[str, int]) -> str:
    """Predicted over measured on equal logarithmic axes, one path of dots a source."""
    values = [value for dot in shown for value in (dot.measured, dot.predicted)]
    across = fit(values, LEFT, SIZE - RIGHT, log=True)
    up = fit(values, SIZE - BOTTOM, TOP, log=True)
    placed: dict[str, list[str]] = {}
    for dot in shown:
        placed.setdefault(dot.source, []).append(f"M{across.place(dot.measured):.1f} {up.place(dot.predicted):.1f}h0")
    paths = "".join(
        f'<path class="l p {colour(styles[name])}" d="{"".join(d)}"/>' for name, d in sorted(placed.items())
    )
    return (
        f"<figure><figcaption>{escape(metric)} ({len(shown):,})</figcaption>"
        f'<svg class="chart" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="{escape(metric)}">'
        f"{_ticks(across, up)}{_diagonals(across, up)}{paths}</svg></figure>"
    )


def _ticks(across: Axis, up: Axis) -> str:
    parts = []
    for value, text in across.ticks():
        at = across.place(value)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{up.end}" y2="{up.start}"/>')
        parts.append(f'<text x="{at:.1f}" y="{up.start + 17:.1f}" text-anchor="middle">{text}</text>')
    for value, text in up.ticks():
        at = up.place(value)
        parts.append(f'<line class="g" x1="{across.start}" x2="{across.end}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{across.start - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (across.start + across.end) / 2
    parts.append(
        f'<text class="a" x="{middle:.0f}" y="{SIZE - 8}" text-anchor="middle">measured (predicted upwards)</text>'
    )
    return "".join(parts)


def _diagonals(across: Axis, up: Axis) -> str:
    """The line on which predictions are right, and those a factor away."""
    parts = []
    for factor, style in ((1.0, "x"), (NEAR, "x n"), (1 / NEAR, "x n")):
        low, high = max(across.low, across.low / factor), min(across.high, across.high / factor)
        if low < high:
            ends = [f"{across.place(x):.1f} {up.place(x * factor):.1f}" for x in (low, high)]
            parts.append(f'<path class="{style}" d="M{ends[0]}L{ends[1]}"/>')
    return "".join(parts)
