"""Weights that ranks share: copies of a stage under one schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from poise.pipeline.schedule import Schedule
from poise.runtime.stage import Stage, own_part
from poise.runtime.wire import Wire

Stages = Mapping[int, Stage]


def share_weights(schedule: Schedule, stages: Stages, wire: Wire) -> None:
    """All copies of a stage take the weights of the first."""
    for stage, homes in _copied(schedule, stages):
        weights = [own_part(each.data) for each in stages[stage].module.state_dict(keep_vars=True).values()]
        if wire.rank == homes[0]:
            for home in homes[1:]:
                wire.send(tuple(weights), home)
        else:
            for own, given in zip(weights, wire.receive(weights, homes[0]).wait(), strict=True):
                own.copy_(given)
    wire.finish()


def _copied(schedule: Schedule, stages: Stages) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The stages here that others have as well; every rank visits them in the same order."""
    for stage in stages:
        if len(schedule.homes[stage]) > 1:
            yield stage, schedule.homes[stage]
