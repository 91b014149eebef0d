"""How far a measured training step may be from a predicted one, and with which confidence its memory fits.

As for requests (`poise.scenario.model_error`) by how far published runs were off. No software and no published model
are named, so the intervals are those of software and models that were not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from poise.cost.training import Job, Layout
from poise.cost.training.step import Prediction
from poise.intervals.interval import CONFIDENCE, Bounds, Interval
from poise.intervals.shipped import interval_of
from poise.report.wording import duration, significant, write
from poise.scenario.evidence import training_conditions

OUTSIDE = "framework"
"""The class of memory that software does not report, and of which no peaks were measured."""


@dataclass(frozen=True, slots=True)
class StepError:
    """The intervals of the time and of the memory of a step, as factors of the predicted values."""

    step: Interval
    memory: Interval

    def fits(self, found: Prediction, job: Job) -> float:
        """With which confidence a layout fits its device, in [0, 1]."""
        outside = found.classes.get(OUTSIDE, 0.0)
        return self.memory.below((job.device.memory_bytes - outside) / (found.memory - outside))

    def line(self, found: Prediction, job: Job, confidence: float = CONFIDENCE) -> str:
        """One line for a layout: between which times its step would be measured, and whether it fits."""
        low, high = map(duration, self.step.bounds(found.seconds, confidence))
        return (
            f"Model error: with {write(confidence, 'share')} confidence a measured step takes {low} to {high}; "
            f"memory fits with {write(self.fits(found, job), 'share', 2)} confidence"
        )

    def as_dict(self, found: Prediction, job: Job, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """The same for JSON."""
        step_s = self.step.bounds(found.seconds, confidence)._asdict()
        return {"confidence": confidence, "step_s": step_s, "fits": self.fits(found, job)}


def step_error(job: Job, layout: Layout) -> StepError:
    """The intervals of a layout's step."""
    step, memory = (interval_of(training_conditions(figure, job, layout)) for figure in ("step_time", "peak_memory"))
    return StepError(step, memory)


def factors(pairs: Iterable[tuple[Job, Layout]], confidence: float = CONFIDENCE) -> Bounds:
    """The least and the largest factor by which measured steps of several layouts may differ from predicted ones."""
    ends = [step_error(job, layout).step.bounds(1.0, confidence) for job, layout in pairs]
    return Bounds(min(low for low, _ in ends), max(high for _, high in ends))


def factors_line(found: Bounds, confidence: float = CONFIDENCE) -> str:
    """One line for a comparison of layouts."""
    low, high = (significant(each, 2) for each in found)
    return (
        f"Model error, chance apart: with {write(confidence, 'share')} confidence measured steps take {low} to {high} "
        "times as long as these; one model prices all layouts, so much of it should cancel between them."
    )
