"""The description of a model: the shape that decides its bytes, its FLOPs and its KV cache."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


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
    """

    experts: int
    active: int
    ffn: int
    layers: int
    shared: int = 0
    shared_ffn: int = 0
    bias: int = 0


@dataclass(frozen=True, slots=True)
class Linear:
    """One gated linear-attention layer (Gated DeltaNet, arXiv 2412.06464, section 3); widths in elements.

    Each value head keeps a `key_dim` × `value_dim` matrix; queries, keys and values pass a causal convolution over
    `conv` tokens.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int = 4

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values side by side."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def parameters(self, hidden: int) -> int:
        """Weights of one layer: query, key, value, gate and output projections, decays, convolution and head norm."""
        values = self.value_heads * self.value_dim
        projections = hidden * (self.channels + values + 2 * self.value_heads) + values * hidden
        return projections + self.channels * self.conv + 2 * self.value_heads + self.value_dim

    @property
    def state_bytes(self) -> int:
        """Bytes one sequence keeps in one layer: the matrices in 32 bits, the convolution's last inputs in 16."""
        matrices = self.value_heads * self.key_dim * self.value_dim
        return 4 * matrices + 2 * self.channels * (self.conv - 1)


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a decoder-only transformer, as its `config.json` states it.

    Of `layers`, `window_layers` attend to the last `window` tokens only and `linear_layers` keep a state of
    constant size (`linear`; without it they count as attention layers with a square matrix a head); the rest attend
    to everything. `ffn` is the inner width of a dense feed-forward block (`gated` blocks have three matrices, others
    two); `tied` embeddings share one matrix. `extra_parameters` counts what the shape does not show (biases, further
    norms, learned positions, output gates). `fp8_block` is the side of a block of weights with one scale, where the
    model is published in FP8 by blocks, which engines serve by kernels of their own (0 elsewhere). Vision and audio
    towers are not part of it.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    ffn: int
    max_context: int
    gated: bool = True
    tied: bool = False
    window: int = 0
    window_layers: int = 0
    linear_layers: int = 0
    mla: Mla | None = None
    moe: Moe | None = None
    linear: Linear | None = None
    extra_parameters: int = 0
    fp8_block: int = 0
    source: str = ""

    @property
    def full_layers(self) -> int:
        """Layers that attend to the whole context."""
        return self.layers - self.window_layers - self.linear_layers

    @property
    def dense_layers(self) -> int:
        """Layers with a dense feed-forward block."""
        return self.layers - (self.moe.layers if self.moe else 0)

    @property
    def attention_parameters(self) -> int:
        """Weights of one attending layer's projections."""
        if self.mla is None:
            return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mla = self.mla
        query_in = mla.q_rank or self.hidden
        query = query_in * self.heads * (mla.nope_dim + mla.rope_dim) + self.hidden * mla.q_rank
        down = self.hidden * (mla.kv_rank + mla.rope_dim)
        up = mla.kv_rank * self.heads * (mla.nope_dim + mla.value_dim)
        return query + down + up + self.heads * mla.value_dim * self.hidden

    @property
    def linear_parameters(self) -> int:
        """Weights of one linear-attention layer's mixer."""
        return self.linear.parameters(self.hidden) if self.linear else self.attention_parameters

    @property
    def ffn_parameters(self) -> int:
        """Weights of one dense feed-forward block."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert of one layer; 0 for a dense model."""
        return (3 if self.gated else 2) * self.hidden * self.moe.ffn + self.moe.bias if self.moe else 0

    @property
    def shared_parameters(self) -> int:
        """Weights of one MoE layer that every token passes besides routed experts: shared experts and the router."""
        if self.moe is None:
            return 0
        wide = (3 if self.gated else 2) * self.moe.shared * self.moe.shared_ffn
        return self.hidden * (wide + self.moe.experts)

    @property
    def embedding_parameters(self) -> int:
        """Weights of the input embedding and of the output head (one matrix where they are tied)."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def matrix_parameters(self) -> int:
        """Weights inside the layers, which a quantised checkpoint narrows: mixers, feed-forward blocks and routers."""
        mixers = (self.layers - self.linear_layers) * self.attention_parameters
        mixers += self.linear_layers * self.linear_parameters
        blocks = self.dense_layers * self.ffn_parameters
        if self.moe:
            blocks += self.moe.layers * (self.moe.experts * self.expert_parameters + self.shared_parameters)
        return mixers + blocks

    @property
    def parameters(self) -> int:
        """All weights; norms are counted (two vectors a layer and one at the end)."""
        norms = (2 * self.layers + 1) * self.hidden
        return self.matrix_parameters + self.embedding_parameters + norms + self.extra_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes: all but idle experts. Both embeddings count, as most published figures do."""
        if self.moe is None:
            return self.parameters
        idle = self.moe.layers * (self.moe.experts - self.moe.active) * self.expert_parameters
        return self.parameters - idle

    def weight_bytes(self, bits: float) -> int:
        """Bytes of all weights with the layers' matrices at `bits` a value, rounded up.

        Embeddings, norms and extras stay at 16 bits where `bits` is lower, as quantised checkpoints keep them.
        """
        rest = self.parameters - self.matrix_parameters
        return ceil((self.matrix_parameters * bits + rest * max(bits, 16)) / 8)

    @property
    def kv_values_per_layer(self) -> int:
        """Values that one token leaves in the KV cache of one attending layer."""
        if self.mla is not None:
            return self.mla.kv_rank + self.mla.rope_dim
        return 2 * self.kv_heads * self.head_dim

    def kv_bytes_per_token(self, bits: float) -> float:
        """Bytes that each token adds for good, at `bits` a value: the full layers only.

        Window layers are not in it, for they stop growing at `window` tokens; `kv_bytes` counts them.
        """
        return self.full_layers * self.kv_values_per_layer * bits / 8

    @property
    def state_bytes(self) -> int:
        """Bytes of constant state of one sequence in all linear layers, whatever the format of the KV cache."""
        if self.linear is None:
            return self.linear_layers * 4 * self.heads * self.head_dim**2
        return self.linear_layers * self.linear.state_bytes

    def kv_bytes(self, tokens: int, bits: float) -> int:
        """Bytes that one sequence of `tokens` tokens keeps, at `bits` a value, rounded up.

        Full layers keep every token, window layers the last `window`, linear layers a constant state (0 tokens
        keep nothing).
        """
        if tokens <= 0:
            return 0
        rows = self.full_layers * tokens + self.window_layers * min(tokens, self.window)
        return ceil(rows * self.kv_values_per_layer * bits / 8) + self.state_bytes
