"""Galvatron's programme beside the single ways to parallelise, each at the batch with most sequences a second."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poise.core.errors import ScenarioError
from poise.cost.training import Job
from poise.plan.training.layerwise import layerwise
from poise.plan.training.search import search
from poise.plan.training.space import Space

BATCHES = (8, 16, 32, 64, 128, 256)
"""Batches that are tried."""
PLAIN = Space(
    schedule=("one_f_one_b",), zero=(0, 3), zero_pipelined=(0,), recompute=("none",), counted=False, chunks=(1,)
)
"""No recomputation, as the paper's first version has none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Sequences a second: of the programme, of data, sharded data, tensor and pipeline ranks alone, of 3D parallelism
    that is the same for all layers, and of the fastest of all that is; 0 where nothing fits."""

    galvatron: float
    data: float
    sharded: float
    tensor: float
    pipeline: float
    hybrid: float

    def best(self) -> float:
        """The fastest of the others."""
        return max(self.data, self.sharded, self.tensor, self.pipeline, self.hybrid)

    def single(self) -> float:
        """The slowest single way that fits."""
        return min(each for each in (self.data, self.sharded, self.tensor, self.pipeline) if each > 0)


def compared(job: Job) -> Compared:
    """A job under every way; its batch is the best of `BATCHES` for each."""
    n = job.devices
    spaces = (
        replace(PLAIN, tensor=(1,), pipeline=(1,), zero=(0,)),
        replace(PLAIN, tensor=(1,), pipeline=(1,), zero=(3,)),
        replace(PLAIN, tensor=(n,), pipeline=(1,), zero=(0,)),
        replace(PLAIN, tensor=(1,), pipeline=(n,), zero=(0,)),
        replace(PLAIN, zero=(0,)),
    )
    jobs = [replace(job, batch=batch) for batch in BATCHES]
    programme = max(_rate(each, PLAIN, layers=True) for each in jobs)
    return Compared(programme, *(max(_rate(each, space) for each in jobs) for space in spaces))


def _rate(job: Job, space: Space, *, layers: bool = False) -> float:
    """Sequences a second of the fastest that fits; 0 where nothing does."""
    try:
        if layers:
            return job.batch / layerwise(job, space).seconds
        found = search(job, space, count=1)
    except ScenarioError:
        return 0.0
    return job.batch / found.best[0].seconds if found.best else 0.0
