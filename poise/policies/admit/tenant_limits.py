"""Limits for each tenant: requests a minute, tokens a minute, and concurrent requests; excess requests are rejected.

Rule: token buckets, as of every public API. A bucket holds a minute's worth, fills steadily, and is checked when a
request arrives, before it queues: one request, and its prompt tokens (or a full bucket, for a prompt larger than that).
Output tokens are taken when the request ends and may leave the bucket below 0, so they need no prediction; the
tenant then waits until they are paid. `retry_after` is exact: an equal request is admitted then and not a picosecond
sooner, unless others of its tenant come first. Concurrent requests are those admitted and not ended; above that limit
the time of the next end is unknown, so `retry_after` is 0.

Parameters: each limit is 0 for none; `tenants` overrides limits of tenants by number; limits that it does not name
stay: `{3: {requests_per_minute: 600}}`. Requests without a tenant share one. Time is that of the events, so a
simulation and a gateway agree to the picosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poise.core.action import Reject
from poise.core.event import Cancelled, Event, Failed, Finished
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.core.view import ClusterView

_MINUTE: Final = 60 * SECOND
_NAMES: Final = ("requests_per_minute", "tokens_per_minute", "concurrency")


class Bucket:
    """rate: units a minute, and how many it holds. Its level is kept in units times picoseconds a minute: exactly."""

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: int, now: int) -> None:
        self.rate = rate
        self._at = now
        self._level = rate * _MINUTE

    def wait(self, units: int, now: int) -> int:
        """Picoseconds until the bucket has that many units, or is full if it never holds that many."""
        self._fill(now)
        return max(-((self._level - min(units, self.rate) * _MINUTE) // self.rate), 0)

    def take(self, units: int, now: int) -> None:
        """Take units out, even if that leaves it below 0."""
        self._fill(now)
        self._level -= units * _MINUTE

    def _fill(self, now: int) -> None:
        self._level = min(self._level + (now - self._at) * self.rate, self.rate * _MINUTE)
        self._at = now


@dataclass(slots=True)
class TenantLimits:
    """Reject requests over a limit of their tenant; 0 means unlimited. tenants: other limits by tenant."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrency: int = 0
    tenants: dict[int, dict[str, int]] | None = None
    _requests: dict[int, Bucket] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tokens: dict[int, Bucket] = field(default_factory=dict, init=False, repr=False, compare=False)
    _open: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _count: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        _check({name: getattr(self, name) for name in _NAMES}, "")
        for tenant, limits in (self.tenants or {}).items():
            if not isinstance(tenant, int) or not isinstance(limits, Mapping):
                raise ValueError(f"tenants: {tenant!r}: {limits!r} is no limit; give {{3: {{{_NAMES[0]}: 60}}}}")
            _check(limits, f"tenants: {tenant}: ")

    @property
    def needs(self) -> tuple[str, ...]:
        """It reads no column."""
        return ()

    def enter(self, request: RequestView, cluster: ClusterView) -> Reject | None:
        """Take from the tenant's buckets, or reject."""
        tenant = request.tenant
        most = self._limit(tenant, "concurrency")
        if most and self._count.get(tenant, 0) >= most:
            return Reject("over its tenant's requests at once")
        prices = list(self._prices(request, cluster.now))
        for bucket, units, what in prices:
            wait = bucket.wait(units, cluster.now)
            if wait:
                return Reject(f"over its tenant's {what} a minute", wait)
        for bucket, units, _ in prices:
            bucket.take(units, cluster.now)
        return None

    def entered(self, request: RequestView, cluster: ClusterView) -> None:
        """Take from the tenant's buckets for a request that another gateway admitted."""
        for bucket, units, _ in self._prices(request, cluster.now):
            bucket.take(units, cluster.now)

    def _prices(self, request: RequestView, now: int) -> Iterator[tuple[Bucket, int, str]]:
        """The limited buckets of its tenant, what it takes from each, and of what."""
        tenant = request.tenant
        requests = self._bucket(self._requests, tenant, "requests_per_minute", now)
        if requests is not None:
            yield requests, 1, "requests"
        tokens = self._bucket(self._tokens, tenant, "tokens_per_minute", now)
        if tokens is not None:
            yield tokens, request.prompt_tokens, "tokens"

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        """All able replicas: the limits act on arrival."""
        return able

    def joined(self, request: RequestView) -> None:
        """Count one more concurrent request of the tenant."""
        if request.id not in self._open:
            self._open[request.id] = request.tenant
            self._count[request.tenant] = self._count.get(request.tenant, 0) + 1

    def observe(self, event: Event) -> None:
        """Take the output of a request that ends."""
        if isinstance(event, Finished | Cancelled | Failed) and event.request in self._open:
            bucket = self._tokens.get(self._open[event.request])
            if bucket is not None:
                bucket.take(event.output_tokens, event.at)

    def ended(self, request: RequestView) -> None:
        """Count one concurrent request of the tenant less."""
        tenant = self._open.pop(request.id)
        self._count[tenant] -= 1

    def _limit(self, tenant: int, name: str) -> int:
        own = (self.tenants or {}).get(tenant, {})
        limit: int = own.get(name, getattr(self, name))
        return limit

    def _bucket(self, buckets: dict[int, Bucket], tenant: int, name: str, now: int) -> Bucket | None:
        """The tenant's bucket, created full; None without a limit."""
        bucket = buckets.get(tenant)
        if bucket is None:
            rate = self._limit(tenant, name)
            if rate:
                bucket = buckets[tenant] = Bucket(rate, now)
        return bucket


def _check(limits: Mapping[str, int], where: str) -> None:
    for name, limit in limits.items():
        if name not in _NAMES:
            raise ValueError(f"{where}unknown limit {name!r}; give {', '.join(_NAMES)}")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ValueError(f"{where}{name} {limit!r} is no limit; give a whole number, 0 for none")
