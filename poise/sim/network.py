"""KV transfers between replicas: each replica has one link out and one in, used first come, first served."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.spec import Cluster, Pool
from poise.core.units import ps

FALLBACK_BW = 12.5e9
"""Bytes/s of a link where neither the cluster nor the datasheet says: 100 Gbit/s."""


def link_bw(cluster: Cluster, pool: Pool) -> float:
    """Bytes/s one way of the link of each replica of a pool."""
    device = pool.device
    own = (device.scaleout_bw or device.host_bw or device.scaleup_bw) * pool.devices
    return cluster.link_bw or own or FALLBACK_BW


class Network:
    """Links with bandwidth, latency and contention.

    bandwidth: bytes/s one way of each replica's link.  A transfer starts when the sender's link out and the receiver's
    link in are both free, runs at the slower of the two, and occupies both until its last byte has left; it arrives
    `latency_s` later.
    """

    def __init__(self, bandwidth: Sequence[float], latency_s: float) -> None:
        self.bandwidth = list(bandwidth)
        self.latency = ps(latency_s)
        self._out_free = [0] * len(self.bandwidth)
        self._in_free = [0] * len(self.bandwidth)

    @classmethod
    def of(cls, cluster: Cluster) -> Network:
        """The cluster's links: as stated, or the scale-out bandwidth of each replica's devices together."""
        rates = [link_bw(cluster, pool) for pool in cluster.pools for _ in range(pool.slots)]
        return cls(rates, cluster.link_latency_s)

    def send(self, now: int, source: int, target: int, size: int) -> tuple[int, int]:
        """Queue a transfer of `size` bytes; the instants at which it starts and at which it has arrived."""
        start = max(now, self._out_free[source], self._in_free[target])
        rate = min(self.bandwidth[source], self.bandwidth[target])
        done = start + ps(size / rate)
        self._out_free[source] = self._in_free[target] = done
        return start, done + self.latency
