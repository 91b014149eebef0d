"""Layouts of a training run as a matplotlib figure (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from poise.cost.training import Job, Prediction
from poise.plan.training.rows import GIB
from poise.report.plots import COLOURS, MUTED, Drawing


def time_and_memory(job: Job, alternatives: Sequence[Prediction], frontier: Sequence[Prediction]) -> Figure:
    """Seconds of a step over memory: the frontier as a line, the alternatives as points with their layouts."""
    figure = Drawing(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    front = sorted(frontier, key=lambda each: each.memory)
    axes.plot(
        [each.memory / GIB for each in front],
        [each.seconds for each in front],
        color=COLOURS[1],
        marker="o",
        markersize=3.5,
        linewidth=1.4,
        label="time against memory",
    )
    axes.scatter(
        [each.memory / GIB for each in alternatives],
        [each.seconds for each in alternatives],
        color=COLOURS[0],
        s=26,
        zorder=3,
        label="the fastest of each kind",
    )
    limit = job.device.memory_bytes / GIB
    axes.axvline(limit, color=MUTED, linestyle=":", linewidth=1)
    axes.annotate(
        f"memory of {job.device.name}",
        (limit, 0.98),
        xycoords=("data", "axes fraction"),
        rotation=90,
        ha="right",
        va="top",
        fontsize=8,
        color=MUTED,
    )
    ranked = sorted(alternatives, key=lambda each: each.seconds, reverse=True)
    for number, each in enumerate(ranked):
        axes.annotate(
            each.layout.label(), (each.memory / GIB, each.seconds), xytext=(1.02, 0.95 - 0.9 * number / len(ranked)),
            textcoords="axes fraction", fontsize=8, va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": MUTED},
        )  # fmt: skip
    axes.set_title(f"{job.model.name} on {job.devices} {job.device.name}", loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel("memory of the fullest device, GiB")
    axes.set_ylabel("seconds a step")
    axes.set_ylim(bottom=0)
    axes.grid(color="#dde1e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="lower left", frameon=False)
    return figure
