"""The formats of a model's weights, part by part: low-precision checkpoints narrow some parts and leave others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Format = Literal["bf16", "fp8", "int8", "int4", "fp4", "mxfp4"]

BITS: dict[str, float] = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4.25, "fp4": 4.5, "mxfp4": 4.25}
"""Bits per value; the 4-bit formats count their block scales (int4: group of 128 with zero points, NVFP4: 8 bits for 16
values, MXFP4: 8 bits for 32)."""

Part = Literal["attention", "output", "dense", "shared", "experts", "head", "embedding"]

LATENT: Final = ("int4", "fp4", "mxfp4")
"""Formats in which checkpoints of latent attention leave its projections at 16 bits (quantisation files of
DeepSeek-V3.1-NVFP4, GLM-5-NVFP4 and Kimi-K2.5)."""


class Store(NamedTuple):
    """How weights are kept: a format, and the mean bits of a value, scales included."""

    format: Format
    bits: float


PLAIN: Final = Store("bf16", 16)


@dataclass(frozen=True, slots=True)
class Precision:
    """The store of each part; what is not given is not quantised.

    attention: projections into the mixer, linear ones included.  output: the projection out of it.
    dense: dense feed-forward blocks.  shared: shared experts and the router.  experts: routed ones.
    head, embedding: of the vocabulary.  kv: the format of KV values that the checkpoint asks for, None where it is
    silent.
    """

    attention: Store = PLAIN
    output: Store = PLAIN
    dense: Store = PLAIN
    shared: Store = PLAIN
    experts: Store = PLAIN
    head: Store = PLAIN
    embedding: Store = PLAIN
    kv: Format | None = None

    def of(self, part: Part) -> Store:
        """The store of a part."""
        found: Store = getattr(self, part)
        return found

    @classmethod
    def by_part(cls, stores: Mapping[Part, Store], kv: Format | None = None) -> Precision:
        """The precision with these stores; parts without one are not quantised."""
        given: dict[str, Any] = dict(stores.items())
        return cls(**given, kv=kv)


PARTS: Final[tuple[Part, ...]] = ("attention", "output", "dense", "shared", "experts", "head", "embedding")


def uniform(weights: Format, latent: bool = False) -> Precision:
    """What engines make of a format given as one word: all matrices of the layers, embedding and head at 16 bits.

    latent: whether attention is latent, whose projections stay at 16 bits in the formats of `LATENT`.
    """
    store = Store(weights, BITS[weights])
    mixer = PLAIN if latent and weights in LATENT else store
    return Precision(attention=mixer, output=mixer, dense=store, shared=store, experts=store)
