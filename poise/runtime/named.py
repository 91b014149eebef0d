"""Weights and the states of their optimizers by name, as checkpoints hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from poise.runtime.checkpoint import State

Sizes = Mapping[str, tuple[torch.Size, torch.dtype]]
Weights = Mapping[str, nn.Parameter]
"""By the name in the whole model."""


def state_of(weights: Weights, optimizer: Optimizer) -> State:
    """What a checkpoint holds of these weights. Settings, as learning rates, are the job's."""
    held = {name: _tensors(optimizer.state.get(weight, {})) for name, weight in weights.items()}
    return {
        "model": {name: weight.detach() for name, weight in weights.items()},
        "optimizer": {name: each for name, each in held.items() if each},
    }


def room_for(weights: Weights, sizes: Sizes) -> State:
    """The same, to be filled: the weights themselves, and new tensors for what the checkpoint has of optimizers."""
    found: dict[str, dict[str, Tensor]] = {}
    for name in weights:
        prefix = f"optimizer.{name}."
        keys = [each.removeprefix(prefix) for each in sizes if each.startswith(prefix)]
        if keys:
            found[name] = {key: torch.empty(*sizes[prefix + key][:1], dtype=sizes[prefix + key][1]) for key in keys}
    return {"model": {name: weight.detach() for name, weight in weights.items()}, "optimizer": found}


def restore(optimizer: Optimizer, weights: Weights, state: State) -> None:
    """Give weights and their optimizer what was read; tensors follow the weights to their device, but for step counts.

    A tied weight has a copy in several stages, of which reading fills one, so each takes values of its own.
    """
    for name, weight in weights.items():
        weight.data.copy_(state["model"][name])
        held = state["optimizer"].get(name)
        if held is not None:
            optimizer.state[weight] = {
                key: value.clone().to("cpu" if key == "step" else weight.device) for key, value in held.items()
            }


def _tensors(held: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: value for key, value in held.items() if isinstance(value, Tensor)}
