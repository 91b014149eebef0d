"""KV blocks that fit next to a replica's weights and workspace, and what would fit where none do."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import ceil

from poise.core.errors import CapacityError
from poise.core.experts import copies
from poise.core.spec import BITS, Pool
from poise.cost.adapters import slot_bytes
from poise.cost.layout import check, kv_bytes_per_layer, shard

PLAIN_BYTES = 2
"""Bytes of a value that is not quantised: embeddings, output head, norms, activations."""

CONTEXT_BYTES = 600_000_000
"""What the driver, libraries and captured graphs take on a device: the remainder that vLLM 0.19 left on an RTX 4090
(2,588 blocks of Llama-3.1-8B at gpu_memory_utilization 0.9; casys-kaist/LLMServingSim bench, MIT)."""

LOGIT_BYTES = 12
"""Bytes a logit takes while it is sampled: three copies in 32 bits (logits, sorted, probabilities)."""

WIDEST_TENSOR = 64
"""The largest tensor degree that an error suggests."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on the fullest device of a replica; `block`, `window_block` and `state` of one stage's layers.

    weights: its part of the model, and the slots for adapters.
    workspace: activations of a full step, logits and the driver's context.
    block: one KV block of the layers that keep every token. window_block: of the sliding-window layers.
    state: one sequence's linear-attention states.
    """

    weights: int
    workspace: int
    block: float
    window_block: float
    state: float


def footprint(pool: Pool) -> Footprint:
    """What the fullest device holds: the longest pipeline stage, with embedding or head, or both without stages."""
    model, engine, part = pool.model, pool.engine, shard(pool)
    stage = ceil(model.layers / pool.pipeline)
    uneven = 1.0
    if model.moe is not None:
        slots = copies(engine.expert_placement, model.moe.experts)
        uneven = ceil(slots / pool.expert) * pool.expert / slots
    store = pool.precision
    layer = part.stored(store) + part.experts * uneven * store.experts.bits / 8
    ends = sorted([store.head.bits, 0 if model.tied else store.embedding.bits])
    vocabulary = part.head * (ends[1] if pool.pipeline > 1 else sum(ends)) / 8
    plain = (model.extra_parameters + (2 * model.layers + 1) * model.hidden) / pool.pipeline
    part_of = engine.block_tokens * stage / model.layers
    return Footprint(
        weights=ceil(stage * layer + vocabulary + plain * PLAIN_BYTES) + slot_bytes(pool),
        workspace=ceil(engine.token_budget * _activation(pool) + engine.max_sequences * _logits(pool)) + CONTEXT_BYTES,
        block=_growing(pool) * part_of,
        window_block=_windowed(pool) * part_of,
        state=model.state_bytes * stage / model.layers / pool.tensor,
    )


def _growing(pool: Pool) -> float:
    """Bytes that a token adds for good on one device: whole, or a part of a compressed entry, with index keys."""
    growing = [(count, each) for count, each in pool.model.attentions() if each.ratio or not each.window]
    return sum(
        [n * (kv_bytes_per_layer(pool, each) + each.index_bytes) / max(1, each.ratio) for n, each in growing], 0.0
    )


def _windowed(pool: Pool) -> float:
    """Bytes of a token within a window on one device."""
    return sum([n * kv_bytes_per_layer(pool, each) for n, each in pool.model.attentions() if each.window], 0.0)


def kv_blocks(pool: Pool, request_tokens: int = 0) -> int:
    """KV blocks of a replica: `engine.kv_blocks` where it is given, else what is left of memory; over all data ranks.

    A block holds `block_tokens` tokens in every layer. Sliding-window layers free what their window has passed (vLLM's
    hybrid allocator), so a request holds at most a window's blocks there, and a linear layer keeps one state. How much
    that saves depends on how many requests share the memory: by default as many as the engine runs (`max_sequences`),
    which is safe for any mix and short of what few long requests could use; `request_tokens` states a mean length.
    Raises CapacityError, with what would fit, when not one block is left.
    """
    if pool.engine.kv_blocks:
        return pool.engine.kv_blocks
    check(pool)
    blocks = _left(pool, request_tokens)
    if blocks < 1:
        raise CapacityError(_shortage(pool, request_tokens))
    return blocks * pool.data


def held_tokens(pool: Pool) -> int:
    """Tokens of the longest request that a replica can hold, prompt and output; errors as in `kv_blocks`."""
    return min(pool.model.max_context, kv_blocks(pool) * pool.engine.block_tokens)


def _left(pool: Pool, request_tokens: int) -> int:
    """Blocks that fit one device of each stage; 0 or less where none does."""
    need, engine = footprint(pool), pool.engine
    free = pool.device.memory_bytes * engine.memory_fraction - need.weights - need.workspace
    if free <= 0:
        return 0
    window = ceil(pool.model.window / engine.block_tokens)
    if request_tokens:
        length = ceil(request_tokens / engine.block_tokens)
        mean = need.block + need.window_block * min(window, length) / length + need.state / length
        return int(free / mean)
    sequences = ceil(engine.max_sequences / pool.data)

    def taken(blocks: int) -> float:
        """Bytes that `blocks` blocks need at most, however they are spread over the sequences."""
        bounded = min(blocks, sequences * window) * need.window_block + min(blocks, sequences) * need.state
        return blocks * need.block + bounded

    most = int(free / need.block) if need.block else sequences * ceil(pool.model.max_context / engine.block_tokens)
    return bisect_right(range(most + 1), free, key=taken) - 1


def _activation(pool: Pool) -> float:
    """Bytes of activations per token of a step: residuals, queries with KV, and the widest feed-forward block."""
    model, tensor, moe = pool.model, pool.tensor, pool.model.moe
    inner = 3 * model.ffn / tensor if model.dense_layers else 0.0
    if moe is not None:
        sliced = tensor * pool.data / pool.expert
        inner = max(inner, moe.active * (3 * moe.ffn / sliced + model.hidden))
    attention = (model.heads + 2 * model.kv_heads) * model.head_dim / tensor
    return PLAIN_BYTES * (4 * model.hidden + attention + inner)


def _logits(pool: Pool) -> float:
    """Bytes of one sequence's logits while it is sampled."""
    return LOGIT_BYTES * pool.model.vocab


def _shortage(pool: Pool, request_tokens: int) -> str:
    """One line: what does not fit, by how much, and what would."""
    need, device = footprint(pool), pool.device
    allowed = device.memory_bytes * pool.engine.memory_fraction
    wanted = need.weights + need.workspace + need.block + need.window_block + need.state
    cures = []
    for weights in dict.fromkeys((pool.weights, "fp8")):
        if BITS[weights] <= BITS[pool.weights]:
            other = pool if weights == pool.weights else replace(pool, weights=weights, parts=None)
            cures += _cure(other, pool, request_tokens)
    cures.append(f"a device of {_gb(wanted / pool.engine.memory_fraction, up=True)} GB")
    return (
        f"pool.model {pool.model.name} ({pool.weights}, tensor {pool.tensor}, pipeline {pool.pipeline}) does not fit "
        f"{device.name}: a device needs {_gb(need.weights)} GB of weights, {_gb(need.workspace)} GB of workspace and "
        f"a KV block, {_gb(wanted - allowed)} GB more than its {_gb(allowed)} GB (memory_fraction "
        f"{pool.engine.memory_fraction:g} of {_gb(device.memory_bytes)} GB); what fits: {', or '.join(cures)}"
    )


def _cure(pool: Pool, wanted: Pool, request_tokens: int) -> list[str]:
    """Text with the smallest tensor degree from the given one on at which `pool` fits; empty where none does."""
    tensor = wanted.tensor
    while tensor <= min(WIDEST_TENSOR, pool.model.heads):
        if _left(replace(pool, tensor=tensor), request_tokens) > 0:
            parts = [f"tensor {tensor}"] if tensor != wanted.tensor else []
            parts += [f"{pool.weights} weights"] if pool.weights != wanted.weights else []
            return [" with ".join(parts)]
        tensor *= 2
    return []


def _gb(size: float, *, up: bool = False) -> str:
    """Bytes in GB with one decimal, rounded up where the figure is a minimum."""
    tenths = size / 1e8
    return f"{(ceil(tenths) if up else round(tenths)) / 10:.1f}"
