"""The process groups of a rank of a training run, and its device."""

from __future__ import annotations

import torch
import torch.distributed as dist

from poise.runtime.guard import Guard
from poise.runtime.job import Job
from poise.runtime.tensor import TensorPeers

Groups = tuple[dist.ProcessGroup | None, dist.ProcessGroup | None, TensorPeers | None]


def groups_of(job: Job, number: int, guard: Guard) -> Groups:
    """The ranks of this pipeline, those of the same place in all pipelines, and those that share its stages.

    None where there is but one. Processes are numbered by replica, then rank, then part.
    """
    tensor, ranks = job.tensor, len(job.schedule.ranks)
    size = ranks * tensor
    if job.processes == ranks:
        return None, None, None
    place, part = number % size, number % tensor
    begin = number - place
    pipeline = _group(range(begin + part, begin + size, tensor))
    side = _group(range(place, job.processes, size)) if job.replicas > 1 else None
    first = number - part
    beside = TensorPeers(_group(range(first, first + tensor)), guard) if tensor > 1 else None
    return pipeline, side, beside


def device_here() -> torch.device:
    """This process's GPU where messages can go by nccl, else the CPU."""
    if not torch.cuda.is_available() or "nccl" not in str(dist.get_backend_config()):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def _group(ranks: range) -> dist.ProcessGroup:
    found: dist.ProcessGroup = dist.new_group(list(ranks), use_local_synchronization=True)
    return found
