"""The kinds of layers: what mixes tokens (attention, linear attention, state spaces) and what follows it.

Widths and counts are in elements. What each kind keeps and reads of its context:

    full                 all tokens
    window, chunked      the last `window` tokens, of which chunked attention sees those of its own chunk
    sparse (`index`)     all tokens are kept, with an index key each; the best `top` are read
    compressed (`ratio`) one entry for `ratio` tokens, besides the last `window` tokens as they are
    linear, state space  a state of constant size
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1); widths in elements.

    `q_rank` is 0 where queries are projected directly (DeepSeek-V2-Lite).
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    q_rank: int = 0


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture-of-experts feed-forward blocks; `ffn` and `shared_ffn` are inner widths of one expert.

    `layers` counts the MoE layers; the model's other layers keep a dense feed-forward block. Experts have
    three matrices where the model is `gated`, else two; `bias` counts the bias values of one routed expert.
    Routed experts work in a `latent` width where it is not 0: a token is projected to it once and back once.
    """

    experts: int
    active: int
    ffn: int
    layers: int
    shared: int = 0
    shared_ffn: int = 0
    bias: int = 0
    latent: int = 0

    def width(self, hidden: int) -> int:
        """The width in which routed experts take and give tokens, and in which ranks exchange them."""
        return self.latent or hidden

    def expert_parameters(self, hidden: int, matrices: int) -> int:
        """Weights of one routed expert."""
        return matrices * self.width(hidden) * self.ffn + self.bias

    def shared_parameters(self, hidden: int, matrices: int) -> int:
        """Weights of one layer that every token passes: shared experts, the router, projections to the latent width."""
        return hidden * (matrices * self.shared * self.shared_ffn + self.experts + 2 * self.latent)


@dataclass(frozen=True, slots=True)
class Index:
    """The choice of what a query attends to (DeepSeek-V3.2-Exp, "lightning indexer"; MiniMax-M3's blocks).

    Each token, or each `pool` tokens, has one key of `dim`, against which `heads` query heads score; a query reads the
    `top` best units of `unit` tokens and `local` units beside them. `own` is false where a layer takes the choice of an
    earlier one and so has neither keys nor weights. q_rank: the width from which the heads are projected (0: hidden).
    bits: of a value of a key; by default FP8 with a 32-bit scale for each 128 values.
    """

    heads: int
    dim: int
    top: int
    unit: int = 1
    local: int = 0
    pool: int = 1
    own: bool = True
    q_rank: int = 0
    bits: float = 8.25

    @property
    def tokens(self) -> int:
        """Units that one query reads, in tokens (or compressed entries)."""
        return (self.top + self.local) * self.unit

    def parameters(self, hidden: int) -> int:
        """Weights: the heads' queries, the key and, for single tokens, each head's weight in the score."""
        if not self.own:
            return 0
        weighted = self.heads if self.unit == 1 else 0
        return (self.q_rank or hidden) * self.heads * self.dim + hidden * (self.dim + weighted)


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: `heads` queries of `head_dim` over `kv_heads` keys, and values of `value_dim` (0: as keys).

    same: keys are the values, so the cache keeps one of them.  one_projection: both come from one matrix, but the cache
    keeps both, for only keys are rotated.  gate: an output gate as wide as the values.  q_rank: queries come from a
    narrower width.
    o_groups, o_rank: the output is projected to `o_rank` in each of `o_groups` groups of heads first (DeepSeek-V4).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0
    mla: Mla | None = None
    window: int = 0
    chunked: bool = False
    ratio: int = 0
    index: Index | None = None
    same: bool = False
    one_projection: bool = False
    gate: bool = False
    q_rank: int = 0
    o_groups: int = 0
    o_rank: int = 0

    @property
    def values(self) -> int:
        """The width of a value head."""
        return self.mla.value_dim if self.mla else self.value_dim or self.head_dim

    @property
    def kv_values(self) -> int:
        """Values that one token, or one compressed entry, leaves in the cache; those of the index apart."""
        if self.mla is not None:
            return self.mla.kv_rank + self.mla.rope_dim
        return self.kv_heads * (self.head_dim if self.same else self.head_dim + self.values)

    @property
    def index_bytes(self) -> float:
        """Bytes that one token, or one compressed entry, leaves in the index's cache."""
        index = self.index
        return index.dim * index.bits / 8 / index.pool if index and index.own else 0.0

    def kept(self, tokens: int) -> int:
        """Entries of the cache that a sequence of `tokens` tokens keeps."""
        if self.ratio:
            return min(tokens, self.window) + tokens // self.ratio
        return min(tokens, self.window) if self.window else tokens

    def chosen(self, tokens: int) -> float:
        """Bytes of index keys that a sequence of `tokens` tokens keeps."""
        return tokens // max(1, self.ratio) * self.index_bytes

    def parameters(self, hidden: int) -> int:
        """Weights of the projections, the index, the gate and the compressor."""
        more = self.index.parameters(hidden) if self.index else 0
        more += hidden * self.heads * self.values if self.gate else 0
        return more + self._projections(hidden) + self.compressor_parameters(hidden)

    def _projections(self, hidden: int) -> int:
        if self.mla is None:
            width = self.heads * self.head_dim
            query = hidden * self.q_rank + self.q_rank * width if self.q_rank else hidden * width
            return query + self.kv_parameters(hidden) + self.output_parameters(hidden)
        mla = self.mla
        query_in = mla.q_rank or hidden
        query = query_in * self.heads * (mla.nope_dim + mla.rope_dim) + hidden * mla.q_rank
        down = hidden * (mla.kv_rank + mla.rope_dim)
        up = mla.kv_rank * self.heads * (mla.nope_dim + mla.value_dim)
        return query + down + up + self.output_parameters(hidden)

    def kv_parameters(self, hidden: int) -> int:
        """Weights of the projections to keys and values (to the latent, of latent attention)."""
        return hidden * (self.kv_values - (self.kv_heads * self.values if self.one_projection else 0))

    def output_parameters(self, hidden: int) -> int:
        """Weights of the projection out of the heads."""
        wide = self.heads * self.values
        return wide * self.o_rank + self.o_groups * self.o_rank * hidden if self.o_rank else wide * hidden

    def compressor_parameters(self, hidden: int) -> int:
        """Weights of the compressor: entries and their gates, and the same of the index.

        Twice as many where neighbouring entries overlap (ratio 4).
        """
        if not self.ratio:
            return 0
        wide = self.head_dim + (self.index.dim if self.index and self.index.own else 0)
        return 2 * hidden * wide * (2 if self.ratio == OVERLAPPING else 1)


OVERLAPPING = 4
"""The ratio at which DeepSeek-V4's compressed entries overlap."""

Recurrence = Literal["gdn", "kda", "mamba2", "mamba1", "plain"]


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear-attention or state-space layer; widths in elements.

    gdn: Gated DeltaNet (arXiv 2412.06464, section 3).  kda: Kimi Delta Attention (arXiv 2510.26692), whose decay has a
    value for each channel of a key.  mamba2: state spaces (arXiv 2405.21060), with `key_heads` groups and keys as wide
    as the state.  mamba1: arXiv 2312.00752, a head a channel and no key heads.  plain: of unknown make, with `weights`.
    Each value head keeps a `key_dim` × `value_dim` matrix; queries, keys and values pass a causal convolution over
    `conv` tokens.  full_gate: KDA's output gate is one matrix instead of two of low rank.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int = 4
    kind: Recurrence = "gdn"
    full_gate: bool = False
    weights: int = 0

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values side by side."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def values(self) -> int:
        """The width of all value heads."""
        return self.value_heads * self.value_dim

    @property
    def matrices(self) -> int:
        """Values of the states of all heads."""
        return self.value_heads * self.key_dim * self.value_dim

    def parameters(self, hidden: int) -> int:
        """Weights of one layer: projections, gates, decays, convolution and norm."""
        values, heads = self.values, self.value_heads
        match self.kind:
            case "gdn":
                projections = hidden * (self.channels + values + 2 * heads) + values * hidden
                return projections + self.channels * self.conv + 2 * heads + self.value_dim
            case "kda":
                keys = heads * self.key_dim
                decay = (hidden + keys) * self.value_dim + heads + keys
                gate = hidden * values if self.full_gate else (hidden + values) * self.value_dim
                projections = hidden * (self.channels + heads) + values * hidden
                return projections + decay + gate + self.channels * self.conv + self.value_dim
            case "mamba2":
                projections = hidden * (self.channels + values + heads) + values * hidden
                return projections + self.channels * (self.conv + 1) + 3 * heads + values
            case "mamba1":
                rank, state = -(-hidden // 16), self.key_dim
                steps = values * (rank + 2 * state) + values * (rank + 1)
                return 3 * hidden * values + steps + values * (self.conv + 1) + values * (state + 1)
            case "plain":
                return self.weights

    @property
    def state_bytes(self) -> int:
        """Bytes one sequence keeps in one layer: the matrices in 32 bits, the convolution's last inputs in 16."""
        return 4 * self.matrices + 2 * self.channels * (self.conv - 1)


@dataclass(frozen=True, slots=True)
class Layer:
    """`count` equal layers: mixers, which stand side by side where there are several, and a feed-forward block.

    The block is one of experts (`moe`), or a dense one of inner width `ffn`, or none (0).
    """

    mixers: tuple[Attention | Linear, ...]
    ffn: int = 0
    moe: Moe | None = None
    count: int = 1


def resized(stack: tuple[Layer, ...], layers: int) -> tuple[Layer, ...]:
    """The same mix of layers, `layers` in all: shares by largest remainder."""
    whole = sum([each.count for each in stack])
    shares = [each.count * layers / whole for each in stack]
    counts = [int(share) for share in shares]
    for at in sorted(range(len(stack)), key=lambda at: counts[at] - shares[at])[: layers - sum(counts)]:
        counts[at] += 1
    return tuple(replace(each, count=count) for each, count in zip(stack, counts, strict=True) if count)
