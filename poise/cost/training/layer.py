"""One layer, and the head, of a layout: seconds of forward, both parts of backward, and what is computed again."""

from __future__ import annotations

from typing import NamedTuple

from poise.core.model import Model
from poise.cost.operator import SMOOTH
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.kernels import Kernels
from poise.cost.training.network import Network


class Slice(NamedTuple):
    """What of a layer one device computes of one microbatch."""

    tensor: int
    sequence_parallel: bool
    context: int
    expert: int
    expert_tensor: int
    micro_batch: int


class Pass(NamedTuple):
    """Seconds of a layer: forward, input gradient, weight gradient, their exposed collectives.

    again: what full recomputation runs before the backward.  core: what selective recomputation does.
    """

    forward: float
    inputs: float
    weights: float
    forward_comm: float
    backward_comm: float
    again: float
    core: float


class Parts(NamedTuple):
    """Seconds on the device alone, before launching is looked at."""

    forward: float = 0.0
    inputs: float = 0.0
    weights: float = 0.0

    def plus(self, other: Parts) -> Parts:
        """Both, one after another."""
        return Parts(*(one + two for one, two in zip(self, other, strict=True)))


def layer(job: Job, kernels: Kernels, network: Network, cut: Slice) -> Pass:
    """An average layer of the model."""
    use, model = kernels.use, job.model
    tokens = cut.micro_batch * job.sequence / cut.context
    core = _core(job, kernels, cut)
    parts = _projections(model, kernels, cut, tokens).plus(core).plus(_light(job, kernels, cut, tokens))
    dense = model.dense_layers / model.layers
    if dense:
        block = _block(model, kernels, tokens, model.ffn / cut.tensor, job.fused == "all")
        parts = parts.plus(Parts(*(dense * each for each in block)))
    forward_comm = backward_comm = 0.0
    if cut.tensor > 1:
        moved = 2.0 * tokens * model.hidden
        both = 2.0 * float(network.reduce(moved, cut.tensor, 1)) * use.tensor
        forward_comm, backward_comm = both, both
    if model.moe is not None:
        block, exchanged = _experts(job, kernels, network, cut, tokens)
        part = 1.0 - dense
        parts = parts.plus(Parts(*(part * each for each in block)))
        forward_comm, backward_comm = forward_comm + part * exchanged, backward_comm + part * exchanged
    if cut.context > 1:
        keys = 2.0 * 2.0 * tokens * model.kv_heads * model.head_dim / cut.tensor
        ring = (cut.context - 1) * float(network.hop(keys, cut.tensor)) * use.context
        forward_comm, backward_comm = forward_comm + ring, backward_comm + 2.0 * ring
    launches = use.launch_s * (2.0 * (cut.tensor > 1) + 2.0 * (cut.expert > 1) + (cut.context - 1.0))
    forward = _launched(parts.forward + forward_comm, use.forward_s + launches) - forward_comm
    device = parts.inputs + parts.weights
    back = _launched(device + backward_comm, use.backward_s + launches) - backward_comm
    share = parts.inputs / device
    again = forward + forward_comm
    if job.early_stop and model.moe is None:
        again -= kernels.product(tokens, model.hidden, model.ffn / cut.tensor)
    return Pass(forward, back * share, back * (1 - share), forward_comm, backward_comm, again, core.forward)


def head(job: Job, kernels: Kernels, cut: Slice) -> Parts:
    """The output head with the loss, cut along the vocabulary by the tensor group; gathered logits are each rank's."""
    model = job.model
    tokens, width = cut.micro_batch * job.sequence / cut.context, model.vocab / cut.tensor
    loss = kernels.stream(4.0 * tokens * (model.vocab if job.gathered else width) * kernels.use.loss / 2)
    forward = kernels.wide(tokens, width, model.hidden) + loss
    return Parts(forward, kernels.wide(tokens, model.hidden, width) + loss, kernels.wide(width, model.hidden, tokens))


def _launched(device_s: float, host_s: float) -> float:
    """The larger of both, rounded where they are near: kernels queue only while the host is ahead."""
    return float((device_s**SMOOTH + host_s**SMOOTH) ** (1 / SMOOTH))


def _products(kernels: Kernels, m: float, n: float, k: float) -> Parts:
    """Forward (m × k)(k × n) and both products of its backward."""
    return Parts(kernels.product(m, n, k), kernels.product(m, k, n), kernels.product(k, n, m))


def _projections(model: Model, kernels: Kernels, cut: Slice, tokens: float) -> Parts:
    """Queries, keys and values, and the output of attention."""
    if model.mla is None:
        inward = model.head_dim * (model.heads + 2 * max(model.kv_heads, min(cut.tensor, model.heads))) / cut.tensor
        outward = model.heads * model.head_dim / cut.tensor
        inner = _products(kernels, tokens, inward, model.hidden)
        return inner.plus(_products(kernels, tokens, model.hidden, outward))
    mla = model.mla
    heads, parts = model.heads / cut.tensor, Parts()
    wide = heads * (mla.nope_dim + mla.rope_dim)
    parts = _products(kernels, tokens, mla.q_rank + mla.kv_rank + mla.rope_dim, model.hidden)
    parts = parts.plus(_products(kernels, tokens, wide, mla.q_rank or model.hidden))
    parts = parts.plus(_products(kernels, tokens, heads * (mla.nope_dim + mla.value_dim), mla.kv_rank))
    return parts.plus(_products(kernels, tokens, model.hidden, heads * mla.value_dim))


def _core(job: Job, kernels: Kernels, cut: Slice) -> Parts:
    """Attention between its projections."""
    model, use = job.model, kernels.use
    heads = model.heads / cut.tensor
    queries = job.sequence / cut.context
    width = model.head_dim if model.mla is None else (model.mla.nope_dim + model.mla.rope_dim + model.mla.value_dim) / 2
    if job.attention in ("flash", "flash2"):
        full = Parts(*kernels.flash(cut.micro_batch, queries, job.sequence, heads, width))
        if not model.window_layers:
            return full
        near = kernels.flash(cut.micro_batch, queries, min(2.0 * model.window, job.sequence), heads, width)
        part = model.window_layers / model.layers
        return Parts(*((1 - part) * one + part * two for one, two in zip(full[:2], near, strict=True)))
    passes = use.scores * (use.eager if job.attention == "eager" else 1.0)
    scores = cut.micro_batch * heads * queries * job.sequence
    forward, products = kernels.unfused(scores, width, passes), kernels.unfused(scores, width, 0.0)
    return Parts(forward, 2.0 * products + use.scores_back * (forward - products))


def _light(job: Job, kernels: Kernels, cut: Slice, tokens: float) -> Parts:
    """Norms, residual additions, dropout, rotary positions; each in bytes of 16-bit values read and written."""
    model = job.model
    spread = cut.tensor if cut.sequence_parallel else 1
    wide = 2.0 * tokens * model.hidden / spread
    drop = 1.0 if job.dropout else 0.0
    rotated = 2.0 * tokens * model.head_dim * (model.heads + model.kv_heads) / cut.tensor
    forward = wide * (2 * 2 + 2 * (3 + drop)) + 2 * rotated
    backward = wide * (2 * 3 + 2 * (1 + drop)) + 2 * rotated
    slow = kernels.use.eager if job.fused == "none" else 1.0
    return Parts(kernels.stream(slow * forward), kernels.stream(slow * backward))


def _block(model: Model, kernels: Kernels, tokens: float, width: float, fused: bool) -> Parts:
    """A feed-forward block of `width` columns on this device."""
    gates = 2 if model.gated else 1
    parts = _products(kernels, tokens, gates * width, model.hidden).plus(
        _products(kernels, tokens, model.hidden, width)
    )
    slow = 1.0 if fused else kernels.use.eager
    moved = 2.0 * tokens * width * slow
    return parts.plus(Parts(kernels.stream((gates + 1) * moved), kernels.stream((2 * gates + 1) * moved)))


def _experts(job: Job, kernels: Kernels, network: Network, cut: Slice, tokens: float) -> tuple[Parts, float]:
    """Routed and shared experts with the exchange of tokens, even loads."""
    model, use = job.model, kernels.use
    moe = model.moe
    assert moe is not None
    own = tokens / cut.tensor
    local = moe.experts / cut.expert
    load = own * moe.active * cut.expert * cut.expert_tensor / moe.experts
    one = _block(model, kernels, load, moe.ffn / cut.expert_tensor, job.fused == "all")
    parts = Parts(*(use.expert * local * each for each in one))
    if moe.shared:
        parts = parts.plus(_block(model, kernels, tokens, moe.shared * moe.shared_ffn / cut.tensor, job.fused == "all"))
    copies = 2.0 * own * moe.active * model.hidden
    permuted = kernels.stream(use.dispatch * copies * cut.expert_tensor)
    parts = parts.plus(Parts(permuted, permuted))
    exchanged = 2.0 * float(network.exchange(copies, cut.expert, cut.expert_tensor, moe.active))
    exchanged += 2.0 * float(network.scatter(copies * cut.expert_tensor, cut.expert_tensor, 1))
    return parts, exchanged


def builder(job: Job, use: Figures) -> tuple[Kernels, Network]:
    """Kernels and network of a job."""
    return Kernels(job.device, job.precision, job.attention, use), Network(job, use)
