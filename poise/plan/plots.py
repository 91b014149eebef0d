"""A plan's trade-offs as a matplotlib figure (extra `plot`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from poise.plan.goal import Goal
from poise.plan.trial import Trial
from poise.report.plots import COLOURS, MUTED, Drawing
from poise.report.wording import write

NAMED = 4
"""Fleets that are named besides the plan: those that hold at the least."""

Of = Callable[[Trial], float | None]


def trade_offs(trials: Sequence[Trial], best: Trial | None, goal: Goal) -> Figure:
    """The share that met the SLO over price, devices and power; the limit asked for is a line, the best are named."""
    panels: list[tuple[str, Of]] = [
        ("dollars per hour", lambda trial: trial.fleet.price_per_hour or None),
        ("devices", lambda trial: float(trial.fleet.devices)),
        ("kilowatts drawn", lambda trial: trial.watts / 1000),
    ]
    drawn = [(label, of) for label, of in panels if any(of(trial) is not None for trial in trials)]
    figure = Drawing(figsize=(5.2 * len(drawn), 4.2), layout="constrained")
    for number, (label, of) in enumerate(drawn):
        _draw(figure.add_subplot(1, len(drawn), number + 1), label, of, trials, best, goal)
    return figure


def _draw(axes: Axes, label: str, of: Of, trials: Sequence[Trial], best: Trial | None, goal: Goal) -> None:
    known = [trial for trial in trials if of(trial) is not None and not trial.cut]
    for holds, tint, name in ((True, COLOURS[2], "holds the SLO"), (False, COLOURS[7], "does not hold")):
        some = [trial for trial in known if trial.meets(goal) == holds and trial is not best]
        axes.scatter(
            [of(each) or 0 for each in some],
            [each.attainment for each in some],
            s=22,
            color=tint,
            label=name,
            marker="o" if holds else "x",
        )
    if best is not None:
        axes.scatter([of(best) or 0], [best.attainment], s=90, color=COLOURS[0], marker="*", label="the plan", zorder=3)
    axes.axhline(goal.attainment, color=MUTED, linestyle=":", linewidth=1)
    axes.annotate(
        f"asked: {write(goal.attainment, 'share')}",
        (0.99, goal.attainment),
        ha="right",
        va="bottom",
        xycoords=("axes fraction", "data"),
        fontsize=8,
        color=MUTED,
    )
    _name(axes, of, known, best, goal)
    axes.set_xlabel(label)
    axes.set_ylabel("share of requests that meet the SLO")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value, "share", 3)))
    axes.set_xlim(left=0)
    axes.grid(color="#dde1e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="lower right", frameon=False)


def _name(axes: Axes, of: Of, known: Sequence[Trial], best: Trial | None, goal: Goal) -> None:
    """The names of the plan and of the next fleets that hold, one under the other below their points."""
    held = [trial for trial in known if trial.meets(goal) and trial is not best]
    named = ([best] if best is not None else []) + sorted(held, key=lambda each: of(each) or 0)[:NAMED]
    for number, trial in enumerate(sorted(named, key=lambda each: of(each) or 0)):
        axes.annotate(
            trial.fleet.written, (of(trial) or 0, trial.attainment), xytext=(6, -16 - 12 * number),
            textcoords="offset points", fontsize=8, arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": MUTED},
        )  # fmt: skip
