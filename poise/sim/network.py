"""KV transfers between replicas: each replica has one link out and one in, used first come, first served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from poise.core.spec import Cluster, Fault, Pool
from poise.core.units import NEVER, SECOND, ps

FALLBACK_BW = 12.5e9
"""Bytes/s of a link where neither the cluster nor the datasheet says: 100 Gbit/s."""


def link_bw(cluster: Cluster, pool: Pool) -> float:
    """Bytes/s one way of the link of each replica of a pool."""
    device = pool.device
    sheet = (device.scaleout_bw or device.host_bw or device.scaleup_bw) * pool.devices
    return pool.link_bw or cluster.link_bw or sheet or FALLBACK_BW


class LinkSlowdown(NamedTuple):
    """A time in which a link carries `part` of its bandwidth, 0 for nothing."""

    since: int
    until: int
    part: float


def dips(faults: Iterable[Fault]) -> dict[int, list[LinkSlowdown]]:
    """Those of each replica's link."""
    found: dict[int, list[LinkSlowdown]] = {}
    for fault in faults:
        if fault.kind in ("link_slow", "link_lost"):
            since = ps(fault.at_s)
            until = since + ps(fault.for_s) if fault.for_s else NEVER
            part = 1 / fault.factor if fault.kind == "link_slow" else 0.0
            found.setdefault(fault.replica, []).append(LinkSlowdown(since, until, part))
    return found


class Network:
    """Links with bandwidth, latency and contention.

    bandwidth: bytes/s one way of each replica's link.  A transfer starts when the sender's link out and the receiver's
    link in are both free, runs at the slower of the two, and occupies both until its last byte has left; it arrives
    `latency_s` later.  dips: where a link is slow or carries nothing for a time, which stretches what is on it.
    """

    def __init__(
        self, bandwidth: Sequence[float], latency_s: float, dips: dict[int, list[LinkSlowdown]] | None = None
    ) -> None:
        self.bandwidth = list(bandwidth)
        self.latency = ps(latency_s)
        self._dips = dips or {}
        self._out_free = [0] * len(self.bandwidth)
        self._in_free = [0] * len(self.bandwidth)

    @classmethod
    def of(cls, cluster: Cluster) -> Network:
        """The cluster's links: as stated, or the scale-out bandwidth of each replica's devices together."""
        rates = [link_bw(cluster, pool) for pool in cluster.pools for _ in range(pool.slots)]
        return cls(rates, cluster.link_latency_s, dips(cluster.faults))

    def send(self, now: int, source: int, target: int, size: int) -> tuple[int, int]:
        """Queue a transfer of `size` bytes; the instants at which it starts and at which it has arrived."""
        start = max(now, self._out_free[source], self._in_free[target])
        rate = min(self.bandwidth[source], self.bandwidth[target])
        if self._dips and (source in self._dips or target in self._dips):
            start, done = self._stretched(start, source, target, size)
        else:
            done = start + ps(size / rate)
        self._out_free[source] = self._in_free[target] = done
        return start, done + self.latency

    def _stretched(self, start: int, source: int, target: int, size: int) -> tuple[int, int]:
        """The instants of a transfer through the dips of its two links; it starts when both carry something."""
        at, left, begun = start, float(size), -1
        while True:
            (out, first), (into, second) = self._rate(source, at), self._rate(target, at)
            rate, until = min(out, into), min(first, second)
            if rate:
                begun = at if begun < 0 else begun
                done = at + ps(left / rate)
                if done <= until:
                    return begun, done
                left = max(left - rate * ((until - at) / SECOND), 0.0)
            at = until

    def _rate(self, replica: int, at: int) -> tuple[float, int]:
        """Bytes/s of a replica's link at an instant, and until when that holds."""
        part, until = 1.0, NEVER
        for dip in self._dips.get(replica, ()):
            if dip.since <= at < dip.until:
                part, until = min(part, dip.part), min(until, dip.until)
            elif at < dip.since:
                until = min(until, dip.since)
        return self.bandwidth[replica] * part, until
