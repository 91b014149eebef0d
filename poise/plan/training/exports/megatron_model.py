"""Megatron-LM's arguments that describe the model."""

from __future__ import annotations

from poise.catalogue.architecture import Architecture, Router, Scaling
from poise.core.errors import ScenarioError
from poise.core.model import Mla, Model, Moe
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout

Arguments = list[tuple[str, str]]

_ACTIVATIONS = {"silu": "swiglu", "gelu": "", "gelu_new": "", "gelu_pytorch_tanh": ""}
"""Flags by activation; Megatron-LM's default is GELU."""


def check_model(job: Job, about: Architecture) -> None:
    """Raise ScenarioError for a model that Megatron-LM's arguments cannot describe."""
    model = job.model
    if model.linear_layers or 0 < model.window_layers < model.layers:
        raise ScenarioError(f"{model.name} mixes kinds of attention, which Megatron-LM's arguments here do not state")
    if about.activation not in _ACTIVATIONS or (about.activation == "silu") != model.gated:
        raise ScenarioError(f"{model.name}'s activation {about.activation!r} is none of {', '.join(_ACTIVATIONS)}")
    if about.biases == "attention":
        raise ScenarioError(f"{model.name} has biases in attention alone; Megatron-LM has all, those of qkv, or none")
    if about.scaling is not None:
        _scaling(about.scaling, model.mla)
    if model.moe is not None and about.dense_first != model.dense_layers:
        raise ScenarioError(f"{model.name}'s dense layers are not its first ones; write --moe-layer-freq by hand")


def model_arguments(job: Job, layout: Layout, about: Architecture) -> Arguments:
    """The model that was planned: its shape, norms, positions, biases, vocabulary, attention and experts."""
    model = job.model
    ffn = model.ffn or (model.moe.ffn if model.moe is not None else 0)
    found: Arguments = [
        ("num-layers", str(model.layers)),
        ("hidden-size", str(model.hidden)),
        ("num-attention-heads", str(model.heads)),
        ("ffn-hidden-size", str(ffn)),
        ("seq-length", str(job.sequence)),
        ("max-position-embeddings", str(max(model.max_context, job.sequence))),
        ("padded-vocab-size", str(-(-model.vocab // layout.tensor) * layout.tensor)),
        ("normalization", "RMSNorm" if about.rms else "LayerNorm"),
        ("norm-epsilon", f"{about.norm_eps:g}"),
        ("attention-dropout", "0.1" if job.dropout else "0"),
        ("hidden-dropout", "0.1" if job.dropout else "0"),
    ]
    found += _positions(about, model.mla)
    found += _attention(model) if model.mla is None else _latent(model.mla)
    found += [("window-size", f"{model.window},0")] * (0 < model.window < job.sequence and model.window_layers > 0)
    found += [("disable-bias-linear", "")] * (about.biases != "all") + [("add-qkv-bias", "")] * (about.biases == "qkv")
    found += [("qk-layernorm", "")] * (about.head_norms or model.mla is not None)
    found += [("swiglu", "")] * model.gated + [("untie-embeddings-and-output-weights", "")] * (not model.tied)
    if model.moe is not None:
        found += _experts(model, model.moe, about, about.router or Router())
    return found


def _positions(about: Architecture, mla: Mla | None) -> Arguments:
    if about.learned:
        return [("position-embedding-type", "learned_absolute")]
    found: Arguments = [("position-embedding-type", "rope"), ("rotary-base", f"{about.rope_base:.0f}")]
    if about.scaling is not None:
        return found + _scaling(about.scaling, mla)
    return found + [("rope-type", "rope")] * (mla is not None)  # latent attention has YaRN by default


def _scaling(scaling: Scaling, mla: Mla | None) -> Arguments:
    """Llama 3.1's frequencies, or YaRN with latent attention; ScenarioError for others."""
    if scaling.kind == "llama3" and (scaling.low, scaling.high, scaling.original) == (1, 4, 8192):
        return [("use-rope-scaling", ""), ("rope-scaling-factor", f"{scaling.factor:g}")]
    if scaling.kind == "yarn" and mla is not None and scaling.original == 4096:
        return [
            ("rotary-scaling-factor", f"{scaling.factor:g}"),
            ("mscale", f"{scaling.mscale:g}"),
            ("mscale-all-dim", f"{scaling.mscale_all_dim:g}"),
            ("yarn-beta-fast", f"{scaling.beta_fast:g}"),
            ("yarn-beta-slow", f"{scaling.beta_slow:g}"),
        ]
    raise ScenarioError(f"positions stretched by {scaling.kind!r} are not stated here; add Megatron-LM's arguments")


def _attention(model: Model) -> Arguments:
    found: Arguments = []
    if model.kv_heads != model.heads:
        found += [("group-query-attention", ""), ("num-query-groups", str(model.kv_heads))]
    return found + [("kv-channels", str(model.head_dim))] * (model.head_dim * model.heads != model.hidden)


def _latent(mla: Mla) -> Arguments:
    """Multi-head latent attention; queries have a rank of their own, or none."""
    return [
        ("multi-latent-attention", ""),
        *([("q-lora-rank", str(mla.q_rank))] * (mla.q_rank > 0)),
        ("kv-lora-rank", str(mla.kv_rank)),
        ("qk-head-dim", str(mla.nope_dim)),
        ("qk-pos-emb-head-dim", str(mla.rope_dim)),
        ("v-head-dim", str(mla.value_dim)),
        ("kv-channels", str(mla.value_dim)),
    ]


def _experts(model: Model, moe: Moe, about: Architecture, router: Router) -> Arguments:
    dense = about.dense_first
    found: Arguments = [
        ("num-experts", str(moe.experts)),
        ("moe-ffn-hidden-size", str(moe.ffn)),
        ("moe-router-topk", str(moe.active)),
        ("moe-router-dtype", "fp32"),
        ("moe-token-dispatcher-type", "alltoall"),
        ("moe-grouped-gemm", ""),
        ("moe-aux-loss-coeff", f"{router.auxiliary:g}"),
    ]
    found += [("moe-layer-freq", f"([0]*{dense}+[1]*{model.layers - dense})")] * (dense > 0)
    if moe.shared:
        found.append(("moe-shared-expert-intermediate-size", str(moe.shared * moe.shared_ffn)))
        found += [("moe-shared-expert-gate", "")] * about.shared_gate
    if router.sigmoid:
        found += [
            ("moe-router-score-function", "sigmoid"),
            ("moe-router-enable-expert-bias", ""),
            ("moe-router-load-balancing-type", "seq_aux_loss"),
        ]
    found += [("moe-router-pre-softmax", "")] * (router.sigmoid or not router.normalized)
    if router.groups > 1:
        found += [("moe-router-num-groups", str(router.groups)), ("moe-router-group-topk", str(router.group_topk))]
    return found + [("moe-router-topk-scaling-factor", f"{router.scale:g}")] * (router.scale != 1)
