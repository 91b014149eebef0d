"""One self-contained page: the errors beside those that others publish, predicted over measured, and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import NamedTuple

from poise.report.axis import Axis
from poise.report.chart import Scale, colour, frame, scale_data
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import Tile, card, fold, grid, lead, section, soft, text_table, tiles
from poise.report.wording import MISSING, write
from poise.validation.folder import Answered
from poise.validation.names import TRAINING, long_name
from poise.validation.score import ALL, Score, by_device, by_source, totals
from poise.validation.show import HEAD, cells
from poise.validation.training.score import REGRET, training_scores
from poise.validation.training.score import by_source as training_by_source

SIZE, LEFT, RIGHT, TOP, BOTTOM = 380, 62, 26, 14, 44

NEAR = 1.25
"""The factor of the dashed lines around the diagonal."""

FEW = 30
"""Plots of fewer points are folded away."""

COLOURED = 6
"""Devices with a colour of their own, those with most points; the others share one."""

OTHERS = 6
"""The colour of the other devices."""

PEERS = 3
"""Published errors that are listed beside ours, the lowest."""

TITLE = "Predictions against measurements"

_STYLE = (
    ".dots .l{stroke-width:5;stroke-linecap:round;opacity:.6}.off{display:none}"
    ".even{stroke:currentColor;stroke-width:1;opacity:.6;fill:none}.even.n{stroke-dasharray:3 4;opacity:.45}"
    "select{font:inherit;font-size:var(--small);padding:3px 8px;color:inherit;background:var(--ground);"
    "border:1px solid var(--soft);border-radius:99px;max-width:100%}.key .dot{width:14px}"
)


class Dot(NamedTuple):
    """A measured value and its prediction."""

    metric: str
    source: str
    device: str
    unit: str
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """The absolute error as a share of the measured value."""
        return abs(self.predicted / self.measured - 1)


def write_page(found: Answered, folder: Path) -> Path:
    """Write `validate.html` into `folder` and return its path."""
    path = folder / "validate.html"
    with replacing(path) as file:
        file.write(page(found).encode())
    return path


def page(found: Answered) -> str:
    """The page as text."""
    shown = dots(found)
    body = lead(_card(found, shown)) + _errors(found)
    body += _plots(shown)
    sources, devices = by_source(found.answers), by_device(found.answers)
    body += section(
        "By source and by device",
        fold(f"{len(sources)} rows by source", _scores(sources, _source, "Source")),
        fold(f"{len(devices)} rows by device", _scores(devices, lambda score: score.device, "Device")),
        anchor="source",
    )
    return document(TITLE, body + _training(found), style=_STYLE)


def dots(found: Answered) -> list[Dot]:
    """Values of serving and of training; whether a layout fits into memory is not shown in a chart."""
    serving = [
        Dot(each.row.metric, each.row.source, each.row.device, each.row.unit, each.row.value, each.predicted)
        for each in found.answers if each.predicted is not None and each.row.quality != "C"
    ]  # fmt: skip
    return serving + [
        Dot(f"{TRAINING}{each.run.metric}", each.run.source, each.run.device, "", each.run.value, each.predicted)
        for each in found.training if each.predicted is not None and each.run.metric != "fits"
    ]  # fmt: skip


# The answer ---------------------------------------------------------------------------------------------------------


def _card(found: Answered, shown: Sequence[Dot]) -> str:
    whole = len(found.answers) + len(found.training)
    if not shown:
        return card("Predicted against measured", "Nothing answered", f"{whole:,} measured values.", sense="open")
    offs = sorted(each.off for each in shown)
    near = sum(off <= NEAR - 1 for off in offs) / len(offs)
    devices, sources = len({each.device for each in shown}), len({each.source for each in shown})
    why = f"{len(shown):,} of {whole:,} measured values on {devices} devices from {sources} sources are answered."
    figures = tiles((
        Tile("Within 25 %", write(near, "share", 3), "of the values"),
        Tile("9 in 10 within", write(offs[min(int(0.9 * len(offs)), len(offs) - 1)], "share", 3), "absolute error"),
        Tile("Sources", str(sources)), Tile("Devices", str(devices)),
    ))  # fmt: skip
    return card("Predicted against measured", f"Median error {write(median(offs), 'share', 2)}", why, figures)


def _errors(found: Answered) -> str:
    """A row for each metric, with the errors that other simulators publish for it."""
    units = {each.row.metric: each.row.unit for each in found.answers}
    rows = [
        (
            long_name(each.metric), _share(each.median_ape), _share(each.p90_ape), _share(each.bias, signed=True),
            f"{each.answered:,} of {each.n:,}", _share(each.naive_median_ape), _peers(found.peers.get(each.metric, {})),
            units.get(each.metric, ""),
        )
        for each in sorted(totals(found.answers), key=lambda score: -score.answered)
    ]  # fmt: skip
    if not rows:
        return ""
    heads = ("Metric", "Median error", "9 in 10 within", "Bias", "Answered", "Roofline alone", "Published", "Unit")
    found_rows = text_table(heads, rows, label="Errors by metric", texts=(6, 7))
    words = "Errors are shares of the measured value. Published: median errors of other simulators on their own data."
    return section("Error by metric", found_rows, soft(words), anchor="all")


def _share(value: float | None, *, signed: bool = False) -> str:
    sign = ("+" if (value or 0) > 0 else "−") if signed and value else ""
    return MISSING if value is None else f"{sign}{write(abs(value), 'share', 2 if abs(value) < 1 else 3)}"


def _peers(peers: Mapping[str, float]) -> str:
    ranked = sorted(peers.items(), key=lambda each: each[1])
    return ", ".join(f"{name} {write(error, 'share', 2)}" for name, error in ranked[:PEERS]) or MISSING


# Plots --------------------------------------------------------------------------------------------------------------


def _plots(shown: Sequence[Dot]) -> str:
    """A plot for each metric; those of few points are folded away."""
    count = Counter(each.device for each in shown)
    styles = {name: style for style, (name, _) in enumerate(count.most_common(COLOURED))}
    by: dict[str, list[Dot]] = {}
    for each in sorted(shown, key=lambda dot: dot.metric):
        by.setdefault(each.metric, []).append(each)
    ranked = sorted(by.items(), key=lambda each: -len(each[1]))
    large = [scatter(metric, some, styles) for metric, some in ranked if len(some) >= FEW]
    small = [scatter(metric, some, styles) for metric, some in ranked if len(some) < FEW]
    words = "On the line a prediction is right; dashed lines are 25 % away. Point at a dot for its source."
    parts = [soft(words), '<p class="tools" data-picks="device source"></p>', _legend(styles, len(count)), grid(large)]
    if small:
        title = f"{len(small)} metrics of fewer than {FEW} values"
        parts.append(fold(title, grid(small), opened=not large))
    return section("Predicted over measured", *parts, anchor="plots")


def _legend(styles: Mapping[str, int], devices: int) -> str:
    named = {**styles, **({f"{devices - len(styles)} others": OTHERS} if devices > len(styles) else {})}
    spots = "".join(
        f'<span class="key"><svg class="dot" viewBox="0 0 12 12" aria-hidden="true"><circle class="d {colour(style)}"'
        f' cx="6" cy="6" r="5"/></svg>{escape(name)}</span>'
        for name, style in named.items()
    )
    return f'<div class="legend">{spots}</div>'


def scatter(metric: str, shown: Sequence[Dot], styles: Mapping[str, int]) -> str:
    """Predicted over measured on equal logarithmic axes, one path of dots for each device of a source."""
    values = [value for dot in shown for value in (dot.measured, dot.predicted)]
    unit = next((dot.unit for dot in shown if dot.unit), "")
    x, y = Scale(f"measured{f', {unit}' if unit else ''}", log=True), Scale("predicted", log=True)
    across, up = x.fit(values, LEFT, SIZE - RIGHT), y.fit(values, SIZE - BOTTOM, TOP + 12)
    placed: dict[tuple[str, str], list[str]] = {}
    for dot in shown:
        place = f"M{10 * across.place(dot.measured):.0f} {10 * up.place(dot.predicted):.0f}h0"
        placed.setdefault((dot.device, dot.source), []).append(place)
    groups = "".join(
        f'<g data-name="{escape(device)}, {escape(source)}" data-device="{escape(device)}"'
        f' data-source="{escape(source)}"><g transform="scale(.1)"><path class="l {colour(styles.get(device, OTHERS))}"'
        f' d="{"".join(places)}"/></g></g>'
        for (device, source), places in sorted(placed.items())
    )
    title, off = long_name(metric), write(median(dot.off for dot in shown), "share", 2)
    data = "".join(scale_data(name, axis) for name, axis in (("x", across), ("y", up)))
    return (
        f"<figure><figcaption>{escape(title)} <small>median error {off}, {len(shown):,} values</small></figcaption>"
        f'<svg class="chart dots" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="{escape(title)}"'
        f' data-read="measured {{x}}, predicted {{y}} {escape(unit)}"{data}>'
        f"{frame(across, up, x, y, SIZE)}{''.join(_diagonals(across, up))}{groups}</svg></figure>"
    )


def _diagonals(across: Axis, up: Axis) -> Iterator[str]:
    """The line on which predictions are right, and those a factor away."""
    for factor, style in ((1.0, "even"), (NEAR, "even n"), (1 / NEAR, "even n")):
        low, high = max(across.low, across.low / factor), min(across.high, across.high / factor)
        if low < high:
            ends = [f"{across.place(x):.1f} {up.place(x * factor):.1f}" for x in (low, high)]
            yield f'<path class="{style}" d="M{ends[0]}L{ends[1]}"/>'


# Tables -------------------------------------------------------------------------------------------------------------


def _training(found: Answered) -> str:
    """Training runs in all, the regret of the layouts chosen, and by source; nothing where there are none."""
    if not found.training:
        return ""
    whole = [score for score in training_scores(found.training) if score.source == ALL or score.metric == REGRET]
    parts = training_by_source(found.training)
    return section(
        "Training runs", _scores(whole, _rows, "Rows"),
        fold(f"{len(parts)} rows by source", _scores(parts, lambda score: score.source, "Source")), anchor="training",
    )  # fmt: skip


def _rows(score: Score) -> str:
    """The rows of a total, in words."""
    if score.source != ALL:
        return score.source
    return "complete conditions" if score.quality == "A" else "all"


def _source(score: Score) -> str:
    return score.source if score.quality != "C" else f"{score.source} (quality C)"


def _scores(scored: Sequence[Score], name: Callable[[Score], str], head: str) -> str:
    heads = (head, "Metric", *(each.capitalize() for each in HEAD))
    rows = [(name(score), long_name(score.metric), *cells(score)) for score in scored]
    return text_table(heads, rows, label=f"Scores by {head.lower()}", texts=(1,))
