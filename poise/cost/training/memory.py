"""Bytes of one device by class, of the first, a middle and the last rank of the pipeline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from poise.cost.training.columns import Columns
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.schedules import copies, held, wraps

Array = Any

STATES = 12
"""Bytes per weight of Adam's states: master copy and two moments in 32 bits (Rajbhandari 2020, ZeRO, section 3.1)."""
LOGIT = 10
"""Bytes per logit at a vocabulary-parallel loss: 16 bits, a copy in 32 and its gradient."""
WHOLE_LOGIT = 16
"""Bytes per logit under PyTorch's cross entropy: 16 bits, a copy in 32, its log-softmax and both gradients."""
GATHERED = 4
"""Bytes per logit more where a tensor group gathers them: all its logits, and their gradient."""
NORM_COPIES = 8
"""Bytes per value that an unfused norm keeps besides its input: that in 32 bits, and its normalised form."""
CLASSES = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")


class Weights(NamedTuple):
    """Weights of one device: outside experts, and of them, by rank of the pipeline."""

    plain: Array
    experts: Array


def activation(job: Job, cut: Columns) -> Array:
    """Bytes that one layer keeps of one microbatch until its backward, nothing recomputed.

    Korthikanti et al., "Reducing activation recomputation" (arXiv 2205.05198), section 4: sbh(34 + 5as/h) for GPT with
    dropout, its parts by what the tensor group cuts. Flash attention keeps a logarithm per query in place of scores.
    """
    model = job.model
    tokens: Array = cut.micro_batch * job.sequence / cut.context
    wide, spread = tokens * model.hidden, np.where(cut.sequence_parallel, cut.tensor, 1)
    drop = 1.0 if job.dropout else 0.0
    # two norms' inputs, what attention and the block read, two masks
    norms: Array = (4.0 + 2.0 + 2.0 + 2 * drop) * wide / spread
    if job.fused == "none":
        norms = norms + 2 * NORM_COPIES * wide / spread
    if model.mla is None:
        heads: Array = 2.0 * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
        if job.fused != "all" and model.gated:  # rotary positions keep what they rotate
            heads += 2.0 * model.head_dim * (model.heads + model.kv_heads)
    else:
        each = 2 * (model.mla.nope_dim + model.mla.rope_dim) + 2 * model.mla.value_dim
        heads = 2.0 * (model.heads * each + (model.mla.kv_rank + model.mla.q_rank) * cut.tensor)
    kept = tokens * heads / cut.tensor + scores(job, cut)
    return norms + kept + _block_activation(job, cut, tokens)


def scores(job: Job, cut: Columns) -> Array:
    """Bytes of attention's scores that one layer keeps: what selective recomputation drops."""
    tokens = cut.micro_batch * job.sequence / cut.context
    if job.attention.startswith("flash"):
        return 4.0 * tokens * job.model.heads / cut.tensor
    drop = 3.0 if job.dropout else 0.0
    eager = 2.0 if job.attention == "eager" else 0.0
    return (2.0 + drop + eager) * tokens * job.sequence * job.model.heads / cut.tensor


def _block_activation(job: Job, cut: Columns, tokens: Array) -> Array:
    model = job.model
    values = (3.0 if model.gated else 2.0) + (1.0 if model.gated and job.fused != "all" else 0.0)
    dense = model.dense_layers / model.layers * tokens * 2.0 * values * model.ffn / cut.tensor
    if model.moe is None:
        return dense
    moe = model.moe
    own = tokens / cut.tensor * moe.active
    routed = own * (2.0 * 2.0 * model.hidden + 2.0 * values * moe.ffn) + tokens * 4.0 * moe.experts / cut.tensor
    shared = tokens * 2.0 * values * moe.shared * moe.shared_ffn / cut.tensor
    return dense + moe.layers / model.layers * (routed + shared)


def boundary(job: Job, cut: Columns) -> Array:
    """Bytes of a layer's input, which full recomputation keeps."""
    spread = np.where(cut.sequence_parallel, cut.tensor, 1)
    return 2.0 * cut.micro_batch * job.sequence / cut.context * job.model.hidden / spread


def layer_activation(job: Job, cut: Columns) -> Array:
    """Bytes that one layer keeps under its recomputation."""
    whole, part = activation(job, cut), cut.again_layers
    again = np.where(
        cut.recompute == 2, boundary(job, cut), whole - np.where(cut.recompute == 1, scores(job, cut), 0.0)
    )
    return part * again + (1 - part) * whole


def weights(job: Job, cut: Columns, layers: Array, first: Any, last: Any) -> Weights:
    """Weights of a rank that holds `layers` layers, and the embedding or the head."""
    model = job.model
    moe_layers = layers * (model.moe.layers / model.layers if model.moe else 0.0)
    experts = 0.0
    if model.moe is not None:
        experts = moe_layers * model.moe.experts * model.expert_parameters / (cut.expert * cut.expert_tensor)
    dense = layers * model.dense_layers / model.layers * model.ffn_parameters
    plain = layers * model.attention_parameters + dense + moe_layers * model.shared_parameters
    plain = plain / cut.tensor + 2.0 * layers * model.hidden
    ends = first.astype(float) + last.astype(float)
    if model.tied:
        ends = np.minimum(ends, 1.0)
    return Weights(plain + ends * model.vocab * model.hidden / cut.tensor, experts + 0.0 * plain)


def by_class(job: Job, cut: Columns, use: Figures, where: str) -> dict[str, Array]:
    """Bytes by class of the `first`, a `middle` or the `last` rank."""
    p = cut.pipeline
    rank = {"first": 0 * p, "middle": np.minimum(1, p - 1), "last": p - 1}[where]
    layers = {"first": cut.first, "middle": np.where(p > 2, cut.most, cut.first), "last": cut.last}[where]
    first = rank == 0
    last = np.where(wraps(cut.schedule), rank == 0, rank == p - 1)
    times = copies(cut.schedule)
    own = Weights(*(times * each for each in weights(job, cut, layers, first, last)))
    shards, expert_shards = _shards(cut)
    kept = np.where(cut.zero >= 3, shards, 1)
    kept_experts = np.where(cut.zero >= 3, expert_shards, 1)
    summed, summed_experts = np.where(cut.zero >= 2, shards, 1), np.where(cut.zero >= 2, expert_shards, 1)
    states, states_experts = np.where(cut.zero >= 1, shards, 1), np.where(cut.zero >= 1, expert_shards, 1)
    microbatches = job.batch / (cut.data * cut.micro_batch)
    each = layer_activation(job, cut)
    stored = held(cut.schedule, p, cut.chunks, rank, microbatches) * layers * each * (1 - cut.offload_activations)
    working = np.where(cut.recompute == 2, activation(job, cut), 0.0) + 4.0 * boundary(job, cut)
    tokens = cut.micro_batch * job.sequence / cut.context
    each_logit = WHOLE_LOGIT + GATHERED * (cut.tensor > 1) if job.gathered else LOGIT / cut.tensor
    logits = np.where(last, each_logit * tokens * job.model.vocab, 0.0)
    gathered = np.where(cut.zero >= 3, 2 * 2.0 * (own.plain + own.experts) / np.maximum(layers, 1), 0.0)
    keeps = np.where((cut.zero >= 3) & (cut.reshard == 0), 2.0 * (own.plain + own.experts), gathered)
    found = {
        "weights": 2.0 * (own.plain / kept + own.experts / kept_experts),
        "gradients": cut.gradient_bytes * (own.plain / summed + own.experts / summed_experts),
        "optimizer": np.where(cut.offload_optimizer, 0.0, STATES * (own.plain / states + own.experts / states_experts)),
        "activations": stored + working,
        "logits": logits,
        "buffers": keeps,
    }
    sum_ = sum(found.values())
    return {**found, "framework": use.framework + use.fragment * sum_}


def _shards(cut: Columns) -> tuple[Array, Array]:
    """Ranks over which states are cut: data × context, and for experts what their own mesh leaves."""
    group = cut.data * cut.context
    return group, np.maximum(group * cut.tensor // (cut.expert * cut.expert_tensor), 1)


def peak(job: Job, cut: Columns, use: Figures) -> tuple[Array, dict[str, Array]]:
    """Bytes of the fullest rank, and its classes."""
    ranks = [by_class(job, cut, use, where) for where in ("first", "middle", "last")]
    totals = np.stack([sum(each.values()) for each in ranks])
    fullest = totals.argmax(axis=0)
    rows = np.arange(len(cut))
    return totals[fullest, rows], {
        name: np.stack([np.broadcast_to(each[name], totals[0].shape) for each in ranks])[fullest, rows]
        for name in CLASSES
    }
