"""Decoders like Llama, Mistral, Qwen2, Qwen3, Mixtral and DeepSeek-V2, with the names of their published weights."""

from __future__ import annotations

from torch import Tensor, nn

from poise.runtime.models.attention import Attention
from poise.runtime.models.experts import Mixture
from poise.runtime.models.latent import LatentAttention
from poise.runtime.models.mlp import Mlp
from poise.runtime.models.norm import RmsNorm
from poise.runtime.models.segment import Embed, Head, Residual, Segment, run
from poise.runtime.models.shape import Shape


class Layer(nn.Module):
    """Norm, attention, norm and feed-forward part of a layer, under their published names."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.hidden, shape.epsilon)
        self.self_attn = LatentAttention(shape, layer) if shape.latent else Attention(shape, layer)
        self.post_attention_layernorm = RmsNorm(shape.hidden, shape.epsilon)
        self._inner = "block_sparse_moe" if shape.family == "mixtral" else "mlp"
        if shape.experts is not None and shape.sparse[layer]:
            self.add_module(self._inner, Mixture(shape.hidden, shape.experts))
        else:
            self.add_module(self._inner, Mlp(shape.hidden, shape.inner, bias=shape.mlp_bias))

    def segments(self, layer: int) -> list[Segment]:
        """Its two segments."""
        return [
            Segment(f"layers.{layer}.attention", Residual(self.input_layernorm, self.self_attn)),
            Segment(
                f"layers.{layer}.mlp",
                Residual(self.post_attention_layernorm, self.get_submodule(self._inner), alone=True),
            ),
        ]


class Body(nn.Module):
    """Embedding, layers and last norm, under their published names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, layer) for layer in range(shape.layers))
        self.norm = RmsNorm(shape.hidden, shape.epsilon)


class Decoder(nn.Module):
    """The model: tokens (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def segments(self) -> list[Segment]:
        """Embedding, each layer's attention and feed-forward part, head."""
        layers = [each for at, layer in enumerate(self.model.layers) for each in layer.segments(at)]  # type: ignore[operator]
        embed = Segment("embed", Embed(self.model.embed_tokens))
        return [embed, *layers, Segment("head", Head(self.model.norm, self.lm_head))]

    def std(self, name: str) -> float:
        """The deviation of a weight's first values."""
        return self.shape.std

    def forward(self, tokens: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """All segments in order."""
        return run(self.segments(), tokens, positions=positions, documents=documents)
