"""What adapters (LoRA) cost: their bytes by rank and model, the time to load them, and the time to read them in a step.

An adapter of rank r adds r · (in + out) values, 16 bits each, to each matrix that it adapts (arXiv 2106.09685): here
the projections of attention and the dense feed-forward blocks, in every layer; routed and shared experts have none. As
in vLLM (`lora/layers`, without `fully_sharded_loras`), a device has the whole A and its part of B where the matrix is
cut by columns, its part of A and the whole B where it is cut by rows, and both whole where the matrix is copied.

A load copies each device's bytes over its own link to the host, after it was read from disk where it is not in host
memory. A step with any adapter runs two kernels (shrink, expand) beside each adapted product, of which engines fuse
those with the same input, and reads each running adapter once at the datasheet's bandwidth. Padding to the largest
rank (Punica, arXiv 2310.18547; S-LoRA, arXiv 2311.03285) is not charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import Final, Literal

from poise.core.errors import ScenarioError
from poise.core.layer import Attention, Linear, Mla
from poise.core.model import Model
from poise.core.spec import Pool
from poise.core.units import ps
from poise.cost.layout import kv_copies

VALUE_BYTES: Final = 2
"""Bytes of a value: engines load adapters in the model's 16-bit type."""

DEFAULT_RANK: Final = 16
"""The rank of an adapter of which none is known (vLLM's `max_lora_rank`)."""

KERNEL_S: Final = 10e-6
"""A shrink or expand kernel over few tokens: vLLM's expand takes 10 µs, 14 before (vllm-project/vllm pull request
32425, 2026-01). Eight in each of 32 layers are 2.6 ms of a step of Llama-2-7B; a server of vLLM 0.6 on eight A100 took
23 s for 3,000 tokens with adapters enabled and 15 s without, 2.7 ms a token (issue 10898)."""

Cut = Literal["columns", "heads", "rows", "copied"]


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters of one pool, by number.

    pool: its model, layout, device and engine.  ranks: of each adapter; one beyond them has the `DEFAULT_RANK`.
    """

    pool: Pool
    ranks: Sequence[int] = ()
    _per_rank: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        if self.pool.device.host_bw <= 0:
            raise ScenarioError(
                f"device.{self.pool.device.name} states no host_bw, so adapters cannot be loaded; give it bytes/s one "
                "way, or leave engine.max_loras out"
            )
        object.__setattr__(self, "_per_rank", rank_bytes(self.pool))

    def rank(self, adapter: int) -> int:
        """The rank of an adapter."""
        return self.ranks[adapter] if adapter < len(self.ranks) else DEFAULT_RANK

    def load(self, adapter: int, in_host: bool) -> int:
        """Picoseconds to bring an adapter to all devices: from host memory, or from disk through it."""
        size, engine = self.rank(adapter) * self._per_rank, self.pool.engine
        time = size / self.pool.device.host_bw
        if not in_host and engine.lora_disk_bw:
            time += self.rank(adapter) * whole_bytes(self.pool.model) / engine.lora_disk_bw
        return ps(time)

    def read(self, adapter: int) -> int:
        """Picoseconds to read an adapter from device memory, in all stages."""
        size = self.rank(adapter) * self._per_rank * self.pool.pipeline
        return ps(size / self.pool.device.memory_bw)

    def launch(self) -> int:
        """Picoseconds of the kernels of a step in which any adapter runs, in all stages."""
        return ps(2 * KERNEL_S * products(self.pool.model))


@lru_cache(maxsize=64)
def rank_bytes(pool: Pool) -> float:
    """Bytes of one rank of an adapter on each device, over the layers of the longest stage."""
    parts, total = pool.tensor, 0.0
    for wide, high, cut, layers in _matrices(pool.model):
        a = wide / parts if cut == "rows" else wide
        b = high * _part(pool, cut)
        total += layers * (a + b)
    return VALUE_BYTES * total * ceil(pool.model.layers / pool.pipeline) / pool.model.layers


def whole_bytes(model: Model) -> int:
    """Bytes of one rank of an adapter, as it lies on disk."""
    return VALUE_BYTES * sum([layers * (wide + high) for wide, high, _, layers in _matrices(model)])


def products(model: Model) -> int:
    """Adapted products of all layers; those with the same input are one."""
    attending = model.layers - (model.linear_layers if model.linear else 0)
    mixing = 2 if model.mla is None else 4 if model.mla.q_rank else 3
    return mixing * attending + 2 * (model.layers - attending) + 2 * model.dense_layers


def slot_bytes(pool: Pool) -> int:
    """Bytes that all slots for adapters take on each device: `max_loras` of the rank `max_lora_rank`."""
    engine = pool.engine
    return ceil(engine.max_loras * engine.max_lora_rank * rank_bytes(pool)) if engine.max_loras else 0


def _part(pool: Pool, cut: Cut) -> float:
    """The part of a matrix's outputs on one device."""
    if cut == "heads":
        return kv_copies(pool) / pool.tensor
    return 1 / pool.tensor if cut == "columns" else 1.0


def _matrices(model: Model) -> Iterator[tuple[int, int, Cut, int]]:
    """The adapted matrices: inputs, outputs, how the matrix is cut over devices, and in how many layers it is."""
    for count, mixer in model.mixers():
        if isinstance(mixer, Attention):
            each = _latent(model.hidden, mixer, mixer.mla) if mixer.mla else _grouped(model.hidden, mixer)
        elif mixer.kind == "plain":
            each = iter(())
        else:
            each = _linear(model.hidden, mixer)
        for wide, high, cut in each:
            yield wide, high, cut, count
    for layer in model.kinds:
        if layer.moe is None and layer.ffn:
            for _ in range(model.matrices - 1):
                yield model.hidden, layer.ffn, "columns", layer.count
            yield layer.ffn, model.hidden, "rows", layer.count


def _grouped(hidden: int, attention: Attention) -> Iterator[tuple[int, int, Cut]]:
    """Queries, keys with values, and the output."""
    yield hidden, attention.heads * attention.head_dim, "columns"
    yield hidden, attention.kv_values, "heads"
    yield hidden, 0, "columns"  # keys and values have an A each
    yield attention.heads * attention.values, hidden, "rows"


def _latent(hidden: int, attention: Attention, mla: Mla) -> Iterator[tuple[int, int, Cut]]:
    """Queries, latents, what is raised from them, and the output."""
    if mla.q_rank:
        yield hidden, mla.q_rank, "copied"
    yield mla.q_rank or hidden, attention.heads * (mla.nope_dim + mla.rope_dim), "columns"
    yield hidden, mla.kv_rank + mla.rope_dim, "copied"
    yield mla.kv_rank, attention.heads * (mla.nope_dim + mla.value_dim), "columns"
    yield attention.heads * mla.value_dim, hidden, "rows"


def _linear(hidden: int, linear: Linear) -> Iterator[tuple[int, int, Cut]]:
    """What goes into a recurrent layer, and what comes out."""
    yield hidden, linear.channels + linear.values + 2 * linear.value_heads, "columns"
    yield linear.values, hidden, "rows"
