"""What a device of a layout sends beside its computations, layer by layer: messages, sums of gradients, gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from poise.cost.training.columns import Columns, columns
from poise.cost.training.figures import Figures, figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.memory import Weights, weights
from poise.cost.training.network import Network
from poise.cost.training.step import sums


class Moved(NamedTuple):
    """A transfer: its bytes before any algorithm, and seconds that it takes alone behind the `fixed` first ones."""

    bytes: float
    seconds: float
    fixed: float


class Transfers(NamedTuple):
    """Of one device. gradients, gathers: of each part of the model; none where one rank has the weights.

    far: whether messages, and collectives, pass between servers.  speeds: bytes/s one way of a device within its server
    and between servers.
    """

    message: Moved
    gradients: list[Moved]
    gathers: list[Moved]
    far: tuple[bool, bool]
    speeds: tuple[float, float]


def transfers_of(job: Job, layout: Layout, parts: Sequence[float], use: Figures | None = None) -> Transfers:
    """The transfers of a layout whose parts have so many layers each; embedding and head are in the first and last."""
    use = use or figures(job.host)
    network, cut = Network(job, use), columns(job, [layout])
    tensor, message_stride = layout.tensor, layout.tensor * layout.context * layout.data
    ranks = layout.data * layout.context
    moved = 2.0 * layout.micro_batch * job.sequence / layout.context * job.model.hidden / tensor
    fixed = float(network.hop(0.0, message_stride))
    message = Moved(moved, float(network.hop(moved, message_stride)) - fixed, fixed)
    far = message_stride >= network.inside, bool(ranks > network.local(ranks, tensor))
    gradients, gathers = _collectives(job, layout, cut, network, parts) if ranks > 1 else ([], [])
    return Transfers(message, gradients, gathers, far, (network.near_bw, network.far_bw))


def _collectives(
    job: Job, layout: Layout, cut: Columns, network: Network, parts: Sequence[float]
) -> tuple[list[Moved], list[Moved]]:
    """Sums of gradients, and gathers of weights, of each part."""
    if job.adapters:  # as good as nothing
        return [], []
    number = np.arange(len(parts))
    shared = job.model.tied and layout.pipeline == 1  # the head has the embedding's weights
    head = (number == len(parts) - 1) & (not shared)
    own = weights(job, cut, np.array(parts, dtype=float), number == 0, head)
    summed, gathered = sums(job, cut, network, own)
    first, again = (float(each[0]) for each in sums(job, cut, network, Weights(np.zeros(1), np.zeros(1))))
    size = job.summed_bytes or layout.gradient_bytes
    values = [float(each) for each in own.plain + own.experts]
    if layout.zero == 0:  # sums are made whole at once, by an all-reduce
        summed, first = summed + gathered, first + again
    gradients = [Moved(size * each, float(all_of) - first, first) for each, all_of in zip(values, summed, strict=True)]
    if layout.zero == 0:
        return gradients, []
    return gradients, [
        Moved(2.0 * each, float(all_of) - again, again) for each, all_of in zip(values, gathered, strict=True)
    ]
