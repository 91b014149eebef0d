"""Bytes of one device by class, of the first, a middle and the last rank of the pipeline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from poise.cost.training.activations import activation, boundary, layer_activation, stored_input
from poise.cost.training.columns import FULL, Columns
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
CLASSES = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")


class Weights(NamedTuple):
    """Weights of one device: outside experts, and of them, by rank of the pipeline."""

    plain: Array
    experts: Array


def weights(job: Job, cut: Columns, layers: Array, first: Any, last: Any) -> Weights:
    """Weights of a rank that holds `layers` layers, and the embedding or the head."""
    model = job.model
    moe_layers = layers * (model.moe.layers / model.layers if model.moe else 0.0)
    experts: Array = 0.0
    if model.moe is not None:
        experts = moe_layers * model.moe.experts * model.expert_parameters / (cut.expert * cut.expert_tensor)
    dense = layers * model.dense_layers / model.layers * model.ffn_parameters
    mixers: float = model.attention_parameters
    if model.linear is not None:
        part = model.linear_layers / model.layers
        mixers = (1 - part) * mixers + part * model.linear_parameters
    plain = layers * mixers + dense + moe_layers * model.shared_parameters
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
    trained = 0.0 if job.adapters else 1.0
    summed, summed_experts = np.where(cut.zero >= 2, shards, 1), np.where(cut.zero >= 2, expert_shards, 1)
    states, states_experts = np.where(cut.zero >= 1, shards, 1), np.where(cut.zero >= 1, expert_shards, 1)
    microbatches = job.batch / (cut.data * cut.micro_batch)
    each = layer_activation(job, cut)
    stored = held(cut.schedule, p, cut.chunks, rank, microbatches) * layers * each * (1 - cut.offload_activations)
    working = np.where(cut.recompute == FULL, activation(job, cut), 0.0) + 4.0 * boundary(job, cut)
    tokens = cut.micro_batch * job.sequence / cut.context
    each_logit = WHOLE_LOGIT + GATHERED * (cut.tensor > 1) if job.gathered else LOGIT / cut.tensor
    logits = np.where(last & (not job.chunked), each_logit * tokens * job.model.vocab, 0.0)
    gathered = np.where(cut.zero >= 3, 2 * 2.0 * (own.plain + own.experts) / np.maximum(layers, 1), 0.0)
    keeps = np.where((cut.zero >= 3) & (cut.reshard == 0), 2.0 * (own.plain + own.experts), gathered)
    found = {
        "weights": (stored_input(job) if job.adapters else 2.0) * (own.plain / kept + own.experts / kept_experts),
        "gradients": trained * cut.gradient_bytes * (own.plain / summed + own.experts / summed_experts),
        "optimizer": np.where(
            cut.offload_optimizer, 0.0, trained * STATES * (own.plain / states + own.experts / states_experts)
        ),
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
