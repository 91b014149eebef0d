"""The step of a job whose weights, gradients and states are sharded over groups of their own, and the best groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, Prediction
from poise.cost.training.columns import columns
from poise.cost.training.figures import Figures, figures
from poise.cost.training.memory import weights
from poise.cost.training.network import Network
from poise.cost.training.step import evaluate, prediction
from poise.plan.training.frontier import Sharding, three_level, zero_3, zero_pp
from poise.plan.training.search import search
from poise.plan.training.space import Space, divisors

TRIED = 6
"""Best layouts with weights sharded over all ranks whose groups are chosen."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A layout with the groups over which each is sharded; `whole_s`: its step with all sharded over all ranks."""

    layout: Layout
    sharding: Sharding
    seconds: float
    memory: float
    whole_s: float

    def line(self) -> str:
        """The plan in a sentence, with what runs it."""
        cut = self.sharding
        return (
            f"Sharding in levels, {self.layout.label()}: weights over {_ranks(cut.weights)}, gradients over "
            f"{_ranks(cut.gradients)}, states over {_ranks(cut.states)}: {self.seconds:.3f} s a step, "
            f"{self.memory / 2**30:.1f} GiB, {self.whole_s:.3f} s with all over {cut.states}; {_runs(cut)}"
        )


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"


def _runs(cut: Sharding) -> str:
    """What runs such groups."""
    if cut.gradients == cut.states:
        usual = {1: "2", cut.states: "3"}.get(cut.weights)
        if usual:
            return f"this is ZeRO-{usual}"
        return f"DeepSpeed states it as zero_hpz_partition_size {cut.weights}"
    return "no trainer's settings state it, and `poise train run` shards over all ranks or none"


def levelled(job: Job, space: Space, pair_bw: float = 0.0) -> Levels:
    """The fastest groups that fit, of the best layouts without a pipeline; ScenarioError where none fits."""
    plain = replace(space, pipeline=(1,), zero=(3,), expert=(1,), check=None)
    found = search(job, plain, count=TRIED)
    tried = [
        Levels(base.layout, cut, each.seconds, each.memory, base.seconds)
        for base in found.best
        for cut in groups(base.layout, job)
        if (each := sharded(job, base.layout, cut, pair_bw)).safe(job)
    ]
    if not tried:
        raise ScenarioError(
            f"--levels: no layout of {job.devices} {job.device.name} without a pipeline fits; take more devices"
        )
    return min(tried, key=lambda each: (each.seconds, each.memory))


def groups(layout: Layout, job: Job) -> Iterator[Sharding]:
    """Nested groups: weights over some ranks, gradients over as many or more, states over all."""
    ranks, size = layout.data * layout.context, float(layout.gradient_bytes)
    for gradients in divisors(ranks):
        yield from (Sharding(own, gradients, ranks, 2.0, size) for own in divisors(gradients))


def stepped(job: Job, layout: Layout, way: str, pair_bw: float = 0.0) -> Prediction:
    """The step under `zero 3`, `zero++` or `three levels`, with 8-bit gathers and 4-bit scatters in the latter two."""
    ranks, inside = layout.data * layout.context, job.inside
    ways = {"zero 3": zero_3(ranks), "zero++": zero_pp(ranks, inside), "three levels": three_level(ranks, inside)}
    return sharded(job, layout, ways[way], pair_bw)


def sharded(job: Job, layout: Layout, cut: Sharding, pair_bw: float = 0.0) -> Prediction:
    """The step of a layout with `zero` 3 and no pipeline under other groups.

    Gathers and scatters cross the links of their own groups, behind compute as those of ZeRO-3 are; gradients that are
    not sharded over all ranks are summed over the others once a step, and states' owners send new weights.
    pair_bw: bytes/s one way between two neighbours (0: as inside the server).
    """
    use = figures(job.host)
    rows = [replace(layout, zero=zero) for zero in (3, 1)]
    steps = evaluate(job, columns(job, rows), use)
    found = prediction(job, rows[0], steps, 0)
    f, b, w, _ = ([float(row) for row in each] for each in steps.passes)
    plain, moved = _moved(job, rows[0], cut, use, pair_bw)
    waits = [_wait(use, moved[0], f[1]), _wait(use, moved[0] + moved[1], b[1] + w[0])]
    longer = waits[0] + waits[1] - (f[0] - f[1]) - (b[0] - b[1])
    after = _after(job, rows[0], cut, use, pair_bw)
    seconds = found.seconds + layout.microbatches(job) * job.model.layers * longer + after
    held = _held(found, cut, plain)
    return replace(found.lasting(seconds), memory=found.memory + (1 + use.fragment) * held)


def _wait(use: Figures, moved: float, compute: float) -> float:
    """Seconds by which a layer's pass is longer, as for ZeRO-3 (`poise.cost.training.step`)."""
    hidden = min(moved, use.gather * compute)
    return moved - hidden + use.beside * hidden


def _moved(job: Job, layout: Layout, cut: Sharding, use: Figures, pair_bw: float) -> tuple[int, tuple[float, float]]:
    """Ranks over which ZeRO-3 shards, and seconds to gather a layer's weights and to scatter its gradients."""
    size = _size(job, layout, 1.0, ends=False)
    gathered = _collective(job, use, cut.weight_bytes * size, cut.weights, layout.tensor, pair_bw)
    scattered = _collective(job, use, cut.gradient_bytes * size, cut.gradients, layout.tensor, pair_bw)
    return layout.data * layout.context, (gathered, scattered)


def _after(job: Job, layout: Layout, cut: Sharding, use: Figures, pair_bw: float) -> float:
    """Seconds of what is moved once a step: sums over groups of gradients, and new weights."""
    size = _size(job, layout, float(job.model.layers), ends=True)
    across, copies = cut.states // cut.gradients, cut.states // cut.weights
    summed = cut.gradient_bytes * size / cut.gradients
    renewed = cut.weight_bytes * size / cut.weights
    first = _collective(job, use, summed, across, layout.tensor * cut.gradients, pair_bw)
    return first + _collective(job, use, renewed, copies, layout.tensor * cut.weights, pair_bw)


def _size(job: Job, layout: Layout, layers: float, *, ends: bool) -> float:
    """Weights of so many layers on a rank before sharding, with embedding and head or without."""
    one = columns(job, [layout])
    flag = one.first == (one.first if ends else -1)
    own = weights(job, one, one.first * 0 + layers, flag, flag)
    return float((own.plain + own.experts)[0])


def _collective(job: Job, use: Figures, moved: float, ranks: int, stride: int, pair_bw: float) -> float:
    """Seconds of a gather or a scatter; of two neighbours over their own link, where it is given."""
    near = replace(job, device=replace(job.device, scaleup_bw=pair_bw)) if pair_bw and ranks * stride <= 2 else job
    return float(Network(near, use).scatter(moved, ranks, stride))


def _held(found: Prediction, cut: Sharding, ranks: int) -> float:
    """Bytes more than with all over all ranks."""
    each: Sequence[tuple[str, int]] = (
        ("weights", cut.weights),
        ("gradients", cut.gradients),
        ("optimizer", cut.states),
    )
    return sum(found.classes[name] * (ranks / own - 1) for name, own in each)
