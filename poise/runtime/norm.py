"""The norms of all gradients of a pipeline, and clipping by them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.runtime.pipeline import Pipeline
from poise.runtime.tensor import TensorPeers, counted


class Norms(NamedTuple):
    """Of the gradients of a step."""

    l2: float
    l1: float


def norms(
    pipeline: Pipeline, beside: TensorPeers | None = None, skip: Container[int] = (), scale: float = 1.0
) -> Norms:
    """The norms over all ranks of gradients that were multiplied by `scale`: a collective.

    beside: the ranks with the other parts of the same stages. skip: ids of weights that are counted elsewhere.
    """
    total = squares(pipeline, beside, skip)
    dist.all_reduce(total, group=pipeline.group)
    return Norms(total[0].sqrt().item() / scale, total[1].item() / scale)


def clip(pipeline: Pipeline, parts: Iterable[nn.Module], most: float, beside: TensorPeers | None = None) -> float:
    """Scale all gradients so that their norm is at most `most`; the norm before. A collective."""
    norm = norms(pipeline, beside).l2
    scale((weight for part in parts for weight in part.parameters()), factor(norm, most))
    return norm


def squares(pipeline: Pipeline, beside: TensorPeers | None = None, skip: Container[int] = ()) -> Tensor:
    """The sums of squares and of sizes of gradients here; those of copies are counted on the first one's rank."""
    total = torch.zeros(2, dtype=torch.float64, device=pipeline.wire.device)
    for weight in _counted(pipeline, beside, skip):
        if weight.grad is not None:
            wide = weight.grad.double()
            total += torch.stack((wide.square().sum(), wide.abs().sum()))
    return total if beside is None else beside.sum(total)


def counts(pipeline: Pipeline, beside: TensorPeers | None = None, skip: Container[int] = ()) -> int:
    """How many weights are counted on this rank, over the ranks beside it."""
    count = torch.tensor(sum(weight.numel() for weight in _counted(pipeline, beside, skip)))
    return int((count if beside is None else beside.sum(count.to(pipeline.wire.device))).item())


def _counted(pipeline: Pipeline, beside: TensorPeers | None, skip: Container[int]) -> Iterator[nn.Parameter]:
    """The weights that are this rank's to count."""
    parts: list[nn.Module] = [
        stage.module for number, stage in pipeline.stages.items() if pipeline.schedule.homes[number][0] == pipeline.rank
    ]
    if pipeline.shard is not None:
        parts.append(pipeline.shard.layer)
    for part in parts:
        for weight in part.parameters():
            if id(weight) not in skip and counted(weight, beside):
                yield weight


def factor(norm: float, most: float) -> float:
    """What gradients of this norm are multiplied by."""
    return min(1.0, most / norm) if norm > 0 else 1.0


def scale(weights: Iterable[nn.Parameter], by: float) -> None:
    """Multiply the gradients."""
    if by != 1.0:
        for weight in weights:
            if weight.grad is not None:
                weight.grad.mul_(by)
