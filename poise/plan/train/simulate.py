"""A layout's step with its pipeline run operation by operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.core.errors import PoiseError
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.stages import Stages, stages_of
from poise.cost.training.step import Prediction
from poise.pipeline import Costs, make, time

GRAIN = 1e-6
"""Seconds of one unit of the schedule's clock: durations are rounded to it."""
MOST = 60_000
"""Operations up to which a schedule is simulated; beyond, its closed form stands."""


def simulated(job: Job, found: Prediction, use: Figures | None = None) -> Prediction:
    """The prediction with the makespan of its schedule in place of the closed form; unchanged where it has none."""
    layout = found.layout
    microbatches = layout.microbatches(job)
    if layout.pipeline == 1 or 3 * microbatches * layout.stages > MOST:
        return found
    stages = stages_of(job, layout, use)
    try:
        span = pipeline_seconds(layout, microbatches, stages)
    except PoiseError:  # a schedule that these counts do not allow keeps its closed form
        return found
    after = found.seconds - sum(found.parts[name] for name in ("compute", "exposed_in_layers", "bubble", "messages"))
    seconds = span + after
    busy = stages.busiest * microbatches
    parts = {**found.parts, "bubble": max(0.0, span - busy - found.parts["messages"])}
    scale = found.seconds / seconds
    return replace(
        found, seconds=seconds, parts=parts, bubble=(span - busy) / seconds, exposed=found.exposed * scale,
        mfu=found.mfu * scale, hfu=found.hfu * scale, tokens_per_device=found.tokens_per_device * scale,
    )  # fmt: skip


def pipeline_seconds(layout: Layout, microbatches: int, stages: Stages) -> float:
    """The makespan of a layout's schedule with these times per stage."""
    costs = costs_of(stages)
    schedule = make(layout.schedule, layout.pipeline, microbatches, costs=costs, **options(layout))
    return float(time(schedule, costs).makespan) * GRAIN


def options(layout: Layout) -> dict[str, Any]:
    """What its schedule is told besides counts and costs."""
    return {"chunks": layout.chunks} if layout.chunks > 1 else {}


def costs_of(stages: Stages) -> Costs:
    """Times per stage as exact costs of a schedule."""

    def units(seconds: tuple[float, ...]) -> list[int]:
        return [max(round(each / GRAIN), 0) for each in seconds]

    return Costs.of(units(stages.forward), units(stages.inputs), units(stages.weights), round(stages.hop / GRAIN))
