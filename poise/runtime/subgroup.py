"""A process group of some of the ranks of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist


def subgroup(members: Sequence[int], among: dist.ProcessGroup, device: torch.device) -> dist.ProcessGroup | None:
    """The group of `members` (numbers of processes), None on others; all processes of `among` call it, in one order.

    torch names a group that only its members make by how many groups a process has: so all have as many before and
    behind.
    """
    here = dist.get_rank()
    most = torch.tensor(_count(), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX, group=among)
    while _count() < int(most):
        dist.new_group([here], use_local_synchronization=True)
    own = list(members) if here in members else [here]
    made: dist.ProcessGroup = dist.new_group(own, use_local_synchronization=True)
    return made if here in members else None


def _count() -> int:
    return len(dist.distributed_c10d._world.pg_names)
