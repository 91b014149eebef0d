"""Results as matplotlib figures (extra `plot`), in the colours of the pages, with units and the names on the lines.

Figures are made without pyplot, so they need not be closed, and a notebook shows each once.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from poise.report.figures import ATTAINMENT, Curves
from poise.report.figures import Figure as Measure
from poise.report.svg import light
from poise.report.tidy import unit
from poise.report.wording import Kind, significant, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = [light()[f"c{number}"] for number in range(8)]
"""Okabe and Ito's, as on the pages."""

MUTED = light()["soft"]
"""Of marks and limits."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
"""Of further lines, when the colours are used up."""

LETTER_PT = 11.0
"""Height that a name takes, in points."""

_NAMES = {"ttft_s": "time to first token", "tpot_s": "time per output token", "e2e_s": "end to end"}


Point = tuple[float, float | None, float | None, float | None, float | None]
"""A load, its requests per second, a value and the ends of its interval."""


class Drawing(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=110)
        return file.getvalue()


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; low, high: its band, NaN where there is none."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    kind: of the values of y; seconds_x: those of x are seconds.  marks: positions on x by name.  limit: a value of y
    that is asked for, with its name.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    kind: Kind = "number"
    seconds_x: bool = False
    log_x: bool = False
    log_y: bool = False
    steps: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)
    limit: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of several candidates: its title and unit, a value of each (None: missing), half of its interval.

    limit: the value asked for, with its name.
    """

    title: str
    unit: str
    values: Sequence[float | None]
    halves: Sequence[float | None] = ()
    kind: Kind = "number"
    limit: tuple[str, float] | None = None


def dots(names: Sequence[str], columns: Sequence[Column], title: str = "") -> Figure:
    """A row for each candidate, the chosen one first, and a pair of axes for each figure; limits are dotted lines."""
    wide = 1.5 + 0.068 * max((len(name) for name in names), default=10)
    figure = Drawing(figsize=(wide + 2.4 * len(columns), 1.4 + 0.32 * len(names)), layout="constrained")
    figure.suptitle(title, fontsize=10, fontweight="bold", x=0.01, ha="left")
    first: Axes | None = None
    for number, column in enumerate(columns):
        axes = figure.add_subplot(1, len(columns), number + 1, sharey=first)
        first = first or axes
        _column(axes, column)
        axes.tick_params(axis="y", labelleft=axes is first, length=0)
    if first is not None:
        first.set_yticks(range(len(names)), names, fontsize=8.5)
        first.set_ylim(len(names) - 0.5, -0.5)
    return figure


def _column(axes: Axes, column: Column) -> None:
    halves = column.halves or [None] * len(column.values)
    for at, (value, half) in enumerate(zip(column.values, halves, strict=True)):
        if value is not None:
            tint = COLOURS[1] if at == 0 else COLOURS[0]
            axes.errorbar(value, at, xerr=half, fmt="D" if at == 0 else "o", color=tint, markersize=5, elinewidth=1)
    if column.limit is not None:
        name, limit = column.limit
        axes.axvline(limit, color=MUTED, linestyle=":", linewidth=1.2)
        axes.annotate(
            name, (limit, 1.0), xycoords=("data", "axes fraction"), fontsize=8, color=MUTED, ha="center", va="bottom"
        )
    axes.set_xlabel(f"{column.title}, {column.unit}" if column.unit else column.title)
    if column.kind in ("share", "seconds"):
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value, column.kind, 3)))
    if column.kind == "share":
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -0.02), min(high, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(color="#dde1e6", linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)


def drawing(panels: Sequence[Panel], *, columns: int = 3) -> Figure:
    """The panels side by side, at most so many in a row."""
    across = min(columns, len(panels))
    rows = -(-len(panels) // across)
    figure = Drawing(figsize=(5.2 * across, 3.6 * rows), layout="constrained")
    names = dict.fromkeys(line.name for panel in panels for line in panel.lines)
    styles = {name: number for number, name in enumerate(names)}
    for number, panel in enumerate(panels):
        _draw(figure.add_subplot(rows, across, number + 1), panel, styles)
    return figure


def _draw(axes: Axes, panel: Panel, styles: Mapping[str, int]) -> None:
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for line in panel.lines:
        _line(axes, line, styles[line.name], panel.steps)
    if panel.kind == "share":
        axes.set_ylim(-0.02, 1.05)
    if panel.kind in ("share", "seconds", "dollars"):
        ticks = FuncFormatter(lambda value, _: write(value, panel.kind, 3))
        axes.yaxis.set_major_formatter(ticks)
        axes.yaxis.set_minor_formatter(ticks if panel.log_y else NullFormatter())
    if panel.seconds_x:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value, "seconds", 3)))
    for name, at in panel.marks.items():
        axes.axvline(at, color=MUTED, linestyle=":", linewidth=1)
        axes.annotate(name, (at, 0.02), xycoords=("data", "axes fraction"), fontsize=8, color=MUTED, rotation=90)
    if panel.limit is not None:
        axes.axhline(panel.limit[1], color=MUTED, linestyle=":", linewidth=1)
        axes.annotate(panel.limit[0], (0.01, panel.limit[1]), xycoords=("axes fraction", "data"), fontsize=8)
    axes.grid(color="#dde1e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    _label(axes, panel.lines, styles)


def _line(axes: Axes, line: Line, style: int, steps: bool) -> None:
    tint, dash = COLOURS[style % len(COLOURS)], DASHES[style // len(COLOURS) % len(DASHES)]
    shape = {"drawstyle": "steps-post"} if steps else {"marker": "o", "markersize": 3.5}
    axes.plot(line.x, line.y, color=tint, linestyle=dash, linewidth=1.8, label=line.name, **shape)
    if line.low:
        axes.fill_between(line.x, line.low, line.high, color=tint, alpha=0.15, linewidth=0)


def _label(axes: Axes, lines: Sequence[Line], styles: Mapping[str, int]) -> None:
    """Names at the ends of the lines, moved apart where they would touch."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.canvas.draw()  # places are known only then
    ends = sorted((_end(axes, line), line.name) for line in lines if any(map(math.isfinite, line.y)))
    least = LETTER_PT * figure.dpi / 72 / axes.bbox.height
    for at, name in zip(_apart([end for end, _ in ends], least), [name for _, name in ends], strict=True):
        axes.annotate(
            name, (1.01, at), xycoords="axes fraction", fontsize=8.5, va="center", annotation_clip=False,
            color=COLOURS[styles[name] % len(COLOURS)],
        )  # fmt: skip


def _end(axes: Axes, line: Line) -> float:
    """Where a line ends, as a share of the height of its axes."""
    last = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)][-1]
    return float((axes.transData.transform(last)[1] - axes.bbox.y0) / axes.bbox.height)


def _apart(places: Sequence[float], least: float) -> list[float]:
    """Ascending places moved so that each is `least` above the one before, and none above 1."""
    moved: list[float] = []
    for place in places:
        place = max(place, 0.0) if math.isfinite(place) else 0.0
        moved.append(max(place, moved[-1] + least) if moved else place)
    most = 1.0
    for at in reversed(range(len(moved))):
        moved[at] = min(moved[at], most)
        most = moved[at] - least
    return moved


def distributions(curves: Curves) -> Figure:
    """The distributions of the latencies of a run."""
    lines = [Line(_NAMES.get(name, name), *points) for name, points in curves.items() if points[0]]
    panel = Panel(
        "Latency of finished requests", "time, logarithmic", "share of requests within it", lines, "share",
        seconds_x=True, log_x=True, steps=True,
    )  # fmt: skip
    return drawing([panel])


def over_load(
    figure: Measure, curves: Mapping[str, Sequence[Point]], rate: float | None, target: float | None = None
) -> Panel:
    """A figure over load: a line for each policy with its 95 % band; load 1 is marked, and the target of a share.

    curves: (load, requests per second, value, low, high) of each policy.  rate: requests per second at load 1.
    """
    lines = [
        Line(
            name, [each[0] for each in points], [_number(each[2]) for each in points],
            [_number(each[3]) for each in points], [_number(each[4]) for each in points],
        )
        for name, points in curves.items()
    ]  # fmt: skip
    across = "load, as a multiple of the traffic" + ("" if rate is None else f" ({significant(rate, 3)} req/s)")
    label = {"seconds": "time", "share": "share", "dollars": "dollars per million tokens"}.get(figure.kind)
    return Panel(
        figure.label, across, label or unit(figure) or "number", lines, figure.kind, log_y=figure.kind == "seconds",
        marks={"load 1": 1.0}, limit=("target", target) if figure == ATTAINMENT and target is not None else None,
    )  # fmt: skip


def _number(value: float | None) -> float:
    return math.nan if value is None else value
