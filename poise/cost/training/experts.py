"""Routed and shared experts of a layer: products, permuting and the exchange of tokens."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from poise.cost.training.job import Job
from poise.cost.training.kernels import Kernels
from poise.cost.training.network import Network
from poise.cost.training.parts import Parts, Slice, block

ALIGNED = 8
"""Tokens to a multiple of which an expert's load is padded, so that its products have no odd width."""


class Experts(NamedTuple):
    """Seconds of a layer's experts: all that one device computes, each direction's exchange, and by operation the
    forward of the routed ones, of the shared ones, and of activation functions."""

    parts: Parts
    exchanged: float
    routed: float
    shared: float
    functions: float


def experts(job: Job, kernels: Kernels, network: Network, cut: Slice, tokens: float) -> Experts:
    """A layer of experts; the fullest rank has `job.skew` times the mean load."""
    model, use = job.model, kernels.use
    moe = model.moe
    assert moe is not None
    own, fused = tokens / cut.tensor, job.fused == "all"
    local = moe.experts / cut.expert
    mean = own * moe.active * cut.expert * cut.expert_tensor / moe.experts
    load = ALIGNED * ceil(mean * job.skew / ALIGNED)
    one, function = block(model, kernels, load, moe.ffn / cut.expert_tensor, fused)
    parts = one.times(use.expert * local)
    functions = use.expert * local * function
    copies = 2.0 * own * moe.active * model.hidden * job.skew
    permuted = kernels.stream(use.dispatch * copies * cut.expert_tensor)
    parts = parts.plus(Parts(permuted, permuted))
    exchanged = 2.0 * float(network.exchange(copies, cut.expert, cut.expert_tensor, moe.active, once=job.once))
    exchanged += 2.0 * float(network.scatter(copies * cut.expert_tensor, cut.expert_tensor, 1))
    routed, shared = parts.forward + exchanged, 0.0
    if moe.shared:
        beside, function = block(model, kernels, tokens, moe.shared * moe.shared_ffn / cut.tensor, fused)
        parts, shared, functions = parts.plus(beside), beside.forward, functions + function
    return Experts(parts, exchanged, routed, shared, functions)
