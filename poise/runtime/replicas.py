"""The Program of a pipeline that is one of several replicas: gradients are summed in buckets of their bytes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import torch
import torch.distributed as dist
from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline.schedule import Schedule
from poise.program import Program
from poise.program.passes.buckets import FIRST, MIB
from poise.program.passes.data_parallel import summed
from poise.program.passes.replicas import replica, replicated
from poise.runtime.ties import Ties
from poise.runtime.wire import Wire

Sizes = dict[str, float]
"""Bytes of gradients: of `w3` (stage 3), `out1` (shard 1 of the output layer), `tied0`; the same on all ranks."""


def in_replicas(program: Program, replicas: int, sizes: Sizes, bucket_mb: float = 25.0) -> Program:
    """What the first of `replicas` runs, as every other does with its own samples.

    Proven is the Program of two replicas: each further one adds its samples to the same sums. ScheduleError for buckets
    of less than 0 MiB.
    """
    if not bucket_mb >= 0:
        raise ScheduleError(f"bucket_mb: {bucket_mb:g}; give 0 (each stage's gradients alone) or more MiB")
    stages = [sizes[f"w{stage}"] for stage in range(sum(name.startswith("w") for name in sizes))]
    others = {name: each for name, each in sizes.items() if not name.startswith("w")}
    cap = bucket_mb * MIB
    one = summed(program, replicas, stages, others, cap, min(FIRST, cap))
    replicated(one, min(replicas, 2)).prove()
    return replica(one, 0, replicas)


def shared_sizes(
    schedule: Schedule, own: Mapping[int, nn.Module], output: nn.Linear | None, ties: Ties, wire: Wire
) -> Sizes:  # fmt: skip
    """The sizes of all ranks: a collective."""
    ranks = range(len(schedule.ranks))
    names = [f"w{stage}" for stage in range(schedule.stages)] + [f"out{rank}" for rank in ranks if schedule.barriers]
    names += [f"tied{number}" for number in range(len(ties.ties))]
    here = {f"w{stage}": size_of(module.parameters(), ties.all) for stage, module in own.items()}
    here |= {f"tied{number}": ties.bytes(number) for number in range(len(ties.ties))}
    if output is not None:
        here[f"out{wire.rank}"] = size_of(output.parameters())
    found = torch.tensor([here.get(name, 0.0) for name in names], dtype=torch.float64, device=wire.device)
    dist.all_reduce(found, dist.ReduceOp.MAX, group=wire.group)
    return dict(zip(names, found.tolist(), strict=True))


def size_of(weights: Iterable[nn.Parameter], skip: Container[int] = ()) -> float:
    """Bytes of their gradients, but for ids in `skip`; at least 1, so that all stages are summed alike."""
    own = (each for each in weights if each.requires_grad and id(each) not in skip)
    return max(1.0, float(sum(each.numel() * each.element_size() for each in own)))
