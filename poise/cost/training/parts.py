"""Seconds of a layer's pieces on one device: projections, attention, light kernels, feed-forward blocks."""

from __future__ import annotations

from typing import NamedTuple

from poise.core.model import Linear, Model
from poise.cost.training.job import Job
from poise.cost.training.kernels import Kernels

CHUNK = 128
"""Tokens within which linear attention compares all pairs (Gated DeltaNet and Mamba-2 as they are trained)."""

DROPOUT = 2.5
"""Passes over the scores that dropout takes: it reads and writes them, and writes a mask of half their bytes."""

BLOCK = 4
"""Matrices of scores (one a sequence and head) in a multiple of which Megatron-LM's causal softmax kernel takes them:
the warps of a block (NVIDIA/Megatron-LM, fused_softmax.py, `is_kernel_available`)."""

NORM, NORM_EAGER = (2.0, 3.0), (13.0, 25.0)
ROTARY, ROTARY_EAGER = (2.0, 2.0), (10.0, 12.0)
GATE, GATE_EAGER = (3.0, 5.0), (5.0, 9.0)
"""Passes over 16-bit values in a forward and a backward: fused kernels read their inputs and write their outputs once.
Those of single PyTorch operations are counted: RMSNorm squares, averages, multiplies, goes to 32 bits and back and
applies its weight; rotary positions negate and join halves, multiply twice and add; a gate is an activation function
and a product."""


class Slice(NamedTuple):
    """What of a layer one device computes of one microbatch."""

    tensor: int
    sequence_parallel: bool
    context: int
    expert: int
    expert_tensor: int
    micro_batch: int


class Parts(NamedTuple):
    """Seconds on the device alone, before launching is looked at."""

    forward: float = 0.0
    inputs: float = 0.0
    weights: float = 0.0

    def plus(self, other: Parts) -> Parts:
        """Both, one after another."""
        return Parts(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def times(self, factor: float) -> Parts:
        """All of it `factor` times."""
        return Parts(factor * self[0], factor * self[1], factor * self[2])


def products(kernels: Kernels, m: float, n: float, k: float) -> Parts:
    """Forward (m × k)(k × n) and both products of its backward; the last finds its inputs quantised already."""
    forward, inputs = kernels.product(m, n, k), kernels.product(m, k, n)
    return Parts(forward, inputs, kernels.product(k, n, m, cast=False))


def mixer(job: Job, kernels: Kernels, cut: Slice, tokens: float) -> tuple[Parts, float, float]:
    """An average layer's mixer of tokens, attention or linear attention; of its forward the core, and what is computed
    again of MLA."""
    model = job.model
    core = _core(job, kernels, cut)
    whole = _projections(model, kernels, cut, tokens).plus(core)
    part = model.linear_layers / model.layers
    if model.linear is not None and part:
        whole = whole.times(1 - part).plus(_linear(model, model.linear, kernels, cut, tokens).times(part))
    return whole, core.forward * (1 - part), _up(model, kernels, cut, tokens)


def _projections(model: Model, kernels: Kernels, cut: Slice, tokens: float) -> Parts:
    """Queries, keys and values, and the output of attention."""
    if model.mla is None:
        inward = model.head_dim * (model.heads + 2 * max(model.kv_heads, min(cut.tensor, model.heads))) / cut.tensor
        outward = model.heads * model.head_dim / cut.tensor
        inner = products(kernels, tokens, inward, model.hidden)
        return inner.plus(products(kernels, tokens, model.hidden, outward))
    mla = model.mla
    heads = model.heads / cut.tensor
    wide = heads * (mla.nope_dim + mla.rope_dim)
    parts = products(kernels, tokens, mla.q_rank + mla.kv_rank + mla.rope_dim, model.hidden)
    parts = parts.plus(products(kernels, tokens, wide, mla.q_rank or model.hidden))
    parts = parts.plus(products(kernels, tokens, heads * (mla.nope_dim + mla.value_dim), mla.kv_rank))
    return parts.plus(products(kernels, tokens, model.hidden, heads * mla.value_dim))


def _up(model: Model, kernels: Kernels, cut: Slice, tokens: float) -> float:
    """The forward of latent attention's up-projections."""
    if model.mla is None:
        return 0.0
    mla, heads = model.mla, model.heads / cut.tensor
    queries = kernels.product(tokens, heads * (mla.nope_dim + mla.rope_dim), mla.q_rank or model.hidden)
    return queries + kernels.product(tokens, heads * (mla.nope_dim + mla.value_dim), mla.kv_rank)


def _linear(model: Model, linear: Linear, kernels: Kernels, cut: Slice, tokens: float) -> Parts:
    """Gated linear attention or a state space: projections, convolution, and its state in chunks of `CHUNK` tokens."""
    values = linear.value_heads * linear.value_dim
    inward = (linear.channels + values + 2 * linear.value_heads) / cut.tensor
    parts = products(kernels, tokens, inward, model.hidden)
    parts = parts.plus(products(kernels, tokens, model.hidden, values / cut.tensor))
    pairs = CHUNK * (linear.key_dim + linear.value_dim) + 4 * linear.key_dim * linear.value_dim
    flops = 2.0 * tokens * linear.value_heads * pairs / cut.tensor
    moved = kernels.stream(2.0 * tokens * (4 * linear.channels + 4 * values) / cut.tensor)
    core = flops / (kernels.device.bf16_flops * kernels.use.linear) + moved
    return parts.plus(Parts(core, 2 * core))


def _core(job: Job, kernels: Kernels, cut: Slice) -> Parts:
    """Attention between its projections."""
    model, use = job.model, kernels.use
    heads = model.heads / cut.tensor
    queries = job.sequence / cut.context
    width = model.head_dim if model.mla is None else (model.mla.nope_dim + model.mla.rope_dim + model.mla.value_dim) / 2
    if job.attention.startswith("flash"):
        full = Parts(*kernels.flash(cut.micro_batch, queries, job.sequence, heads, width))
        if not model.window_layers:
            return full
        near = kernels.flash(cut.micro_batch, queries, min(2.0 * model.window, job.sequence), heads, width)
        part = model.window_layers / model.layers
        return full.times(1 - part).plus(Parts(*near).times(part))
    passes = (use.scores - (0.0 if job.dropout else DROPOUT)) * (1.0 if fused_softmax(job, cut) else use.eager)
    scores = cut.micro_batch * heads * queries * job.sequence
    forward, product = kernels.unfused(scores, width, passes), kernels.unfused(scores, width, 0.0)
    return Parts(forward, 2.0 * product + use.scores_back * (forward - product))


def fused_softmax(job: Job, cut: Slice) -> bool:
    """Whether the softmax is within a kernel; a fused one falls back to single operations beside `BLOCK`."""
    matrices = cut.micro_batch * job.model.heads // cut.tensor
    return job.attention != "eager" and (job.attention != "fused" or matrices % BLOCK == 0)


def light(job: Job, kernels: Kernels, cut: Slice, tokens: float) -> tuple[Parts, float]:
    """Norms, residual additions, dropout, rotary positions, each in bytes of 16-bit values; the norms' own forward."""
    model = job.model
    spread = cut.tensor if cut.sequence_parallel else 1
    wide = 2.0 * tokens * model.hidden / spread
    drop = 1.0 if job.dropout else 0.0
    rotated = 2.0 * tokens * model.head_dim * (model.heads + model.kv_heads) / cut.tensor
    norm = NORM_EAGER if job.fused == "none" else NORM
    turn = ROTARY_EAGER if job.fused != "all" and model.gated else ROTARY
    forward = wide * (2 * norm[0] + 2 * (3 + drop)) + turn[0] * rotated
    backward = wide * (2 * norm[1] + 2 * (1 + drop)) + turn[1] * rotated
    return Parts(kernels.stream(forward), kernels.stream(backward)), kernels.stream(2 * norm[0] * wide)


def block(model: Model, kernels: Kernels, tokens: float, width: float, fused: bool) -> tuple[Parts, float]:
    """A feed-forward block of `width` columns on this device; of its forward the activation function."""
    gates = 2 if model.gated else 1
    passes = (2.0, 3.0) if not model.gated else GATE if fused else GATE_EAGER
    inner = products(kernels, tokens, gates * width, model.hidden)
    parts = inner.plus(products(kernels, tokens, model.hidden, width))
    moved = 2.0 * tokens * width
    function = kernels.stream(passes[0] * moved)
    return parts.plus(Parts(function, kernels.stream(passes[1] * moved))), function


def adapters(job: Job, kernels: Kernels, cut: Slice, tokens: float) -> Parts:
    """LoRA on attention's projections (Hu 2021, 4.2): narrow products, which take the time of the bytes they move."""
    if not job.adapters:
        return Parts()
    model = job.model
    inward = model.head_dim * (model.heads + 2 * model.kv_heads) / cut.tensor
    outward = model.heads * model.head_dim / cut.tensor
    one = kernels.stream(2.0 * tokens * (2 * model.hidden + inward + outward))
    return Parts(one, one, one)
