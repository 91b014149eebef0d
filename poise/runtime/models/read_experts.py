"""The experts of a `config.json`, and the layers that have them."""

from __future__ import annotations

from poise.catalogue.config import Config
from poise.runtime.models.read_rope import number
from poise.runtime.models.shape import Experts


def experts(config: Config, family: str) -> Experts | None:
    """The mixture of experts of such a family, if it has one."""
    found = {"mixtral": _mixtral, "qwen2_moe": _qwen, "qwen3_moe": _qwen, "deepseek_v2": _deepseek}.get(family)
    if found is None:
        return None
    made = found(config)
    if made.chosen > made.count:
        raise config.fault("num_experts_per_tok", f"there are {made.count} experts", "give at most as many")
    if made.kept > made.groups:
        raise config.fault("topk_group", f"there are {made.groups} groups (n_group)", "give at most as many")
    if made.count % made.groups or made.kept * (made.count // made.groups) < made.chosen:
        raise config.fault("topk_group", f"{made.kept} of {made.groups} groups do not hold {made.chosen} experts")
    return made


def sparse(config: Config, family: str, layers: int) -> tuple[bool, ...]:
    """For each layer whether its feed-forward part is a mixture of experts."""
    if family == "mixtral":
        return (True,) * layers
    if family in ("qwen2_moe", "qwen3_moe"):
        every, dense = config.whole("decoder_sparse_step", default=1), set(config.wholes("mlp_only_layers"))
        return tuple(layer not in dense and (layer + 1) % every == 0 for layer in range(layers))
    if family == "deepseek_v2":
        first = config.whole("first_k_dense_replace", default=0, least=0)
        return tuple(layer >= first for layer in range(layers))
    return (False,) * layers


def _mixtral(config: Config) -> Experts:
    count = config.whole("num_local_experts", "num_experts", default=8)
    return Experts("mixtral", count, config.whole("num_experts_per_tok", default=2), config.whole("intermediate_size"))


def _qwen(config: Config) -> Experts:
    shared = 0
    if config.string("model_type") == "qwen2_moe":
        shared = config.whole("shared_expert_intermediate_size")
    return Experts(
        "qwen", config.whole("num_experts", "num_local_experts"), config.whole("num_experts_per_tok"),
        config.whole("moe_intermediate_size"), shared, config.flag("norm_topk_prob"),
    )  # fmt: skip


def _deepseek(config: Config) -> Experts:
    method = config.string("topk_method") or "greedy"
    if method not in ("greedy", "group_limited_greedy"):
        raise config.fault("topk_method", "it must be greedy or group_limited_greedy", "give a model of DeepSeek-V2")
    if (config.string("scoring_func") or "softmax") != "softmax":
        raise config.fault("scoring_func", "it must be softmax", "give a model of DeepSeek-V2")
    inner = config.whole("moe_intermediate_size")
    grouped = method == "group_limited_greedy"
    return Experts(
        "deepseek", config.whole("n_routed_experts", "num_experts", "num_local_experts"),
        config.whole("num_experts_per_tok"), inner, inner * config.whole("n_shared_experts", default=0, least=0),
        config.flag("norm_topk_prob"), number(config, "routed_scaling_factor", 1.0),
        config.whole("n_group", default=1) if grouped else 1, config.whole("topk_group", default=1) if grouped else 1,
    )  # fmt: skip
