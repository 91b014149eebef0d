"""Layouts of a training run side by side as a matplotlib figure (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from poise.cost.training import Job, Prediction
from poise.plan.training.rows import GIB
from poise.report.plots import Column, dots


def beside(job: Job, layouts: Sequence[Prediction]) -> Figure:
    """The time of a step, memory against what the device has, MFU, and what is lost, of each layout, the best first."""
    limit = (f"{job.device.memory_bytes / GIB:.0f} GiB", job.device.memory_bytes / GIB)
    columns = [
        Column("step", "s", [each.seconds for each in layouts]),
        Column("memory, fullest device", "GiB", [each.memory / GIB for each in layouts], limit=limit),
        Column("MFU", "", [each.mfu for each in layouts], kind="share"),
        Column("bubble", "", [each.bubble for each in layouts], kind="share"),
        Column("exposed communication", "", [each.exposed for each in layouts], kind="share"),
    ]
    title = f"{job.model.name} on {job.devices} {job.device.name}"
    return dots([each.layout.label() for each in layouts], columns, title)
