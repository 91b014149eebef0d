"""A layout's step with its pipeline run operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from poise.core.errors import PoiseError
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.stages import Stages, stages_of
from poise.cost.training.step import Prediction
from poise.pipeline import Costs, Timing, make, time

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
    try:
        timing = timed(layout, microbatches, stages_of(job, layout, use))
    except PoiseError:  # a schedule that these counts do not allow keeps its closed form
        return found
    parts = parts_of(found.parts, float(timing.makespan) * GRAIN, float(max(timing.busy)) * GRAIN)
    seconds = sum(parts.values())
    scale = found.seconds / seconds
    return replace(
        found, seconds=seconds, parts=parts, bubble=parts["bubble"] / seconds,
        exposed=(parts["exposed_in_layers"] + parts["messages"] + parts["gradients"]) / seconds,
        mfu=found.mfu * scale, hfu=found.hfu * scale, tokens_per_device=found.tokens_per_device * scale,
    )  # fmt: skip


def parts_of(closed: Mapping[str, float], span: float, busy: float) -> dict[str, float]:
    """The parts of a step whose pipeline takes `span` seconds, of which its busiest rank works `busy`: they sum to it.

    Work is parted as the closed forms part it; what the rank waits for is messages, as far as they explain it, and the
    pipeline.
    """
    worked = closed["compute"] + closed["exposed_in_layers"]
    messages = min(closed["messages"], span - busy)
    work = {name: busy * closed[name] / worked for name in ("compute", "exposed_in_layers")}
    return {**closed, **work, "messages": messages, "bubble": span - busy - messages}


def timed(layout: Layout, microbatches: int, stages: Stages) -> Timing:
    """A layout's schedule, run with these times per stage."""
    costs = costs_of(stages)
    return time(make(layout.schedule, layout.pipeline, microbatches, costs=costs, **options(layout)), costs)


def options(layout: Layout) -> dict[str, Any]:
    """What its schedule is told besides counts and costs."""
    return {"chunks": layout.chunks} if layout.chunks > 1 else {}


def costs_of(stages: Stages) -> Costs:
    """Times per stage as exact costs of a schedule."""

    def units(seconds: tuple[float, ...]) -> list[int]:
        return [max(round(each / GRAIN), 0) for each in seconds]

    return Costs.of(units(stages.forward), units(stages.inputs), units(stages.weights), round(stages.hop / GRAIN))
