"""What layers read of the context: stretches of it, each with its bound, by kind of attention.

A decoded token reads, of each token of its context, the cache or an index key: 1/`entry` of it where entries stand for
several tokens, and of no more than `bound` tokens. A query of a prompt meets the same keys. By kind, n being the
context, w a window, k what an index chooses, r the tokens of a compressed entry:

    full                     n
    window                   min(n, w)
    chunked                  decoding min(n, w), its upper bound; prompts n mod w, from the start of the query's chunk
    sparse                   index n, cache min(n, k)
    compressed, all          min(n, w) + n / r
    compressed and sparse    index n / r, cache min(n, w) + min(n, k r) / r
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poise.core.layer import Attention
from poise.core.model import Model
from poise.core.spec import BITS, Device, Pool
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import kv_bytes_per_layer


@dataclass(frozen=True, slots=True)
class Span:
    """Reading by `count` layers of `attention`.

    bound: tokens of the context at most; 0: all.  entry: tokens for which one entry stands.  index: keys of the index.
    """

    count: int
    attention: Attention
    bound: int = 0
    entry: int = 1
    index: bool = False

    @property
    def chunked(self) -> bool:
        """Whether the bound is a chunk, of which a query sees what is before it."""
        return self.attention.chunked and self.bound > 0

    @property
    def absorbed(self) -> bool:
        """Whether prompts read latents as they are: kernels that read chosen tokens do not raise them to heads."""
        return self.attention.index is not None and self.attention.mla is not None


def spans(model: Model) -> list[Span]:
    """All reading of a model's layers."""
    found = []
    for count, each in model.attentions():
        index, entry = each.index, max(1, each.ratio)
        if each.window:
            found.append(Span(count, each, each.window))
        if each.ratio or not each.window:
            found.append(Span(count, each, index.tokens * entry if index else 0, entry))
        if index and index.own:
            found.append(Span(count, each, 0, entry * index.pool, index=True))
    return found


def chunked_pairs(tokens: int, context: int, chunk: int) -> int:
    """Query-key pairs of `tokens` queries after `context` tokens, each seeing its chunk up to itself.

    The query at position j sees (j mod c) + 1 keys, so n queries from the first one see ⌊n/c⌋ · c(c + 1)/2 + r(r + 1)/2
    with r = n mod c.
    """
    before, after = divmod(context, chunk), divmod(context + tokens, chunk)
    whole = (after[0] - before[0]) * (chunk * (chunk + 1) // 2)
    return whole + after[1] * (after[1] + 1) // 2 - before[1] * (before[1] + 1) // 2


def reach(model: Model) -> int:
    """The longest bound of a model's reading, which `Piece.per_window` counts with; 0 without one."""
    return max([span.bound for span in spans(model)], default=0)


class Rates(NamedTuple):
    """What a lane reaches: bytes per second of memory, and FLOP per second in 16 and in 8 bits."""

    bandwidth: float
    bf16: float
    fp8: float


def rates(device: Device, bandwidth: float, arithmetic: float) -> Rates:
    """Those of a lane that reaches a part of the arithmetic; 8 bits count as 16 on a device without them."""
    return Rates(bandwidth, device.bf16_flops * arithmetic, (device.fp8_flops or device.bf16_flops) * arithmetic)


def read_bytes(pool: Pool, span: Span) -> float:
    """Bytes that a token of context has on one device, as one layer reads it."""
    if span.index:
        return span.attention.index_bytes * _pooled(span) / span.entry
    return kv_bytes_per_layer(pool, span.attention) / span.entry


def decode_s(pool: Pool, use: Efficiencies, lane: Rates, span: Span) -> tuple[float, float]:
    """Seconds by arithmetic and by reading of one token of context of one decode in one layer (MLA: absorbed form)."""
    attention, moved = span.attention, read_bytes(pool, span)
    if span.index:
        return _scored(span) / (_scoring(span, lane) * use.attention_prefill), moved / (
            lane.bandwidth * use.stream_bf16
        )
    heads = attention.heads / pool.tensor / span.entry
    mla = attention.mla
    if mla is not None:
        flops = 2 * heads * (2 * mla.kv_rank + mla.rope_dim)
        return flops / (lane.bf16 * use.mla_decode_flops), moved / (lane.bandwidth * use.mla_decode)
    flops = 2 * heads * (attention.head_dim + attention.values)
    if attention.same:  # one wide head that all queries share, as in the absorbed form
        return flops / (lane.bf16 * use.mla_decode_flops), moved / (lane.bandwidth * use.mla_decode)
    reached = use.attention_decode_bf16 if pool.kv == "bf16" else use.attention_decode_fp8
    return flops / (lane.bf16 * use.attention_prefill), moved / (lane.bandwidth * reached)


def prompt_s(pool: Pool, use: Efficiencies, lane: Rates, span: Span) -> tuple[float, float]:
    """Seconds of one query that meets one key of context in one layer, and of reading a token of context."""
    attention, mla = span.attention, span.attention.mla
    read = read_bytes(pool, span) / (lane.bandwidth * use.stream_bf16)
    if span.index:
        return _scored(span) / (_scoring(span, lane) * use.attention_prefill), read
    width = attention.head_dim + attention.values
    if mla is not None:
        absorbed = 2 * mla.kv_rank + mla.rope_dim
        width = absorbed if span.absorbed else mla.nope_dim + mla.rope_dim + mla.value_dim
    flops = 2.0 * attention.heads * width / pool.tensor / span.entry
    return flops / (lane.bf16 * use.attention_prefill), read


def raised_flops(pool: Pool, attention: Attention) -> float:
    """FLOP to raise one cached latent to keys and values in a layer; each later chunk does it again."""
    mla = attention.mla
    if mla is None or attention.index is not None:
        return 0.0
    return 2 * mla.kv_rank * attention.heads * (mla.nope_dim + mla.value_dim) / pool.tensor


def _pooled(span: Span) -> int:
    index = span.attention.index
    return index.pool if index else 1


def _scored(span: Span) -> float:
    """FLOP of all index heads against the key of one token of context; every rank scores for itself."""
    index = span.attention.index
    return 2.0 * index.heads * index.dim / span.entry if index else 0.0


def _scoring(span: Span, lane: Rates) -> float:
    """FLOP per second in the format of the index."""
    index = span.attention.index
    return lane.fp8 if index and index.bits < BITS["bf16"] else lane.bf16
