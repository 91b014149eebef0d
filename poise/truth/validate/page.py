"""One self-contained page: predicted over measured for each metric, coloured by source, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from poise.report.axis import Axis, fit
from poise.report.chart import colour
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import grid, section, table
from poise.truth.validate.answer import Answer
from poise.truth.validate.folder import Answered
from poise.truth.validate.score import Score, by_device, by_source, totals
from poise.truth.validate.show import HEAD, cells

SIZE, LEFT, RIGHT, TOP, BOTTOM = 380, 62, 14, 14, 44

NEAR = 1.25
"""The factor between the dashed lines beside the diagonal."""

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


def page(found: Answered) -> str:
    """The page as text."""
    shown = [answer for answer in found.answers if answer.predicted is not None and answer.row.quality != "C"]
    styles = {name: number for number, name in enumerate(sorted({answer.row.source for answer in shown}))}
    metrics = sorted({answer.row.metric for answer in shown})
    plots = [scatter(metric, [answer for answer in shown if answer.row.metric == metric], styles) for metric in metrics]
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
    ))  # fmt: skip
    day = datetime.now(UTC).date().isoformat()
    head = (
        f"<header><h1>{TITLE}</h1><p>{len(shown):,} of {len(found.answers):,} measured values "
        f"answered, {day}. On the diagonal a prediction is right; the dashed lines are a factor of {NEAR} away.</p>"
        "</header>"
    )
    return document(TITLE, head + body, style=_OWN)


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


def scatter(metric: str, answers: Sequence[Answer], styles: Mapping[str, int]) -> str:
    """Predicted over measured on equal logarithmic axes, one path of dots a source."""
    pairs = [(answer.row.value, answer.predicted or 0.0) for answer in answers]
    values = [value for pair in pairs for value in pair]
    across = fit(values, LEFT, SIZE - RIGHT, log=True)
    up = fit(values, SIZE - BOTTOM, TOP, log=True)
    dots: dict[str, list[str]] = {}
    for answer, (measured, predicted) in zip(answers, pairs, strict=True):
        dots.setdefault(answer.row.source, []).append(f"M{across.place(measured):.1f} {up.place(predicted):.1f}h0")
    paths = "".join(f'<path class="l p {colour(styles[name])}" d="{"".join(d)}"/>' for name, d in sorted(dots.items()))
    return (
        f"<figure><figcaption>{escape(metric)} ({len(answers):,})</figcaption>"
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
