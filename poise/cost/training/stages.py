"""Forward, input-gradient and weight-gradient seconds of every stage of a layout, for a schedule to run."""

from __future__ import annotations

from dataclasses import dataclass

from poise.cost.training.columns import columns, even_split
from poise.cost.training.figures import Figures, figures
from poise.cost.training.job import Job
from poise.cost.training.layer import Slice, builder, head
from poise.cost.training.layout import Layout, check
from poise.cost.training.step import evaluate


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds of each stage in order of depth, the head in the last; `hop`: of a message between two of them.

    head: of the head's passes.  split: layers of each stage.
    """

    forward: tuple[float, ...]
    inputs: tuple[float, ...]
    weights: tuple[float, ...]
    hop: float
    ranks: int
    head: tuple[float, float, float] = (0.0, 0.0, 0.0)
    split: tuple[int, ...] = ()

    @property
    def busiest(self) -> float:
        """Seconds of one microbatch on the rank with most work; stages go round the ranks."""
        work = [sum(each) for each in zip(self.forward, self.inputs, self.weights, strict=True)]
        return max(sum(work[rank :: self.ranks]) for rank in range(self.ranks))


def stages_of(job: Job, layout: Layout, use: Figures | None = None, *, gathers: bool = True) -> Stages:
    """The stages of a layout; recomputation comes before the input gradient, exposed collectives in each pass, and
    each forward and input gradient of a chunk takes what launching its messages does.

    Without `gathers` they do not wait for sharded weights.
    """
    check(job, layout)
    use = use or figures(job.host)
    found = evaluate(job, columns(job, [layout]), use, memory=False, gathers=gathers)
    f, b, w, hop = (float(each[0]) for each in found.passes)
    kernels, _ = builder(job, use)
    cut = Slice(
        layout.tensor, layout.sequence_parallel, layout.context, layout.expert, layout.expert_tensor, layout.micro_batch
    )
    top = head(job, kernels, cut)
    split = layout.split or even_split(job.model.layers, layout.stages)
    ends = [0.0] * (layout.stages - 1) + [1.0]
    fixed = use.chunk_s if layout.pipeline > 1 else 0.0
    return Stages(
        tuple(n * f + e * top.forward + fixed for n, e in zip(split, ends, strict=True)),
        tuple(n * b + e * top.inputs + fixed for n, e in zip(split, ends, strict=True)),
        tuple(n * w + e * top.weights for n, e in zip(split, ends, strict=True)),
        hop,
        layout.pipeline,
        (top.forward, top.inputs, top.weights),
        tuple(split),
    )
