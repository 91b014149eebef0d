"""What a rank of a training run puts into checkpoints, and takes from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch.optim import Optimizer

from poise.runtime import chance
from poise.runtime.checkpoint import Checkpoints, State
from poise.runtime.job import Job
from poise.runtime.named import restore, room_for, state_of
from poise.runtime.scale import LossScale


class Trained(Protocol):
    """What is saved of a rank."""

    number: int
    weights: dict[str, dict[str, torch.nn.Parameter]]
    """By part, then by name in the whole model."""
    optimizers: dict[str, Optimizer]
    scale: LossScale | None


class Saved:
    """The checkpoints of a rank of a job."""

    def __init__(self, rank: Trained, job: Job) -> None:
        self._rank = rank
        self._checkpoints = Checkpoints(job.out, job.about())

    def save(self, step: int) -> None:
        """Write a checkpoint; a collective."""
        rank = self._rank
        state: State = {"model": {}, "optimizer": {}, "random": {str(rank.number): chance.state()}}
        for name, weights in rank.weights.items():
            for kind, each in state_of(weights, rank.optimizers[name]).items():
                state[kind] |= each
        if rank.scale is not None:
            state["loss_scale"] = torch.tensor([rank.scale.scale, rank.scale.good], dtype=torch.float64)
        self._checkpoints.save(step, state, first=rank.number == 0)

    def load(self, step: int) -> None:
        """Read a checkpoint; a collective. A rank that the saving run did not have keeps its own random numbers."""
        rank, sizes = self._rank, self._checkpoints.sizes(step)
        state: State = {"model": {}, "optimizer": {}}
        for weights in rank.weights.values():
            for kind, each in room_for(weights, sizes).items():
                state[kind] |= each
        own = f"random.{rank.number}."
        state["random"] = {str(rank.number): _room(sizes, [own + kind for kind in chance.state()])}
        state |= _room(sizes, ["loss_scale"] if rank.scale is not None else [])
        self._checkpoints.load(step, state)
        for name, weights in rank.weights.items():
            restore(rank.optimizers[name], weights, state)
        chance.restore(state["random"][str(rank.number)])
        if rank.scale is not None and "loss_scale" in state:
            rank.scale.scale, good = state["loss_scale"].tolist()
            rank.scale.good = int(good)


def _room(sizes: Mapping[str, tuple[torch.Size, torch.dtype]], names: list[str]) -> dict[str, torch.Tensor]:
    """Tensors to be filled, by the last part of their names, for those that the checkpoint has."""
    return {
        name.rpartition(".")[2]: torch.empty(*sizes[name][:1], dtype=sizes[name][1]) for name in names if name in sizes
    }
