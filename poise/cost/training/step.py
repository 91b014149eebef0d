"""A step of training by closed forms, for one layout or for many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poise.cost.training.activations import layer_activation
from poise.cost.training.columns import FULL, Columns, Floats, columns
from poise.cost.training.figures import Figures, figures
from poise.cost.training.flops import hardware_flops, model_flops
from poise.cost.training.job import Job
from poise.cost.training.layer import Parts, Pass, Slice, builder, head, layer
from poise.cost.training.layout import Layout, check
from poise.cost.training.memory import Weights, peak, weights
from poise.cost.training.network import Network
from poise.cost.training.schedules import Filling, copies
from poise.cost.training.schedules import fill as filled

UPDATE = 30.0
"""Bytes that Adam reads and writes per weight: gradient, master copy and two moments, and the 16-bit weight."""
HIDDEN = 0.7
"""Part of messages between interleaved stages that overlaps with compute."""

HEADROOM = 0.1
"""Part of memory that a layout to be chosen leaves free: published peaks are predicted to 4 % in the median, 8 % at the
ninth decile, and what is chosen must run."""

Array = Any


@dataclass(frozen=True, slots=True)
class Steps:
    """Predicted steps, a row a layout; seconds and bytes. `parts` and `classes` are of the step and of the peak."""

    seconds: Floats
    bubble: Floats
    exposed: Floats
    memory: Floats
    parts: dict[str, Floats]
    classes: dict[str, Floats]
    passes: tuple[Floats, Floats, Floats, Floats]


@dataclass(frozen=True, slots=True)
class Prediction:
    """One step of one layout: seconds, bytes of the fullest device, and where both go.

    bubble, exposed: parts of the step in which the busiest device waits for others, and for communication.
    mfu, hfu: model's and executed FLOP over what the devices' peak would do (Chowdhery 2022, PaLM, appendix B).
    """

    layout: Layout
    seconds: float
    memory: float
    bubble: float
    exposed: float
    mfu: float
    hfu: float
    tokens_per_device: float
    parts: dict[str, float]
    classes: dict[str, float]

    def fits(self, job: Job) -> bool:
        """Whether its peak lies within the device's memory."""
        return self.memory <= job.device.memory_bytes

    def safe(self, job: Job) -> bool:
        """Whether it also leaves `HEADROOM`."""
        return self.memory <= safe_bytes(job)

    def lasting(self, seconds: float) -> Prediction:
        """The same work in so many seconds: utilisation and tokens a second follow; parts are for the caller."""
        scale = self.seconds / seconds
        return replace(
            self, seconds=seconds, mfu=self.mfu * scale, hfu=self.hfu * scale,
            tokens_per_device=self.tokens_per_device * scale,
        )  # fmt: skip


def safe_bytes(job: Job) -> float:
    """The largest peak of a layout to be chosen."""
    return (1 - HEADROOM) * job.device.memory_bytes


def predict(job: Job, layout: Layout, use: Figures | None = None) -> Prediction:
    """One layout's step; ScenarioError for a layout that cannot be."""
    check(job, layout)
    return prediction(job, layout, evaluate(job, columns(job, [layout]), use), 0)


def prediction(job: Job, layout: Layout, steps: Steps, row: int) -> Prediction:
    """One row of evaluated steps, with utilisation."""
    seconds = float(steps.seconds[row])
    work = job.tokens / (job.devices * seconds * job.peak)
    return Prediction(
        layout=layout, seconds=seconds, memory=float(steps.memory[row]), bubble=float(steps.bubble[row]),
        exposed=float(steps.exposed[row]), mfu=model_flops(job.model, job.sequence) * work,
        hfu=hardware_flops(job.model, job.sequence, layout.recompute) * work,
        tokens_per_device=job.tokens / (job.devices * seconds),
        parts={name: float(each[row]) for name, each in steps.parts.items()},
        classes={name: float(each[row]) for name, each in steps.classes.items()},
    )  # fmt: skip


def evaluate(job: Job, cut: Columns, use: Figures | None = None, *, memory: bool = True, gathers: bool = True) -> Steps:
    """All layouts' steps; no row is checked. Without `memory` only times are worked out, and bytes are 0.

    Without `gathers` layers do not wait for sharded weights, whose transfers are then for a simulation.
    """
    use = use or figures(job.host)
    kernels, network = builder(job, use)
    once, inverse = np.unique(
        np.stack([cut.tensor, cut.sequence_parallel, cut.context, cut.expert, cut.expert_tensor, cut.micro_batch]),
        axis=1, return_inverse=True,
    )  # fmt: skip
    slices = [Slice(int(t), bool(s), int(c), int(e), int(x), int(b)) for t, s, c, e, x, b in once.T]
    inverse = inverse.reshape(-1)
    layers = np.array([layer(job, kernels, network, each) for each in slices])[inverse].T
    heads = np.array([head(job, kernels, each) for each in slices])[inverse].T
    one = Pass(*layers)
    again_s = one.recomputed(cut.recompute) * cut.again_layers
    f = one.forward + one.forward_comm
    b = one.inputs + one.backward_comm + again_s
    held, classes = peak(job, cut, use) if memory else (np.zeros(len(cut)), {})
    w = np.asarray(one.weights) + _summing(job, cut, use)
    waits = _waits(job, cut, use, network, f, b + w, gathers)
    found = _assemble(job, cut, use, network, (f, b, w), waits, Parts(*heads), one)
    return replace(found, memory=held, classes=classes)


def _assemble(
    job: Job, cut: Columns, use: Figures, network: Network, each: tuple[Any, Any, Any], waits: tuple[Any, Any],
    top: Parts, one: Pass,
) -> Steps:  # fmt: skip
    """Steps from the seconds of a layer's passes, of its waits, of the head, and of a layer's parts."""
    (f, b, w), (wait_f, wait_b) = each, waits
    m = job.batch / (cut.data * cut.micro_batch)
    layer_s, head_s = f + b + w + wait_f + wait_b, top.forward + top.inputs + top.weights
    slot, whole = _slots(job, cut, layer_s, head_s)
    fill = filled(cut.schedule, Filling(whole - slot, cut.chunks, f, b, w))
    hop = _hop(job, cut, network)
    hops = 2.0 * hop * ((cut.pipeline - 1) + m * np.where(cut.chunks > 1, cut.chunks * (1 - HIDDEN), 1.0))
    hops = hops + np.where(cut.pipeline > 1, 2.0 * m * cut.chunks * use.chunk_s, 0.0)
    sync, update = _after(job, cut, use, network, b + w, f)
    fixed = np.full(len(cut), use.step_s)
    seconds = m * slot + fill + hops + sync + update + fixed
    twice = np.where(cut.recompute == FULL, 1 + cut.again_layers, 1.0)
    comm = m * cut.most * (one.forward_comm * twice + one.backward_comm + wait_f + wait_b)
    parts = {
        "compute": m * slot - comm, "exposed_in_layers": comm, "bubble": fill, "messages": hops, "gradients": sync,
        "optimizer": update, "fixed": fixed,
    }  # fmt: skip
    exposed = (comm + hops + sync) / seconds
    passes = (f + wait_f, b + wait_b, w + 0.0 * m, hop)
    return Steps(seconds, fill / seconds, exposed, np.zeros(len(cut)), parts, {}, passes)


def _summing(job: Job, cut: Columns, use: Figures) -> Array:
    """Seconds to add a layer's gradients to those of earlier microbatches: each is read and written.

    Sharded weights (FSDP) have none to add to: their gradients are scattered.
    """
    if job.adapters:
        return np.zeros(len(cut))
    one = _layer_weights(job, cut)
    moved = 2.0 * cut.gradient_bytes * (one.plain + one.experts)
    return np.where(cut.zero >= 3, 0.0, moved / (job.device.memory_bw * use.stream))


def _layer_weights(job: Job, cut: Columns) -> Weights:
    """Weights of one layer on a device, before sharding."""
    none = np.zeros(len(cut), bool)
    return weights(job, cut, np.ones(len(cut)), none, none)


def _slots(job: Job, cut: Columns, layer_s: Array, head_s: Array) -> tuple[Array, Array]:
    """Seconds of one microbatch on the rank with most work, and on all ranks together."""
    p = cut.pipeline
    first, last = cut.first * layer_s, cut.last * layer_s + head_s
    middle = np.where(p > 2, cut.most * layer_s, first)
    ends = np.where(p > 1, last, first + head_s)
    return np.maximum(np.maximum(first, middle), ends), job.model.layers * layer_s + head_s


def _hop(job: Job, cut: Columns, network: Network) -> Array:
    """Seconds of a message between two stages: each tensor rank sends its part (Narayanan 2021, 4.1)."""
    moved = 2.0 * cut.micro_batch * job.sequence / cut.context * job.model.hidden / cut.tensor
    return np.where(cut.pipeline > 1, network.hop(moved, cut.tensor * cut.context * cut.data), 0.0)


def _waits(
    job: Job, cut: Columns, use: Figures, network: Network, f: Array, back: Array, gathers: bool
) -> tuple[Array, Array]:
    """Seconds that a layer's forward and backward are longer by: gathers of sharded weights, copies of activations.

    Both overlap with compute: gathers behind `gather` of it, and slow it by `beside`; copies over the host's link
    behind all of it.
    """
    gathered, scattered = _sharding(job, cut, network) if gathers else (np.zeros(len(cut)), np.zeros(len(cut)))
    again = np.where(cut.reshard, gathered, 0.0) + scattered
    found = []
    for moved, compute in ((gathered, f), (again, back)):
        hidden = np.minimum(moved, use.gather * compute)
        found.append(moved - hidden + use.beside * hidden)
    if job.device.host_bw:
        copied = layer_activation(job, cut) * cut.offload_activations / job.device.host_bw
        found = [wait + np.maximum(0.0, copied - compute) for wait, compute in zip(found, (f, back), strict=True)]
    return found[0], found[1]


def _sharding(job: Job, cut: Columns, network: Network) -> tuple[Array, Array]:
    """Seconds to gather a layer's weights and to scatter its gradients, where weights are sharded (FSDP)."""
    one = _layer_weights(job, cut)
    ranks, mesh = cut.data * cut.context, cut.expert * cut.expert_tensor
    groups = ((one.plain, ranks, cut.tensor), (one.experts, np.maximum(ranks * cut.tensor // mesh, 1), mesh))
    size = 0.0 if job.adapters else cut.gradient_bytes
    gathered = sum(network.scatter(2.0 * each, n, stride) for each, n, stride in groups if np.any(each))
    scattered = sum(network.scatter(size * each, n, stride) for each, n, stride in groups if np.any(each))
    sharded = cut.zero >= 3
    return np.where(sharded, gathered, 0.0), np.where(sharded, scattered, 0.0)


def _sharers(cut: Columns) -> tuple[Array, Array]:
    """Ranks that have the same weights: outside experts, and of them."""
    ranks = cut.data * cut.context
    return ranks, np.maximum(ranks * cut.tensor // (cut.expert * cut.expert_tensor), 1)


def sums(job: Job, cut: Columns, network: Network, own: Weights) -> tuple[Array, Array]:
    """Seconds of the sum of the gradients of `own` weights, and of what makes weights or sums whole again."""
    ranks, expert_ranks = _sharers(cut)
    size = job.summed_bytes or cut.gradient_bytes
    scattered = network.scatter(size * own.plain, ranks, cut.tensor)
    scattered = scattered + network.scatter(size * own.experts, expert_ranks, cut.expert * cut.expert_tensor)
    gathered = network.scatter(2.0 * own.plain, ranks, cut.tensor)
    gathered = gathered + network.scatter(2.0 * own.experts, expert_ranks, cut.expert * cut.expert_tensor)
    if job.summed_bytes:
        scattered = scattered + network.scatter(job.summed_bytes * own.plain, ranks, cut.tensor)
    return scattered, np.where(
        cut.zero == 0, network.scatter(size * (own.plain + own.experts), ranks, cut.tensor), gathered
    )


def _after(job: Job, cut: Columns, use: Figures, network: Network, back: Array, ahead: Array) -> tuple[Array, Array]:
    """Seconds of the gradients' sum that stay exposed, and of the optimizer.

    Sharded gradients (ZeRO-2) are summed behind every microbatch, whole ones once a step.
    """
    if job.adapters:  # as good as nothing
        return np.zeros(len(cut)), np.zeros(len(cut))
    ends = np.ones(len(cut), bool)
    own = weights(job, cut, cut.most, ends, np.zeros(len(cut), bool) | (cut.pipeline == 1))
    own = Weights(*(copies(cut.schedule) * each for each in own))
    scattered, gathered = sums(job, cut, network, own)
    ranks, expert_ranks = _sharers(cut)
    hide = np.where(cut.overlap, use.hidden, 0.0)
    floor = 1.0 / np.maximum(cut.most, 1)
    exposed = np.maximum(scattered - hide * cut.most * back, floor * scattered)
    exposed = np.where(cut.zero == 2, job.batch // (cut.data * cut.micro_batch), 1) * exposed
    exposed = exposed + np.where(
        cut.overlap & (cut.zero > 0), np.maximum(gathered - hide * cut.most * ahead, floor * gathered), gathered
    )
    exposed = np.where(cut.zero >= 3, 0.0, np.where(ranks > 1, exposed, 0.0))
    shards = np.where(cut.zero >= 1, ranks, 1)
    expert_shards = np.where(cut.zero >= 1, expert_ranks, 1)
    values = own.plain / shards + own.experts / expert_shards
    update = use.update * UPDATE * values / (job.device.memory_bw * use.stream)
    if job.device.host_bw:
        update = np.where(cut.offload_optimizer, 8.0 * values / job.device.host_bw + 3.0 * update, update)
    return exposed, update
