"""A layout's step with the times of a recorded one in place of the cost model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.step import Prediction
from poise.pipeline import Costs
from poise.sim.step.layout import GRAIN, Draw, check_count, parts_of, timed_by, with_parts

UNIT = Fraction(round(1 / GRAIN))
"""Units of a schedule's clock in a second."""


def fitted(costs: Costs, layout: Layout) -> Costs:
    """Costs of full stages, or of the layout's own chunks, in units of `GRAIN`; ScheduleError where neither fits."""
    own = costs if len(costs.f) in (1, layout.stages) else costs.whole(layout.pipeline)
    own.at(layout.pipeline, layout.stages, 1)
    return own.times(UNIT)


def recorded(job: Job, found: Prediction, costs: Costs, draws: Sequence[Draw] = ()) -> Prediction:
    """The prediction with its pipeline run with `costs`, in units of `GRAIN`; the slowest of the `draws` decides.

    What follows the pipeline is the cost model's. messages: by how much it is longer than with messages of no time.
    ScenarioError for more than `MOST` operations.
    """
    layout = found.layout
    microbatches = layout.microbatches(job)
    check_count("costs", job, layout, layout.stages * max(1, len(draws)), "fewer microbatches or pipelines")
    still = replace(costs, comm=(Fraction(0),), links=None)
    timings = [(timed_by(layout, microbatches, costs, each), each) for each in draws or (None,)]
    slowest, draw = max(timings, key=lambda each: each[0].makespan)
    span, busy = float(slowest.makespan) * GRAIN, float(max(slowest.busy)) * GRAIN
    messages = span - float(timed_by(layout, microbatches, still, draw).makespan) * GRAIN
    return with_parts(found, parts_of({**found.parts, "messages": max(0.0, messages)}, span, busy))
