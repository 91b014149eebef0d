"""A process group of some of the ranks of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist


def subgroup(members: Sequence[int], among: dist.ProcessGroup, device: torch.device) -> dist.ProcessGroup | None:
    """The group of `members` (numbers of processes), None on others; all processes of `among` call it, in one order.

    torch names a group that only its members make by how many groups a process has: so all make as many first.
    """
    here = dist.get_rank()
    most = torch.tensor(_count(), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX, group=among)
    while _count() < int(most):
        dist.new_group([here], use_local_synchronization=True)
    if here not in members:
        return None
    made: dist.ProcessGroup = dist.new_group(list(members), use_local_synchronization=True)
    return made


def _count() -> int:
    return len(dist.distributed_c10d._world.pg_names)
