"""The description of a model: the shape that decides its bytes, its FLOPs and its KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

from poise.core.encoder import Audio, Vision
from poise.core.layer import Attention, Index, Layer, Linear, Mla, Moe
from poise.core.precision import Format, Part, Precision

__all__ = ["Attention", "Index", "Layer", "Linear", "Mla", "Model", "Moe", "Parts"]


class Parts(NamedTuple):
    """Weights by what they belong to, as checkpoints quantise them apart.

    attention: mixers of all kinds.  dense: feed-forward blocks.  shared: shared experts, routers and projections of
    experts.  routed: routed experts.  other: norms, biases and what else the shape does not show.
    """

    attention: int
    dense: int
    shared: int
    routed: int
    embedding: int
    head: int
    other: int


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a decoder-only transformer, as its `config.json` states it.

    Of `layers`, `window_layers` attend to the last `window` tokens only and `linear_layers` keep a state of
    constant size (`linear`; without it they count as attention layers with a square matrix a head); the rest attend
    to everything. `ffn` is the inner width of a dense feed-forward block (`gated` blocks have three matrices, others
    two); `tied` embeddings share one matrix. `extra_parameters` counts what the shape does not show (biases, further
    norms, learned positions, output gates). `fp8_block` is the side of a block of weights with one scale, where the
    model is published in FP8 by blocks, which engines serve by kernels of their own (0 elsewhere). `checkpoints` are
    the parts that published checkpoints narrow, by format. Windows are chunks where the model is `chunked`.
    `draft_layers` predict further tokens (MTP), `vision` and `audio` are its encoders: their weights are no part of the
    counts here (`draft_parameters` has those of the former).

    A model whose layers these figures cannot tell apart states them as `stack`; the figures are then those of its most
    frequent kinds. `kinds` is the list of layers in either case, of which all counts and costs are sums.
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
    checkpoints: tuple[tuple[Format, Precision], ...] = ()
    vision: Vision | None = None
    audio: Audio | None = None
    source: str = ""
    stack: tuple[Layer, ...] = ()
    draft_layers: int = 0
    chunked: bool = False
    kinds: tuple[Layer, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", self.stack or tuple(_uniform(self)))

    def mixers(self) -> list[tuple[int, Attention | Linear]]:
        """How many layers have a mixer, by kind."""
        found: dict[Attention | Linear, int] = {}
        for layer in self.kinds:
            for mixer in layer.mixers:
                found[mixer] = found.get(mixer, 0) + layer.count
        return [(count, mixer) for mixer, count in found.items()]

    def attentions(self) -> list[tuple[int, Attention]]:
        """How many layers have an attention, by kind."""
        return [(count, mixer) for count, mixer in self.mixers() if isinstance(mixer, Attention)]

    @property
    def blocks(self) -> int:
        """Residual blocks of all layers: those of mixers and those of feed-forward blocks."""
        return sum([layer.count * (bool(layer.mixers) + bool(layer.moe or layer.ffn)) for layer in self.kinds])

    @property
    def mixed(self) -> int:
        """Mixers of all layers."""
        return sum([count for count, _ in self.mixers()])

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward block or an expert."""
        return 3 if self.gated else 2

    def linears(self) -> list[tuple[int, Linear]]:
        """How many layers have linear attention or a state space, by kind."""
        return [(count, mixer) for count, mixer in self.mixers() if isinstance(mixer, Linear)]

    @property
    def attending(self) -> int:
        """Attentions of all layers."""
        return sum([count for count, _ in self.attentions()])

    @property
    def full_layers(self) -> int:
        """Layers that attend to the whole context."""
        return sum([count for count, each in self.attentions() if each.ratio or not each.window])

    @property
    def dense_layers(self) -> int:
        """Layers with a dense feed-forward block."""
        return sum([layer.count for layer in self.kinds if layer.moe is None and layer.ffn])

    @property
    def attention_parameters(self) -> int:
        """Weights of one attending layer's projections, in the mean where kinds differ."""
        whole = sum([count * each.parameters(self.hidden) for count, each in self.attentions()])
        return whole // self.attending if self.attending else _attention(self).parameters(self.hidden)

    @property
    def linear_parameters(self) -> int:
        """Weights of one linear-attention layer's mixer."""
        return self.linear.parameters(self.hidden) if self.linear else self.attention_parameters

    @property
    def ffn_parameters(self) -> int:
        """Weights of one dense feed-forward block."""
        return self.matrices * self.hidden * self.ffn

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert of one layer; 0 for a dense model."""
        return self.moe.expert_parameters(self.hidden, self.matrices) if self.moe else 0

    @property
    def shared_parameters(self) -> int:
        """Weights of one MoE layer that every token passes besides routed experts: shared experts and the router."""
        return self.moe.shared_parameters(self.hidden, self.matrices) if self.moe else 0

    @property
    def embedding_parameters(self) -> int:
        """Weights of the input embedding and of the output head (one matrix where they are tied)."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def parts(self) -> Parts:
        """All weights by part; a tied head is counted as the embedding."""
        dense = shared = routed = 0
        for layer in self.kinds:
            if layer.moe is None:
                dense += layer.count * self.matrices * self.hidden * layer.ffn
            else:
                routed += layer.count * layer.moe.experts * layer.moe.expert_parameters(self.hidden, self.matrices)
                shared += layer.count * layer.moe.shared_parameters(self.hidden, self.matrices)
        mixers = sum([count * each.parameters(self.hidden) for count, each in self.mixers()])
        embedding, norms = self.vocab * self.hidden, (2 * self.layers + 1) * self.hidden
        head = 0 if self.tied else embedding
        return Parts(mixers, dense, shared, routed, embedding, head, norms + self.extra_parameters)

    @property
    def part_parameters(self) -> dict[Part, int]:
        """Weights of each part that may have a format of its own; a tied matrix is counted as the head."""
        parts = self.parts
        output = sum([count * each.output_parameters(self.hidden) for count, each in self.attentions()])
        vocabulary = parts.embedding
        return {
            "attention": parts.attention - output, "output": output, "dense": parts.dense, "shared": parts.shared,
            "experts": parts.routed, "head": vocabulary, "embedding": 0 if self.tied else vocabulary,
        }  # fmt: skip

    @property
    def matrix_parameters(self) -> int:
        """Weights inside the layers, which a quantised checkpoint narrows: mixers, feed-forward blocks and routers."""
        return sum(self.parts[:4])

    @property
    def parameters(self) -> int:
        """All weights; norms are counted (two vectors a layer and one at the end)."""
        return sum(self.parts)

    @property
    def draft_parameters(self) -> int:
        """Weights of the layers that predict further tokens, without embedding and head, which they share.

        Each joins the embedding and the last hidden state, normed, in one projection, and has an attention of the
        model's last kind, its experts or dense block, and a norm after them (DeepSeek-V3, arXiv 2412.19437, section
        2.2).
        """
        mixer = self.attentions()[-1][1] if self.attending else _attention(self)
        block = self.ffn_parameters
        if self.moe is not None:
            block = self.moe.experts * self.expert_parameters + self.shared_parameters
        return self.draft_layers * (2 * self.hidden**2 + mixer.parameters(self.hidden) + block + 5 * self.hidden)

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes: all but idle experts. Both embeddings count, as most published figures do."""
        idle = 0
        for layer in self.kinds:
            if layer.moe is not None:
                each = layer.moe.expert_parameters(self.hidden, self.matrices)
                idle += layer.count * (layer.moe.experts - layer.moe.active) * each
        return self.parameters - idle

    def weight_bytes(self, bits: float) -> int:
        """Bytes of all weights with the layers' matrices at `bits` a value, rounded up.

        Embeddings, norms and extras stay at 16 bits where `bits` is lower, as quantised checkpoints keep them.
        """
        rest = self.parameters - self.matrix_parameters
        return ceil((self.matrix_parameters * bits + rest * max(bits, 16)) / 8)

    @property
    def kv_values_per_layer(self) -> float:
        """Values that one token leaves in the KV cache of one attending layer, in the mean where kinds differ."""
        if not self.attending:
            return _attention(self).kv_values
        whole = sum([count * each.kv_values for count, each in self.attentions()])
        return whole // self.attending if whole % self.attending == 0 else whole / self.attending

    def kv_bytes_per_token(self, bits: float) -> float:
        """Bytes that each token adds for good, at `bits` a value: the layers that keep every token, or a part of each.

        Window layers are not in it, for they stop growing at `window` tokens; `kv_bytes` counts them.
        """
        values, index = 0.0, 0.0
        for count, each in self.attentions():
            if each.ratio or not each.window:
                values += count * each.kv_values / max(1, each.ratio)
                index += count * each.index_bytes / max(1, each.ratio)
        return values * bits / 8 + index

    @property
    def state_bytes(self) -> int:
        """Bytes of constant state of one sequence in all linear layers, whatever the format of the KV cache."""
        return sum([count * each.state_bytes for count, each in self.linears()])

    def kv_bytes(self, tokens: int, bits: float) -> int:
        """Bytes that one sequence of `tokens` tokens keeps, at `bits` a value, rounded up.

        Full layers keep every token, window layers the last `window`, compressed layers an entry for each `ratio`
        tokens and a window, linear layers a constant state (0 tokens keep nothing). Index keys have a format of their
        own.
        """
        if tokens <= 0:
            return 0
        values = sum([count * each.kept(tokens) * each.kv_values for count, each in self.attentions()])
        index = sum([count * each.chosen(tokens) for count, each in self.attentions()])
        return ceil(values * bits / 8 + index) + self.state_bytes


def _attention(model: Model) -> Attention:
    """The attention of a uniform model, without a window."""
    return Attention(model.heads, model.kv_heads, model.head_dim, mla=model.mla)


def _uniform(model: Model) -> Iterator[Layer]:
    """The layers of a model that its figures describe: windows, then linear layers, then the others; dense first.

    Which mixer stands beside which block is not stated, and no count or cost depends on it.
    """
    full = model.layers - model.window_layers - model.linear_layers
    attention = _attention(model)
    weights = 0 if model.linear else attention.parameters(model.hidden)
    square = Linear(model.heads, model.heads, model.head_dim, model.head_dim, 1, "plain", weights=weights)
    mixers: list[tuple[int, Attention | Linear]] = [
        (model.window_layers, replace(attention, window=model.window, chunked=model.chunked)),
        (model.linear_layers, model.linear or square),
        (full, attention),
    ]
    dense = model.layers - (model.moe.layers if model.moe else 0)
    for count, mixer in mixers:
        first = min(count, dense)
        if first:
            yield Layer((mixer,), model.ffn, count=first)
        if count > first:
            yield Layer((mixer,), moe=model.moe, count=count - first)
        dense -= first
