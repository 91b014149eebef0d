"""The norm of all gradients of a pipeline, and clipping by it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.runtime.pipeline import Pipeline
from poise.runtime.tensor import TensorPeers, counted


def clip(pipeline: Pipeline, parts: Iterable[nn.Module], most: float, beside: TensorPeers | None = None) -> float:
    """Scale all gradients so that their norm is at most `most`; the norm before. A collective.

    beside: the ranks with the other parts of the same stages.
    """
    weights = [weight for part in parts for weight in part.parameters() if weight.grad is not None]
    total = squares(pipeline, beside)
    dist.all_reduce(total, group=pipeline.group)
    norm = total.sqrt().item()
    scale(weights, factor(norm, most))
    return norm


def squares(pipeline: Pipeline, beside: TensorPeers | None = None) -> Tensor:
    """The sum of squares of this rank's stages' gradients; those of copies are counted on the first one's rank."""
    total = torch.zeros((), dtype=torch.float64, device=pipeline.wire.device)
    parts: list[nn.Module] = [
        stage.module for number, stage in pipeline.stages.items() if pipeline.schedule.homes[number][0] == pipeline.rank
    ]
    if pipeline.shard is not None:
        parts.append(pipeline.shard.layer)
    for part in parts:
        for weight in part.parameters():
            if weight.grad is not None and counted(weight, beside):
                total += weight.grad.double().square().sum()
    return total if beside is None else beside.sum(total)


def factor(norm: float, most: float) -> float:
    """What gradients of this norm are multiplied by."""
    return min(1.0, most / norm) if norm > 0 else 1.0


def scale(weights: Iterable[nn.Parameter], by: float) -> None:
    """Multiply the gradients."""
    if by != 1.0:
        for weight in weights:
            if weight.grad is not None:
                weight.grad.mul_(by)
