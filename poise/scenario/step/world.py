"""A step of training as a world: the figures of a layout on a cluster under a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from random import Random
from typing import Any

from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training import Job, Layout
from poise.cost.training.step import Prediction, predict
from poise.experiment.case import Case
from poise.pipeline.costs import Costs
from poise.report.figures import Figure
from poise.sim.step.layout import Draw, jittered, simulated
from poise.sim.step.linked import Linked, linked
from poise.sim.step.linked import check as check_linked
from poise.sim.step.recorded import fitted, recorded

GIB = 2**30
FINE = 1000
"""Factors of chance are taken to a thousandth."""

STEP = Figure("Step", ("step_s",), "seconds", "from one update of the weights to the next", "less")
MFU = Figure("MFU", ("mfu",), "share", "the model's FLOP over what the devices' peak would do in the step", "more")
BUBBLE = Figure("Bubble", ("bubble",), "share", "of the step, in which the busiest device waits for others", "less")
EXPOSED = Figure("Exposed", ("exposed",), "share", "of the step, in which it waits for communication", "less")
MEMORY = Figure("Memory GiB", ("memory_gib",), "number", "at the peak of the fullest device", "less")
TOKENS = Figure("Tok/s/device", ("tokens_per_s_per_device",), "number", "tokens trained on per second", "more")
COST = Figure("$ / Mtok", ("cost_usd_per_mtok",), "dollars", "dollars per million tokens trained on", "less")
FIGURES = (STEP, MFU, BUBBLE, EXPOSED, MEMORY, TOKENS, COST)


@dataclass(frozen=True, slots=True)
class Jitter:
    """Standard deviations over means of the work of a pipeline's ranks, and of its microbatches."""

    rank: float = 0.0
    microbatch: float = 0.0

    def draw(self, seed: int, pipeline: int, ranks: int, microbatches: int) -> Draw:
        """The chance of one of the pipelines: the same ranks and microbatches are hit in every layout."""
        return Draw(
            tuple(_factor(self.rank, f"{seed}/{pipeline}/rank/{each}") for each in range(ranks)),
            tuple(_factor(self.microbatch, f"{seed}/{pipeline}/microbatch/{each}") for each in range(microbatches)),
        )


def _factor(cv: float, key: str) -> Fraction:
    """A log-normal factor of mean 1, drawn by its key."""
    if not cv:
        return Fraction(1)
    sigma = math.sqrt(math.log1p(cv * cv))
    return Fraction(round(math.exp(Random(key).gauss(-sigma * sigma / 2, sigma)) * FINE), FINE)


def run(case: Case, seed: int) -> dict[str, Any]:
    """The figures of a step. parameters: `job`, `layout` (a mapping of fields), `price`, `jitter`, and what varies."""
    job, layout = laid(case.parameters)
    price = case.parameters["price"]
    found = ran(job, layout, case.parameters["jitter"], seed, case.parameters["how"])
    return {
        "step_s": found.seconds,
        "mfu": found.mfu,
        "bubble": found.bubble,
        "exposed": found.exposed,
        "memory_gib": found.memory / GIB,
        "tokens_per_s_per_device": found.tokens_per_device,
        "cost_usd_per_mtok": job.devices * price / 3600 * found.seconds / job.tokens * 1e6 if price else None,
    }


@dataclass(frozen=True, slots=True)
class How:
    """How a step is run. links: as a Program on links; None: transfers are closed forms.  costs: of a recorded step, in
    seconds; None: the cost model's."""

    links: Linked | None = None
    costs: Costs | None = None

    def check(self, job: Job, layout: Layout, jitter: Jitter) -> None:
        """ScenarioError for passes and operations that cannot be run, and for costs of other stages."""
        if self.links is not None:
            check_linked(job, layout, self.links, layout.data if jitter != Jitter() else 0)
        if self.costs is not None:
            try:
                fitted(self.costs, layout)
            except ScheduleError:
                raise ScenarioError(
                    f"costs: are of {len(self.costs.f)} stages, and the layout has {layout.stages} on "
                    f"{layout.pipeline} ranks; give a layout of as many, or record a step of such a pipeline"
                ) from None


def ran(job: Job, layout: Layout, jitter: Jitter, seed: int, how: How | None = None) -> Prediction:
    """One step, its pipeline run operation by operation; ScenarioError for a layout that cannot be."""
    found, how = predict(job, layout), how or How()
    counts = layout.pipeline, layout.microbatches(job)
    draws = [] if jitter == Jitter() else [jitter.draw(seed, each, *counts) for each in range(layout.data)]
    costs = None if how.costs is None else fitted(how.costs, layout)
    if how.links is not None:
        return linked(job, found, how.links, draws, costs)
    if costs is not None:
        return recorded(job, found, costs, draws)
    return jittered(job, found, draws) if draws else simulated(job, found)


VARIED = ("batch", "sequence", "devices")
"""The fields of the job that may vary, besides the counts of the layout."""


def laid(parameters: Mapping[str, Any]) -> tuple[Job, Layout]:
    """The job and the layout of a case, with the varied number set; ScenarioError where no data ranks are left."""
    job, given = parameters["job"], dict(parameters["layout"])
    job = replace(job, **{name: int(parameters[name]) for name in VARIED if name in parameters})
    given |= {each.name: int(parameters[each.name]) for each in fields(Layout) if each.name in parameters}
    if given.get("data") is None:
        group = math.prod(given.get(name, 1) for name in ("tensor", "pipeline", "context"))
        if job.devices % group:
            raise ScenarioError(
                f"layout: tensor × pipeline × context = {group} does not divide the {job.devices} devices; give "
                "degrees whose product does"
            )
        given["data"] = job.devices // group
    return job, Layout(**given)
