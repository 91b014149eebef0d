"""A layout's step with its pipeline run operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from poise.core.errors import PoiseError, ScenarioError
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.schedules import LIMITED
from poise.cost.training.stages import Stages, stages_of
from poise.cost.training.step import Prediction
from poise.pipeline import Costs, Timing, make, time

GRAIN = 1e-6
"""Seconds of one unit of the schedule's clock: durations are rounded to it."""
MOST = 60_000
"""Most operations of a simulated schedule; beyond, its closed form is used."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The chance of one pipeline: factors on the work of each of its ranks, and of each microbatch."""

    rank: tuple[Fraction, ...]
    microbatch: tuple[Fraction, ...]


def jittered(job: Job, found: Prediction, draws: Sequence[Draw], use: Figures | None = None) -> Prediction:
    """The prediction with a draw for each of the pipelines that are summed behind them: the slowest decides.

    ScenarioError for more than `MOST` operations, and for counts that the schedule does not allow.
    """
    layout = found.layout
    microbatches = layout.microbatches(job)
    cure = "fewer microbatches or pipelines, or leave jitter"
    check_count("jitter", job, layout, layout.stages * len(draws), cure)
    stages = stages_of(job, layout, use)
    timings = [timed(layout, microbatches, stages, each) for each in draws]
    slowest = max(timings, key=lambda timing: timing.makespan)
    return _with_span(found, float(slowest.makespan) * GRAIN, float(max(slowest.busy)) * GRAIN)


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
    return _with_span(found, float(timing.makespan) * GRAIN, float(max(timing.busy)) * GRAIN)


def check_count(what: str, job: Job, layout: Layout, stages: int, cure: str) -> None:
    """ScenarioError where so many stages, of all pipelines that are run, have more than `MOST` operations."""
    count = 3 * layout.microbatches(job) * stages
    if count > MOST:
        raise ScenarioError(
            f"{what}: {layout.label()} has {count:,} operations, and no more than {MOST:,} are run one by one; "
            f"give {cure}"
        )


def _with_span(found: Prediction, span: float, busy: float) -> Prediction:
    """The prediction with a pipeline that takes `span` seconds, of which its busiest rank works `busy`."""
    return with_parts(found, parts_of(found.parts, span, busy))


def with_parts(found: Prediction, parts: dict[str, float]) -> Prediction:
    """The prediction with other parts, which sum to its step."""
    seconds = sum(parts.values())
    exposed = parts["exposed_in_layers"] + parts["messages"] + parts["gradients"]
    return replace(found.lasting(seconds), parts=parts, bubble=parts["bubble"] / seconds, exposed=exposed / seconds)


def parts_of(closed: Mapping[str, float], span: float, busy: float) -> dict[str, float]:
    """The parts of a step whose pipeline takes `span` seconds, of which its busiest rank works `busy`: they sum to it.

    Work is parted as the closed forms part it; what the rank waits for is messages, as far as they explain it, and the
    pipeline.
    """
    worked = closed["compute"] + closed["exposed_in_layers"]
    messages = min(closed["messages"], span - busy)
    work = {name: busy * closed[name] / worked for name in ("compute", "exposed_in_layers")}
    return {**closed, **work, "messages": messages, "bubble": span - busy - messages}


def timed(layout: Layout, microbatches: int, stages: Stages, draw: Draw | None = None) -> Timing:
    """A layout's schedule, made for these times per stage, and run with them or with what chance makes of them."""
    return timed_by(layout, microbatches, costs_of(stages), draw)


def timed_by(layout: Layout, microbatches: int, costs: Costs, draw: Draw | None = None) -> Timing:
    """The same with costs of stages, in units of `GRAIN`."""
    schedule = make(layout.schedule, layout.pipeline, microbatches, costs=costs, **options(layout))
    return time(schedule, costs if draw is None else replace(costs, rank=draw.rank, microbatch=draw.microbatch))


def options(layout: Layout) -> dict[str, Any]:
    """The schedule's parameters besides counts and costs: what is searched is so within what `schedules.FORMS` says."""
    limit = {"memory_limit": layout.pipeline} if layout.schedule in LIMITED else {}
    return limit | ({"chunks": layout.chunks} if layout.chunks > 1 else {})


def costs_of(stages: Stages) -> Costs:
    """Times per stage as exact costs of a schedule."""

    def units(seconds: tuple[float, ...]) -> list[int]:
        return [max(round(each / GRAIN), 0) for each in seconds]

    return Costs.of(units(stages.forward), units(stages.inputs), units(stages.weights), round(stages.hop / GRAIN))
