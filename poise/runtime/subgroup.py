"""Process groups of some of the ranks of a pipeline, kept for the pipelines that follow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

_MADE: dict[tuple[str, str, tuple[int, ...]], dist.ProcessGroup] = {}
"""By the group around it, lane and members. For processes outside: a group of their own."""


def subgroup(
    lane: str, members: Sequence[int], among: dist.ProcessGroup, device: torch.device
) -> dist.ProcessGroup | None:  # fmt: skip
    """The group of `members` (numbers of processes) for a lane, None on others.

    All processes of `among` call it, in one order. Later pipelines of these processes get the same group, as they share
    `among`: their steps follow each other, and torch keeps a thread for every group until the process ends.
    """
    key = (among.group_name, lane, tuple(members))
    made = _MADE.get(key)
    if made is None or made not in dist.distributed_c10d._world.pg_map:  # all groups have been destroyed since
        made = _MADE[key] = _make(members, among, device)
    return made if dist.get_rank() in members else None


def _make(members: Sequence[int], among: dist.ProcessGroup, device: torch.device) -> dist.ProcessGroup:
    """torch names a group that only its members make by how many groups a process has: so all have as many before and
    behind.
    """
    here = dist.get_rank()
    most = torch.tensor(_count(), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX, group=among)
    while _count() < int(most):
        dist.new_group([here], use_local_synchronization=True)
    own = list(members) if here in members else [here]
    made: dist.ProcessGroup = dist.new_group(own, use_local_synchronization=True)
    return made


def _count() -> int:
    return len(dist.distributed_c10d._world.pg_names)
