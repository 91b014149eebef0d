"""Weights that are in several stages, as an embedding that is also the head: one gradient for all their copies."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from poise.core.errors import ScheduleError
from poise.runtime.models.cut import Tie
from poise.runtime.pipeline import Pipeline
from poise.runtime.subgroup import subgroup


class Ties:
    """The tied weights of a pipeline, whose stages are `Part`s; made on all ranks together.

    Each stage has a copy with the same first value. After a step `sum` gives each the sum of all gradients, so that
    equal optimizers keep them equal. `repeated` are the copies here that a norm over all weights must not count again.
    """

    def __init__(self, pipeline: Pipeline, ties: Sequence[Tie]) -> None:
        if ties and pipeline.schedule.updates != "flush":
            raise ScheduleError(
                f"updates {pipeline.schedule.updates} with the tied weight {ties[0].name}: its copies would drift "
                "apart; choose updates flush, or a model without tied weights"
            )
        self._pipeline = pipeline
        self._ties = [(tie, self._group(tie)) for tie in ties]
        self.repeated = {
            id(weight) for tie in ties for stage, weight in self._here(tie).items() if stage != next(iter(tie.places))
        }

    def sum(self) -> None:
        """Sum the gradients over the stages: a collective of the ranks that have one of them."""
        for tie, group in self._ties:
            here = self._here(tie)
            if not here:
                continue
            total = torch.zeros_like(next(iter(here.values())))
            for stage, weight in here.items():
                if self._pipeline.schedule.homes[stage][0] == self._pipeline.rank and weight.grad is not None:
                    total += weight.grad
            if group is not None:
                dist.all_reduce(total, group=group)
            for weight in here.values():
                weight.grad = total.clone()

    def _here(self, tie: Tie) -> dict[int, nn.Parameter]:
        """This rank's copies by stage."""
        stages = self._pipeline.stages
        return {
            stage: stages[stage].module.get_parameter(local) for stage, local in tie.places.items() if stage in stages
        }

    def _group(self, tie: Tie) -> dist.ProcessGroup | None:
        """The ranks with a copy; None on the others, and where one rank has them all."""
        schedule, globals_ = self._pipeline.schedule, self._pipeline.wire.globals
        ranks = sorted({globals_[home] for stage in tie.places for home in schedule.homes[stage]})
        if len(ranks) < 2:
            return None
        return subgroup(ranks, self._pipeline.group, self._pipeline.wire.device)
