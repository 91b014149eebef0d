"""A stage of a model: some of its segments, with the names that their weights have in the whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from poise.core.chance import mix
from poise.runtime.models.segment import Residual, Segment
from poise.runtime.tensor import TensorPeers


class Part(nn.Module):
    """Segments in order. `recompute` keeps the inputs of segments alone and runs them again in the backward;
    `precision` is autocast's type, None: off.
    """

    def __init__(self, segments: Sequence[Segment], names: Mapping[int, str]) -> None:
        super().__init__()
        self.segments = nn.ModuleList(segment.module for segment in segments)
        self.titles = [segment.name for segment in segments]
        self.names = {local: names[id(weight)] for local, weight in self.named_parameters()}
        self.recompute = False
        self.precision: torch.dtype | None = None

    def forward(self, *inputs: Tensor, **shared: Tensor | None) -> Any:
        """What the last segment returns: a tensor or a tuple of tensors."""
        found: Any = inputs
        with torch.autocast(inputs[0].device.type, self.precision, enabled=self.precision is not None):
            for segment in self.segments:
                found = self._one(segment, found if isinstance(found, tuple) else (found,), shared)
        return found

    def compile_segments(self, **options: Any) -> None:
        """Compile each segment by `torch.compile` with `options`; the names of weights stay."""
        for segment in self.segments:
            segment.compile(**options)

    def _one(self, segment: nn.Module, inputs: tuple[Tensor, ...], shared: Mapping[str, Tensor | None]) -> Any:
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(partial(segment, **shared), *inputs, use_reentrant=False)
        return segment(*inputs, **shared)


def materialise(
    part: Part, *, seed: int, std: Callable[[str], float], device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> None:  # fmt: skip
    """Give a stage that was built on the device `meta` memory and first values, which depend on names and seed alone.

    Matrices are normal with deviation `std(name)`, vectors 1 (weights) or 0 (biases), so every cut into stages gives
    the same model.
    """
    made: dict[int, nn.Parameter] = {}
    for prefix, module in part.named_modules():
        for key, weight in module.named_parameters(recurse=False):
            if id(weight) not in made:
                name = part.names.get(f"{prefix}.{key}", key)
                first = _first(name, getattr(weight, "whole", weight.shape), seed, std).to(device, dtype)
                take = getattr(weight, "part_from", nn.Parameter)  # this rank's part, where ranks share a layer
                made[id(weight)] = take(first)
                made[id(weight)].requires_grad_(weight.requires_grad)
            setattr(module, key, made[id(weight)])


def share(part: Part, beside: TensorPeers) -> None:
    """Keep this rank's part of each layer (Megatron-LM's cut); embedding, norms, routers and head stay whole.

    Call it before `materialise`, which then gives memory to that part alone.
    """
    for segment in part.segments:
        if isinstance(segment, Residual):
            segment.inner.share(beside)  # type: ignore[operator]


def load(part: Part, weights: Mapping[str, Tensor]) -> list[str]:
    """Take a stage's weights from those of the whole model; the names that are missing there."""
    missing = []
    with torch.no_grad():
        for local, weight in part.named_parameters():
            given = weights.get(part.names[local])
            if given is None:
                missing.append(part.names[local])
            else:
                weight.copy_(getattr(weight, "part_from", Tensor.detach)(given))
    return missing


def _first(name: str, shape: torch.Size, seed: int, std: Callable[[str], float]) -> Tensor:
    if len(shape) < 2:
        return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
    draw = torch.Generator().manual_seed(mix(seed << 32 ^ crc32(name.encode())) >> 1)
    return torch.empty(shape).normal_(0.0, std(name), generator=draw)
