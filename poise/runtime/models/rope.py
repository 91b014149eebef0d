"""Rotary position embeddings: the frequencies of each variant, and the rotation of heads by positions."""

from __future__ import annotations

from math import ceil, floor, log, pi

import torch
from torch import Tensor

from poise.runtime.models.norm import wide
from poise.runtime.models.shape import Rope


def frequencies(rope: Rope, width: int) -> list[float]:
    """Radians per position of the `width / 2` pairs: theta^(-2i / width), stretched by the variant's rule."""
    plain = [rope.theta ** (-2 * pair / width) for pair in range(width // 2)]
    if rope.kind == "linear":
        return [each / rope.factor for each in plain]
    if rope.kind == "llama3":
        return [_llama3(rope, each) for each in plain]
    if rope.kind == "yarn":
        return _yarn(rope, plain, width)
    return plain


def amplitude(rope: Rope) -> float:
    """The factor on cosines and sines: 1, but for yarn (arXiv 2309.00071, equation 22)."""
    if rope.kind != "yarn":
        return 1.0
    if rope.amplitude is not None:
        return rope.amplitude
    if rope.mscale and rope.mscale_all:
        return _growth(rope.factor, rope.mscale) / _growth(rope.factor, rope.mscale_all)
    return _growth(rope.factor, 1.0)


def sharpening(rope: Rope) -> float:
    """DeepSeek's factor on attention scores where yarn has `mscale_all_dim`: the square of its growth."""
    if rope.kind == "default" or not rope.mscale_all:
        return 1.0
    return _growth(rope.factor, rope.mscale_all) ** 2


def angles(positions: Tensor, per_position: Tensor, scale: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines (batch, 1, length, pairs) in the type of `like`, computed in float32 at least."""
    turned = positions[:, None, :, None].to(wide(like)) * per_position.to(like.device, wide(like))
    return (turned.cos() * scale).to(like.dtype), (turned.sin() * scale).to(like.dtype)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor, *, paired: bool = False) -> Tensor:
    """Turn pairs of a head's entries; a pair is entries i and i + width / 2, or two neighbours where `paired`."""
    one, two = (x[..., 0::2], x[..., 1::2]) if paired else x.chunk(2, -1)
    turned = one * cosines - two * sines, two * cosines + one * sines
    return torch.stack(turned, -1).flatten(-2) if paired else torch.cat(turned, -1)


def _llama3(rope: Rope, each: float) -> float:
    """Llama 3.1's rule: long waves are divided by the factor, short ones kept, those between blended."""
    waves = rope.original * each / (2 * pi)
    kept = min(1.0, max(0.0, (waves - rope.low) / (rope.high - rope.low)))
    return (1 - kept) * each / rope.factor + kept * each


def _yarn(rope: Rope, plain: list[float], width: int) -> list[float]:
    """NTK by parts (arXiv 2309.00071, section 3.2), with a linear ramp between two pairs."""

    def pair(rotations: float) -> float:
        return width * log(rope.original / (rotations * 2 * pi)) / (2 * log(rope.theta))

    low, high = max(floor(pair(rope.fast)), 0), min(ceil(pair(rope.slow)), width - 1)
    over = [min(1.0, max(0.0, (at - low) / (high - low if high != low else 0.001))) for at in range(len(plain))]
    return [each / rope.factor * by + each * (1 - by) for each, by in zip(plain, over, strict=True)]


def _growth(factor: float, scale: float) -> float:
    return 0.1 * scale * log(factor) + 1.0 if factor > 1 else 1.0
