"""What a trainer must state of a model besides its shape: norms, positions, biases, activations, the router."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from poise.catalogue.config import Config
from poise.catalogue.models import config_of
from poise.core.errors import UserError
from poise.core.model import Model

_DATA = Path(__file__).with_name("architectures.json")
"""Keys of the built-in models' `config.json` that decide neither bytes nor FLOPs, by repository.

Norms' epsilon, base and scaling of positions of Llama 2 to 3.2, CodeLlama, Qwen2 to 3, DeepSeek-V2 and V3 and Mistral
Small are those of Megatron-Bridge's providers (NVIDIA-NeMo/Megatron-Bridge v0.2.0, src/megatron/bridge/models)."""

Biases = Literal["none", "qkv", "attention", "all"]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How rotary positions are stretched (`rope_scaling`); mscale and mscale_all_dim are YaRN's."""

    kind: str
    factor: float
    original: int = 8192
    low: float = 1.0
    high: float = 4.0
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0


@dataclass(frozen=True, slots=True)
class Router:
    """How tokens choose experts.

    sigmoid: scores are sigmoids, with a bias for each expert that balances them (DeepSeek-V3), else a softmax.
    normalized: the chosen scores are made to sum to one.  groups, group_topk: of experts, where the choice is limited
    to some of them (1: it is not).  scale: of the chosen scores.  auxiliary: weight of the loss that balances experts.
    """

    sigmoid: bool = False
    normalized: bool = True
    groups: int = 1
    group_topk: int = 1
    scale: float = 1.0
    auxiliary: float = 0.001


@dataclass(frozen=True, slots=True)
class Architecture:
    """kind: the model class (`model_type`).

    norm_eps: what norms add to the variance.  learned: positions are embeddings, else rotary with base `rope_base`.
    head_norms: queries and keys are normalised by head.  shared_gate: shared experts have a gate.
    dense_first: layers before the first with experts.
    """

    kind: str
    rms: bool = True
    norm_eps: float = 1e-5
    learned: bool = False
    rope_base: float = 10_000.0
    scaling: Scaling | None = None
    activation: str = "silu"
    biases: Biases = "none"
    head_norms: bool = False
    router: Router | None = None
    shared_gate: bool = False
    dense_first: int = 0


_BASE: Mapping[str, object] = {"rope_theta": 10_000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu"}
_DEEPSEEK_V3: Mapping[str, object] = {
    **_BASE, "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_group": 8,
    "topk_group": 4,
}  # fmt: skip

_KINDS: dict[str, Mapping[str, object]] = {
    "llama": _BASE,
    "mistral": _BASE,
    "mixtral": {**_BASE, "rope_theta": 1e6, "rms_norm_eps": 1e-5, "norm_topk_prob": True},
    "qwen2": _BASE,
    "qwen2_moe": {**_BASE, "norm_topk_prob": False},
    "qwen3": _BASE,
    "qwen3_moe": {**_BASE, "norm_topk_prob": False},
    "deepseek_v2": {**_BASE, "scoring_func": "softmax", "norm_topk_prob": False},
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "gpt2": {"layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"},
    "starcoder2": {"rope_theta": 10_000.0, "norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh"},
}
"""Model classes whose architecture is known, with the defaults of the `transformers` classes of these names."""

_BIASES: dict[str, Biases] = {"qwen2": "qkv", "qwen2_moe": "qkv", "gpt2": "all", "starcoder2": "all"}


def by_shape(model: Model) -> Architecture:
    """The architecture of a model that is given by its shape: a Llama where its blocks are gated, else a GPT."""
    router = None if model.moe is None else Router()
    dense = model.dense_layers if model.moe is not None else 0
    if model.gated:
        return Architecture("llama", router=router, dense_first=dense)
    return Architecture(
        "gpt2", rms=False, learned=True, activation="gelu", biases="all", router=router, dense_first=dense
    )


def architecture(name_or_path: str | Path) -> Architecture:
    """The architecture of a built-in model or of a `config.json`; UserError where it is not known."""
    keys, built_in = config_of(name_or_path)
    kind = keys.string("model_type")
    if kind not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        raise UserError(
            f"{keys.where}: model_type {kind!r}: its norms and positions are not known, those of {known} are"
        )
    if built_in and keys.where not in _table():
        raise UserError(
            f"model {keys.where}: the base of its positions is not in the catalogue; give its config.json instead"
        )
    more = Config(_table().get(keys.where, {}), keys.where) if built_in else keys
    return _read(kind, keys.with_defaults(_KINDS[kind]), more.with_defaults(_KINDS[kind]))


@cache
def _table() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return found


def _read(kind: str, shape: Config, more: Config) -> Architecture:
    """The architecture by the keys of the shape, and by `more`, which hold the others."""
    eps = next(name for name in ("rms_norm_eps", "layer_norm_epsilon", "norm_epsilon") if more.get(name) is not None)
    rope = more.section("rope_parameters") or more
    stretched = more.section("rope_scaling") or more.section("rope_parameters")
    return Architecture(
        kind,
        rms=eps == "rms_norm_eps",
        norm_eps=more.number(eps),
        learned=kind == "gpt2",
        rope_base=rope.number("rope_theta") if rope.get("rope_theta") is not None else 10_000.0,
        scaling=_scaling(stretched),
        activation=more.string("hidden_act") or more.string("activation_function"),
        biases=_biases(kind, shape),
        head_norms=kind in ("qwen3", "qwen3_moe"),
        router=_router(kind, shape, more),
        shared_gate=kind == "qwen2_moe",
        dense_first=shape.whole("first_k_dense_replace", default=0, least=0),
    )


def _biases(kind: str, shape: Config) -> Biases:
    if shape.flag("mlp_bias"):
        return "all"
    if kind in _BIASES:
        return "none" if shape.get("use_bias") is False else _BIASES[kind]
    return "attention" if shape.flag("attention_bias") else "none"


def _scaling(keys: Config | None) -> Scaling | None:
    kind = "" if keys is None else keys.string("rope_type") or keys.string("type")
    if keys is None or kind in ("", "default"):
        return None
    names = {
        "factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor", "mscale": "mscale",
        "mscale_all_dim": "mscale_all_dim", "beta_fast": "beta_fast", "beta_slow": "beta_slow",
    }  # fmt: skip
    given = {field: keys.number(name) for field, name in names.items() if keys.get(name) is not None}
    return Scaling(
        kind, **{"factor": 1.0, **given}, original=keys.whole("original_max_position_embeddings", default=8192)
    )


def _router(kind: str, shape: Config, more: Config) -> Router | None:
    if not shape.whole("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0):
        return None
    loss = next((each for each in ("router_aux_loss_coef", "aux_loss_alpha") if more.get(each) is not None), "")
    sigmoid = more.string("scoring_func") == "sigmoid"
    return Router(
        sigmoid=sigmoid,
        normalized=more.flag("norm_topk_prob"),
        groups=more.whole("n_group", default=1),
        group_topk=more.whole("topk_group", default=1),
        scale=more.number("routed_scaling_factor") if more.get("routed_scaling_factor") is not None else 1.0,
        auxiliary=more.number(loss) if loss else 1e-4 if sigmoid else 1e-3,
    )
