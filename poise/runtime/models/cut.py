"""A model's segments as stages of about equal cost, and the weights that are in more than one of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline.even_cut import even_cut
from poise.runtime.models.part import Part
from poise.runtime.models.segment import Segment, Segmented, cost


@dataclass(frozen=True)
class Tie:
    """One weight of the model in several stages: its name, and by stage the name that it has there."""

    name: str
    places: dict[int, str]


@dataclass(frozen=True)
class Cut:
    """The stages of a model."""

    parts: list[Part]
    ties: list[Tie]


def cut(model: Segmented, stages: int, length: int, costs: Sequence[float] | None = None) -> Cut:
    """The model as `stages` stages for sequences of `length` tokens, so that the dearest stage is as cheap as can be.

    A weight in several stages is found by identity; each stage behind the first gets a copy, and a `Pipeline` with
    the `ties` sums the gradients. The stages take the model's own modules, but for those copies. costs: of the
    segments; default: FLOPs.  ScheduleError with too few segments, or none.
    """
    if not hasattr(model, "segments"):
        raise ScheduleError(
            f"{type(model).__name__} has no segments(), so it cannot be cut; give it one that lists its parts in "
            "order, or give Pipeline its stages"
        )
    segments = list(model.segments())
    costs = costs or [cost(segment.module, length) for segment in segments]
    if len(segments) < stages:
        raise ScheduleError(
            f"the model has {len(segments)} segments, the schedule {stages} stages; give a larger model, or a "
            "schedule of fewer stages"
        )
    names = _names(model, segments)
    parts = [Part(segments[first:last], names) for first, last in even_cut(costs, stages)]
    ties = _ties(parts)
    for later in {stage for tie in ties for stage in list(tie.places)[1:]}:
        parts[later] = copy.deepcopy(parts[later])
    return Cut(parts, ties)


def _names(model: object, segments: Sequence[Segment]) -> dict[int, str]:
    """The name in the whole model of every weight by its identity; of segments alone, what they are called."""
    found: dict[int, str] = {}
    if isinstance(model, nn.Module):
        found = {id(weight): name for name, weight in model.named_parameters()}
    for segment in segments:
        for name, weight in segment.module.named_parameters():
            found.setdefault(id(weight), f"{segment.name}.{name}")
    return found


def _ties(parts: Sequence[Part]) -> list[Tie]:
    places: dict[int, Tie] = {}
    for stage, part in enumerate(parts):
        for local, weight in part.named_parameters():
            tie = places.setdefault(id(weight), Tie(part.names[local], {}))
            tie.places[stage] = local
    return [tie for tie in places.values() if len(tie.places) > 1]
