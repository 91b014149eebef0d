"""Bytes that a layer keeps of a microbatch until its backward, by what is computed again."""

from __future__ import annotations

from typing import Any

import numpy as np

from poise.cost.training.columns import FULL, Columns, again
from poise.cost.training.job import Job

Array = Any

NORM_COPIES = 8
"""Bytes per value that an unfused norm keeps besides its input: that in 32 bits, and its normalised form."""


def activation(job: Job, cut: Columns) -> Array:
    """Bytes that one layer keeps of one microbatch until its backward, without what is computed again by operation.

    Korthikanti et al., "Reducing activation recomputation" (arXiv 2205.05198), section 4: sbh(34 + 5as/h) for GPT with
    dropout, its parts by what the tensor group cuts. Flash attention keeps a logarithm per query in place of scores.
    Products in 8 bits keep their inputs so.
    """
    tokens: Array = cut.micro_batch * job.sequence / cut.context
    wide, spread = tokens * job.model.hidden, np.where(cut.sequence_parallel, cut.tensor, 1)
    drop = 1.0 if job.dropout else 0.0
    # two norms' inputs and two masks; what attention and the block read, which the norms can give again
    norms: Array = (4.0 + 2 * drop) * wide / spread
    read = 1 if job.adapters else 2  # a frozen block's products have no weight gradient, which would need their inputs
    norms = norms + np.where(again(cut.recompute, "norm"), 0.0, read * stored_input(job)) * wide / spread
    if job.fused == "none":
        norms = norms + np.where(again(cut.recompute, "norm"), 0.0, 2 * NORM_COPIES) * wide / spread
    core = np.where(again(cut.recompute, "attention"), 0.0, scores(job, cut))
    halved = np.where(again(cut.recompute, "products"), 0.5, 1.0)
    return norms + core + halved * (tokens * _mixer(job, cut) / cut.tensor + _block_activation(job, cut, tokens))


def stored_input(job: Job) -> float:
    """Bytes of a value that a product keeps of its input."""
    return 1.0 if job.narrow else 2.0


def _mixer(job: Job, cut: Columns) -> Array:
    """Bytes of a token that queries, keys, values and what the output's projection reads take, over all heads."""
    model = job.model
    if model.mla is not None:
        each = 2 * (model.mla.nope_dim + model.mla.rope_dim) + model.mla.value_dim
        latent = (model.mla.kv_rank + model.mla.q_rank + model.mla.rope_dim) * cut.tensor
        up = np.where(again(cut.recompute, "mla"), 0.0, 2.0 * model.heads * each)
        return 2.0 * model.heads * model.mla.value_dim + up + 2 * stored_input(job) * latent
    heads = 2.0 * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
    if job.fused != "all" and model.gated:  # rotary positions keep what they rotate
        heads += 2.0 * model.head_dim * (model.heads + model.kv_heads)
    if model.linear is None:
        return heads
    part = model.linear_layers / model.layers
    values = model.linear.value_heads * model.linear.value_dim
    return (1 - part) * heads + part * 2.0 * (2 * model.linear.channels + 3 * values)


def scores(job: Job, cut: Columns) -> Array:
    """Bytes of attention's scores that one layer keeps: what selective recomputation drops."""
    tokens = cut.micro_batch * job.sequence / cut.context
    if job.attention.startswith("flash"):
        return 4.0 * tokens * job.model.heads / cut.tensor
    drop = 3.0 if job.dropout else 0.0
    eager = 2.0 if job.attention == "eager" else 0.0
    return (2.0 + drop + eager) * tokens * job.sequence * job.model.heads / cut.tensor


def _block_activation(job: Job, cut: Columns, tokens: Array) -> Array:
    """What feed-forward blocks keep: the inner product's output, and what the outer one reads unless the activation
    function is computed again; of routed experts each copy of a token's input, too. Their weights by the router are
    applied to the inner product's output, so that of the outer one nothing is kept (Megatron-LM since 2025)."""
    model, size = job.model, stored_input(job)
    inner: Array = 2.0 * ((2.0 if model.gated else 1.0) + (1.0 if model.gated and job.fused != "all" else 0.0))
    inner = inner + (0.0 if job.adapters else np.where(again(cut.recompute, "activation"), 0.0, size))
    dense = model.dense_layers / model.layers * tokens * inner * model.ffn / cut.tensor
    if model.moe is None:
        return dense
    moe = model.moe
    own = tokens / cut.tensor * moe.active * job.skew
    routed = own * (size * model.hidden + inner * moe.ffn) + tokens * 4.0 * moe.experts / cut.tensor
    routed = np.where(again(cut.recompute, "experts"), 0.0, routed)
    shared = np.where(again(cut.recompute, "shared"), 0.0, tokens * inner * moe.shared * moe.shared_ffn / cut.tensor)
    return dense + moe.layers / model.layers * (routed + shared)


def boundary(job: Job, cut: Columns) -> Array:
    """Bytes of a layer's input, which full recomputation keeps."""
    spread = np.where(cut.sequence_parallel, cut.tensor, 1)
    return 2.0 * cut.micro_batch * job.sequence / cut.context * job.model.hidden / spread


def layer_activation(job: Job, cut: Columns) -> Array:
    """Bytes that one layer keeps under its recomputation."""
    whole, part = activation(job, cut), cut.again_layers
    return np.where(cut.recompute == FULL, part * boundary(job, cut) + (1 - part) * whole, whole)
