"""A model in one process, and the same in a pipeline: losses and gradients by name."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.decoder import cross_entropy
from poise.runtime.models import build
from poise.runtime.models.cut import Cut, cut
from poise.runtime.models.part import materialise
from poise.runtime.models.read import read
from poise.runtime.norm import Norms, norms

LENGTH = 24
MICROBATCHES = 8


def batch(rows: int = MICROBATCHES) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Tokens, targets and two documents in each row, of which the first ends elsewhere in each."""
    draw = torch.Generator().manual_seed(5)
    tokens = torch.randint(64, (rows, LENGTH + 1), generator=draw)
    ends = torch.randint(1, LENGTH, (rows, 1), generator=draw)
    at = torch.arange(LENGTH)[None]
    documents = (at >= ends).long()
    return tokens[:, :-1], tokens[:, 1:], {"positions": at - documents * ends, "documents": documents}


def made(config: dict[str, Any], stages: int) -> Cut:
    """In double precision, with the same weights for any number of stages."""
    with torch.device("meta"):
        model = build(read(config))
    found = cut(model, stages, LENGTH)
    for part in found.parts:
        materialise(part, seed=3, std=model.std, dtype=torch.float64)
    return found


def alone(config: dict[str, Any]) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of one process."""
    part = made(config, 1).parts[0]
    tokens, target, shared = batch()
    loss = cross_entropy(part(tokens, **shared), target)
    loss.backward()
    return loss.item(), {part.names[local]: weight.grad for local, weight in part.named_parameters()}  # type: ignore[misc]


def piped(config: dict[str, Any], schedule: str, change: str = "") -> tuple[float, dict[str, list[Tensor]], Norms]:
    """On a rank of four: the loss, the gradients of its stages by name, one for each copy, and the norms of all."""
    plan = make(schedule, 4, MICROBATCHES)
    found = made(config, plan.stages)
    for part in found.parts:
        part.recompute = change == "recompute"
        if change == "compile":
            part.compile_segments(backend="aot_eager")
    pipeline = Pipeline(plan, found.parts, cross_entropy, ties=found.ties)
    tokens, target, shared = batch()
    with warnings.catch_warnings():
        if change == "compile":
            warnings.simplefilter("ignore")  # those of torch.compile about its own work
        outcome = pipeline.step(tokens, target, shared=shared)
    gradients: dict[str, list[Tensor]] = {}
    for stage in pipeline.stages.values():
        for local, weight in stage.module.named_parameters():
            assert weight.grad is not None
            gradients.setdefault(stage.module.names[local], []).append(weight.grad)  # type: ignore[union-attr, index]
    return sum(pipeline.losses(outcome)) / plan.microbatches, gradients, norms(pipeline, skip=pipeline.ties.repeated)
