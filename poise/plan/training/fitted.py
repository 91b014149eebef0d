"""A layout with the least recomputation with which it fits, as a practitioner takes it where a source is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.cost.training import Job, Layout, Prediction, predict

WAYS: tuple[dict[str, Any], ...] = (
    {"recompute": "none"},
    {"recompute": "selective"},
    {"recompute": "operations"},
    {"recompute": "operations", "operations": ("norm", "mla", "experts", "shared")},
    {"recompute": "full"},
)
"""Ways to recompute, by what they cost in time."""


def fitted(job: Job, layout: Layout) -> Prediction:
    """The step with the first of `WAYS` that fits; with the last where none does."""
    ways = [each for each in WAYS if job.model.moe is not None or "experts" not in each.get("operations", ())]
    found = [predict(job, replace(layout, **each)) for each in ways]
    return next((each for each in found if each.fits(job)), found[-1])
