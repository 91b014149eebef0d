"""One layer, and the head, of a layout: seconds of forward, both parts of backward, and what is computed again."""

from __future__ import annotations

from typing import Any, NamedTuple

from poise.cost.operator import SMOOTH
from poise.cost.training.columns import FULL, again
from poise.cost.training.experts import experts
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job
from poise.cost.training.kernels import Kernels
from poise.cost.training.layout import OPERATIONS
from poise.cost.training.network import Network
from poise.cost.training.parts import Parts, Slice, adapters, block, fused_softmax, light, mixer

__all__ = ["Parts", "Pass", "Slice", "builder", "head", "layer"]


SINGLE = 0.2
"""What a softmax of single operations adds to a layer's launches: scale, mask, softmax and two conversions in place of
one kernel, of some twenty kernels of a forward; as much of a backward's."""


class Pass(NamedTuple):
    """Seconds of a layer: forward, input gradient, weight gradient, their exposed collectives.

    again: what full recomputation runs before the backward. The rest: what recomputation of each of `OPERATIONS` does.
    """

    forward: Any
    inputs: Any
    weights: Any
    forward_comm: Any
    backward_comm: Any
    again: Any
    attention: Any
    norm: Any
    activation: Any
    mla: Any
    experts: Any
    shared: Any
    products: Any

    def recomputed(self, codes: Any) -> Any:
        """Seconds of what is computed again, by numbers of recomputation."""
        total = self.again * (codes == FULL)
        for name in OPERATIONS:
            total = total + getattr(self, name) * again(codes, name)
        return total


def layer(job: Job, kernels: Kernels, network: Network, cut: Slice) -> Pass:
    """An average layer of the model."""
    use, model = kernels.use, job.model
    tokens = cut.micro_batch * job.sequence / cut.context
    mixed, core, up = mixer(job, kernels, cut, tokens)
    small, norm = light(job, kernels, cut, tokens)
    parts = mixed.plus(small)
    dense = model.dense_layers / model.layers
    functions = 0.0
    if dense and model.ffn:
        whole, functions = block(model, kernels, tokens, model.ffn / cut.tensor, job.fused == "all")
        parts, functions = parts.plus(whole.times(dense)), dense * functions
    forward_comm = backward_comm = routed = shared = 0.0
    if cut.tensor > 1:
        moved = 2.0 * tokens * model.hidden
        overlaps = kernels.new and model.moe is None and not job.adapters
        both = 2.0 * network.reduce_near(moved, cut.tensor) * (use.tensor_new if overlaps else use.tensor)
        apart = job.gates_apart and model.gated and not cut.sequence_parallel
        forward_comm, backward_comm = both, both * (1.5 if apart else 1.0)
    if model.moe is not None:
        part = 1.0 - dense
        own = experts(job, kernels, network, cut, tokens)
        parts, functions = parts.plus(own.parts.times(part)), functions + part * own.functions
        routed, shared = part * own.routed, part * own.shared
        exchanged = own.exchanged
        if job.paired:
            beside = (
                parts.forward + parts.inputs + parts.weights
            ) / 2  # a forward's behind a backward, and the reverse
            exchanged = max(use.beside * exchanged, exchanged - beside)
        forward_comm, backward_comm = forward_comm + part * exchanged, backward_comm + part * exchanged
    if cut.context > 1:
        keys = 2.0 * 2.0 * tokens * model.kv_heads * model.head_dim / cut.tensor
        ring = (cut.context - 1) * float(network.hop(keys, cut.tensor)) * use.context
        forward_comm, backward_comm = forward_comm + ring, backward_comm + 2.0 * ring
    if job.adapters:  # nothing but adapters has a weight gradient
        parts = Parts(parts.forward, parts.inputs).plus(adapters(job, kernels, cut, tokens))
    part = 0.0 if model.moe is None else model.moe.layers / model.layers * use.moe_s
    launches = use.launch_s * (2.0 * late(cut.tensor) + 2.0 * late(cut.expert) + (cut.context - 1.0))
    single = 0.0 if fused_softmax(job, cut) else SINGLE
    multiplied = parts.forward - small.forward - core - functions
    forward = _launched(parts.forward + forward_comm, use.forward_s * (1 + single) + part + launches) - forward_comm
    device = parts.inputs + parts.weights
    back = _launched(device + backward_comm, use.backward_s * (1 + single) + 1.5 * part + launches) - backward_comm
    share = parts.inputs / device
    whole_again = forward + forward_comm
    if job.early_stop and model.moe is None:
        whole_again -= kernels.product(tokens, model.hidden, model.ffn / cut.tensor)
    return Pass(
        forward, back * share, back * (1 - share), forward_comm, backward_comm, whole_again, core, norm, functions, up,
        routed, shared, multiplied / 2,
    )  # fmt: skip


def head(job: Job, kernels: Kernels, cut: Slice) -> Parts:
    """The output head with the loss, cut along the vocabulary by the tensor group; gathered logits are each rank's."""
    model = job.model
    tokens, width = cut.micro_batch * job.sequence / cut.context, model.vocab / cut.tensor
    loss = kernels.stream(4.0 * tokens * (model.vocab if job.gathered else width) * kernels.use.loss / 2)
    forward = kernels.wide(tokens, width, model.hidden) + loss
    back = 0.0 if job.adapters else kernels.wide(width, model.hidden, tokens)
    return Parts(forward, kernels.wide(tokens, model.hidden, width) + loss, back)


def late(ranks: int) -> float:
    """By how many mean delays the last of `ranks` launches after the mean: a collective starts with it.

    The maximum of n exponential delays is 1 + 1/2 + … + 1/n of their mean.
    """
    return sum(1.0 / rank for rank in range(2, ranks + 1))


def _launched(device_s: float, host_s: float) -> float:
    """The larger of both, rounded where they are near: kernels queue only while the host is ahead."""
    return float((device_s**SMOOTH + host_s**SMOOTH) ** (1 / SMOOTH))


def builder(job: Job, use: Figures) -> tuple[Kernels, Network]:
    """Kernels and network of a job."""
    return Kernels(job.device, job.precision, job.attention, use), Network(job, use)
