"""Layers of model classes whose layers differ in more than their windows: read from `config.json` one by one.

The facts are those of the `transformers` and vLLM model classes of the same names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from poise.catalogue.config import Config
from poise.catalogue.stacks.attending import block_sparse, compressed, gemma4, searched, sparse_latent, two_shapes
from poise.catalogue.stacks.recurrent import delta, falcon_h1, granite, jamba, nemotron_h
from poise.core.layer import Attention, Layer, Linear
from poise.core.model import Model

Stack = Callable[[Config], list[Layer]]
"""The layers of a model, in order."""


def stacked(config: Config, kind: str, name: str, source: str) -> Model:
    """The model of a list of layers; its plain figures are those of its most frequent kinds."""
    config = config.with_defaults(STACKED.get(kind, {}))
    layers = STACKS[kind](config)
    attentions = Counter([each for layer in layers for each in layer.mixers if isinstance(each, Attention)])
    recurrent = Counter([each for layer in layers for each in layer.mixers if isinstance(each, Linear)])
    experts = Counter([layer.moe for layer in layers if layer.moe])
    usual = attentions.most_common(1)[0][0]
    windows = [each.window for each in attentions if each.window]
    return Model(
        name=name,
        layers=len(layers),
        hidden=config.whole("hidden_size"),
        heads=usual.heads,
        kv_heads=usual.kv_heads,
        head_dim=usual.head_dim,
        vocab=config.whole("vocab_size"),
        ffn=max(layer.ffn for layer in layers),
        max_context=config.whole("max_position_embeddings"),
        gated=kind not in TWO_MATRICES,
        tied=config.flag("tie_word_embeddings"),
        window=max(windows, default=0),
        window_layers=sum(count for each, count in attentions.items() if each.window and not each.ratio),
        linear_layers=sum(recurrent.values()),
        mla=usual.mla,
        moe=replace(experts.most_common(1)[0][0], layers=sum(experts.values())) if experts else None,
        linear=recurrent.most_common(1)[0][0] if recurrent else None,
        source=source,
        stack=tuple(replace(layer, count=count) for layer, count in Counter(layers).items()),
    )


STACKS: dict[str, Stack] = {
    "deepseek_v32": sparse_latent,
    "glm_moe_dsa": sparse_latent,
    "deepseek_v4": compressed,
    "minimax_m3": block_sparse,
    "kimi_linear": delta,
    "glm5_next_text": delta,
    "mimo_v2_flash": two_shapes,
    "gemma4_text": gemma4,
    "nemotron_h": nemotron_h,
    "nemotron-nas": searched,
    "jamba": jamba,
    "falcon_h1": falcon_h1,
    "granitemoehybrid": granite,
}
"""Model classes by `model_type`."""

STACKED: dict[str, dict[str, object]] = {"gemma4_text": {"tie_word_embeddings": True}}
"""Values of keys that published files leave out, by `model_type`."""

TWO_MATRICES = ("nemotron_h",)
"""Classes whose feed-forward blocks have two matrices, with a squared activation and no gate."""
