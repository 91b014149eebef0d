"""Times, bytes and resharding of single layers under strategies, for Galvatron's programme.

Strategies are layouts of the same devices: tensor ranks, which may share sequences instead of weights (Ulysses),
context ranks, data ranks with ZeRO, and recomputation. Layers may differ, and embedding and head have a tensor degree
of their own. Galvatron's code takes 1.3 for how much slower compute and collectives run beside one another; here it is
the figure that the cost model is fitted with (`beside`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poise.core.model import Model
from poise.cost.training import Job, Layout
from poise.cost.training.activations import layer_activation
from poise.cost.training.columns import Columns, columns
from poise.cost.training.figures import Figures, figures
from poise.cost.training.layer import Slice, builder, head
from poise.cost.training.memory import LOGIT, weights
from poise.cost.training.network import Network
from poise.cost.training.step import Steps, evaluate
from poise.plan.training.galvatron import Floats

SHARDS = (2.0, 4.0, 12.0)
"""Bytes a weight of weights, gradients and states, by what ZeRO's stages shard last to first."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A layout of a layer. shared: its tensor ranks hold whole weights and a part of each sequence each, and exchange
    heads for tokens around attention (DeepSpeed-Ulysses, arXiv 2309.14509)."""

    layout: Layout
    shared: bool = False

    @property
    def ranks(self) -> Layout:
        """The layout that counts: sequences shared by tensor ranks are cut as those of context ranks are."""
        if not self.shared:
            return self.layout
        return replace(self.layout, tensor=1, context=self.layout.context * self.layout.tensor)


def strategies(
    job: Job, layouts: Sequence[Layout | Strategy], alive: int = 1, layers: Sequence[Model] = ()
) -> tuple[Floats, Floats, Floats]:
    """Times, bytes and resharding of each layer of a job under each of several strategies of the same devices.

    alive: microbatches whose activations its stage holds.  layers: a model for each layer, whose average layer it has
    (else all are as the job's).  A layer's time is its microbatch passes and what of the gradients' sum outlasts its
    last backward; resharding moves a boundary where the cut of tokens or hidden values changes.
    """
    given = [each if isinstance(each, Strategy) else Strategy(each) for each in layouts]
    models = layers or [job.model] * job.model.layers
    rows = {model: _rows(replace(job, model=model), given, alive) for model in dict.fromkeys(models)}
    time, held = (np.array([rows[model][at] for model in models]) for at in (0, 1))
    return time, held, _resharding(job, given)


def _rows(job: Job, given: Sequence[Strategy], alive: int) -> tuple[Floats, Floats]:
    """Seconds and bytes of one layer of a model under each strategy."""
    use = figures(job.host)
    cut = columns(job, [each.ranks for each in given])
    shared = np.array([each.shared for each in given])
    steps = evaluate(job, replace(cut, overlap=0 * cut.overlap), use, memory=False)
    quiet = evaluate(job, cut, replace(use, context=0.0), memory=False)
    passes = steps.parts["compute"] + np.where(
        shared, quiet.parts["exposed_in_layers"], steps.parts["exposed_in_layers"]
    )
    microbatches = job.batch / (cut.data * cut.micro_batch)
    each = passes / cut.most + np.where(shared, microbatches * _exchanged(job, given, use), 0.0)
    return each + _synced(steps, cut, microbatches, use), _held(job, cut, alive)


def _synced(steps: Steps, cut: Columns, microbatches: Floats, use: Figures) -> Floats:
    """Seconds by which summing a layer's gradients lengthens its last backward."""
    back = 2 / 3 * steps.parts["compute"] / cut.most / microbatches
    return overlapped(back, steps.parts["gradients"] / cut.most, 1 + use.beside) - back


def overlapped(compute: Floats, moved: Floats, slower: float) -> Floats:
    """Seconds of compute and a collective that begin together: while both run, each takes `slower` times as long.

    The collective of a layer with nothing to move takes nothing. It is never slower than one after the other.
    """
    both = slower * np.minimum(compute, moved) + np.abs(compute - moved)
    return np.asarray(np.minimum(both, compute + moved))


def _exchanged(job: Job, given: Sequence[Strategy], use: Figures) -> Floats:
    """Seconds of Ulysses' all-to-alls of a microbatch: queries, keys, values and outputs, there and back."""
    network, model, found = Network(job, use), job.model, []
    for each in given:
        ranks, layout = each.layout.tensor, each.layout
        tokens = layout.micro_batch * job.sequence / (ranks * layout.context)
        moved = 2.0 * tokens * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
        found.append(2.0 * float(network.exchange(moved, ranks, 1, 1, once=False)))
    return np.array(found)


def _held(job: Job, cut: Columns, alive: int) -> Floats:
    """Bytes of one layer: weights, gradients and states as they are sharded, and activations."""
    none = np.zeros(len(cut), bool)
    values = weights(job, cut, np.ones(len(cut)), none, none)
    size, group = values.plain + values.experts, cut.data * cut.context
    shards = [np.where(cut.zero >= stage, group, 1) for stage in (3, 2, 1)]
    held = sum(part * size / shard for part, shard in zip(SHARDS, shards, strict=True))
    return np.asarray(held + alive * layer_activation(job, cut))


def _resharding(job: Job, given: Sequence[Strategy]) -> Floats:
    """Seconds from each strategy to each: a gather of a boundary and its scatter, where the cut changes."""
    keys = [(each.layout.tensor, each.layout.context, each.shared) for each in given]
    moved = 2.0 * job.tokens / job.devices * job.model.hidden
    near = job.device.scaleup_bw or job.far_bw
    return np.array([[2.0 * moved / near if one != two else 0.0 for two in keys] for one in keys])


def ends(job: Job, layout: Layout, *, first: bool, last: bool) -> tuple[float, float]:
    """Seconds and bytes of embedding and head of a stage under a layout's tensor degree: Galvatron's `vtp`."""
    use = figures(job.host)
    kernels, network = builder(job, use)
    size = job.model.vocab * job.model.hidden / layout.tensor
    size *= 1 if job.model.tied and first and last else int(first) + int(last)
    group = layout.data * layout.context
    shards = [group if layout.zero >= stage else 1 for stage in (3, 2, 1)]
    held = sum(part * size / shard for part, shard in zip(SHARDS, shards, strict=True))
    seconds = 2 * float(network.scatter(layout.gradient_bytes * size, group, layout.tensor))
    if last:
        one = Slice(layout.tensor, layout.sequence_parallel, layout.context, 1, 1, layout.micro_batch)
        seconds += layout.microbatches(job) * sum(head(job, kernels, one))
        held += LOGIT * layout.micro_batch * job.sequence / layout.context * job.model.vocab / layout.tensor
    return seconds, float(held)
