"""Collectives of training by where their ranks lie: inside a server, between servers, or both."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from poise.core.spec import Device
from poise.cost.tables import SHIPPED, load_tables
from poise.cost.training.figures import Figures
from poise.cost.training.job import Job

Array = Any
"""A number or a numpy array of numbers."""

NEAR_S = 12e-6
"""Latency of an exchange or a message inside a server: NCCL's smallest on A100 and H100 (AIConfigurator database)."""
RING_S, RANK_S = 7e-6, 1.9e-6
"""Latency of half an all-reduce inside a server, and of each rank that its ring passes (NVIDIA/nccl,
src/graph/tuning.cc: rings over NVLink with LL128, which takes messages of up to some MB)."""
REACHED = 0.85
"""Part of a scale-up link's one-way figure that rings reach with large messages (the same)."""


class Network:
    """Groups of `ranks` that are `stride` apart in the numbering; servers hold consecutive ranks.

    A group with several ranks in a server uses as many of its NICs: a ring enters and leaves by each (NCCL's channels).
    """

    def __init__(self, job: Job, use: Figures) -> None:
        self.device, self.inside, self.use = job.device, job.inside, use
        self.near_bw = (job.device.scaleup_bw or job.device.host_bw or job.far_bw) * REACHED / use.near
        self.far_bw = job.far_bw or self.near_bw
        self.rails = job.rails or job.inside

    def local(self, ranks: Array, stride: Array) -> Array:
        """Ranks of a group that lie in one server."""
        return np.clip(np.minimum(ranks, self.inside // np.maximum(stride, 1)), 1, None)

    def scatter(self, moved: Array, ranks: Array, stride: Array) -> Array:
        """Reduce-scatter or all-gather of `moved` bytes: (n−1)/n of them pass the narrowest link of the ring."""
        local = self.local(ranks, stride)
        far = ranks > local
        bw = np.where(
            far, np.minimum(self.near_bw, np.minimum(local, self.rails) * self.far_bw * self.use.far), self.near_bw
        )
        hops = np.where(far, np.log2(np.maximum(ranks / local, 1)) * self.use.far_s, 0.0)
        near = (RING_S + RANK_S * (local - 1)) * self.use.near
        fixed = np.where(ranks > 1, near + hops, 0.0)
        return fixed + moved * (ranks - 1) / np.maximum(ranks, 1) / bw

    def reduce(self, moved: Array, ranks: Array, stride: Array) -> Array:
        """All-reduce of `moved` bytes: a reduce-scatter and an all-gather."""
        return 2.0 * self.scatter(moved, ranks, stride)

    def reduce_near(self, moved: float, ranks: int) -> float:
        """All-reduce of `moved` bytes by tensor ranks, which are neighbours: as NCCL's was measured in one server.

        Beyond a server, and on devices of other vendors, as `reduce`.
        """
        if ranks < 2 or ranks > self.inside or self.device.vendor != "NVIDIA":
            return float(self.reduce(moved, ranks, 1))
        return self.use.near * _measured(self.device, moved, ranks)

    def exchange(self, moved: Array, ranks: Array, stride: Array, copies: int, *, once: bool = True) -> Array:
        """All-to-all of `moved` bytes from each rank, `copies` of every token to as many ranks.

        once: a token crosses to each server, and to each rank in a server, once for all of its experts there: of s,
        s(1 − (1 − 1/s)^k) have any of k (DeepSeek-V3, arXiv 2412.19437, 3.2.2). Else each copy is sent.
        """
        local = self.local(ranks, stride)
        servers = np.maximum(ranks / local, 1)
        near, far = (local - 1) / np.maximum(ranks, 1), (servers - 1) / servers
        if once:
            near, far = near * _met(local, copies / servers), far * _met(servers, copies)
        reached = self.use.exchange
        seconds = moved * near / (self.near_bw * reached) + moved * far / (self.far_bw * reached)
        return np.where(ranks > 1, seconds + NEAR_S + np.where(servers > 1, self.use.far_s, 0.0), 0.0)

    def hop(self, moved: Array, stride: Array) -> Array:
        """A message to the rank `stride` further on."""
        far = np.asarray(stride) >= self.inside
        bw = np.where(far, self.far_bw, self.near_bw) * self.use.hop
        return moved / bw + np.where(far, self.use.far_s, NEAR_S)


def _met(groups: Array, copies: Array) -> Array:
    """Of `copies` drawn alike over `groups`, the part that is left where each group is met once."""
    copies = np.maximum(copies, 1e-9)
    return np.minimum(1.0, groups * (1 - (1 - 1 / groups) ** copies) / copies)


@lru_cache(maxsize=1 << 14)
def _measured(device: Device, moved: float, ranks: int) -> float:
    """Seconds of NCCL's all-reduce alone, by the shipped tables."""
    curve = load_tables(SHIPPED).curve("all_reduce", device, "bf16", "nccl")
    assert curve is not None, "shipped tables hold all-reduces"
    return curve.seconds(moved, ranks)
