"""llm-d's utilisation detector: hold all requests while the fleet is saturated by its engines' own metrics.

Code: llm-d inference scheduler, `utilization-detector` (2026). A replica is as full as the worse of its queue over
`queue_depth` and of its KV utilisation over `kv_utilisation`; the fleet is saturated while the mean of the able ones is
1 or more. `scope: replica` judges each replica by itself and admits to those that are not full.

Parameters: 5 requests and 0.8 are llm-d's. It differs in the use of old metrics: there a replica counts as full
when its metrics are older than 200 ms, which stalls the pool when scraping is slower than that. Here a measurement that
is older than `stale_s` (2 s, two default report periods) is ignored: the replica is as full as the requests in flight
there, which need no report, over `in_flight` (256, vLLM's `max_num_seqs`). A replica never measured is treated the
same way, so missing metrics never count as full or empty. Between two measurements what was sent counts as waiting.
Lent KV blocks count at the borrower: a replica that has lent all of them is not full, because it recalls them when it
gets a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Hold
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView


@dataclass(slots=True)
class Saturation:
    """Hold while engines are full.

    queue_depth, kv_utilisation: waiting requests and share of KV blocks in use at which a replica is full.
    stale_s: age in seconds beyond which a measurement is ignored.  in_flight: requests that then count as full.
    scope: `fleet` holds all on the mean, `replica` leaves out the full ones.
    """

    queue_depth: float = 5.0
    kv_utilisation: float = 0.8
    stale_s: float = 2.0
    in_flight: int = 256
    scope: str = "fleet"
    _woken: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.queue_depth, self.kv_utilisation, self.in_flight) <= 0 or self.stale_s < 0:
            raise ValueError("queue_depth, kv_utilisation and in_flight must be above 0, and stale_s not negative")
        if self.scope not in ("fleet", "replica"):
            raise ValueError(f"scope {self.scope!r} is unknown; give fleet or replica")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "waiting", "free_blocks")

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Hold:
        """All of them or none; with `scope: replica` those that are not full."""
        full = [self.fullness(replica, cluster) for replica in able]
        if self.scope == "fleet":
            free = able if sum(full) < len(full) else ()
        else:
            free = [replica for replica, each in zip(able, full, strict=True) if each < 1]
        return free or Hold("engines are saturated", self._wake(able, cluster))

    def fullness(self, replica: int, cluster: ClusterView) -> float:
        """How full a replica is, 1 where it is saturated."""
        measured_at, blocks = cluster.measured_at[replica], self._blocks(replica, cluster)
        if not measured_at or cluster.now - measured_at > ps(self.stale_s):
            return cluster.requests[replica] / self.in_flight
        used = 1 - cluster.free_blocks[replica] / blocks if blocks else 0.0
        return max(cluster.waiting[replica] / self.queue_depth, used / self.kv_utilisation)

    def _blocks(self, replica: int, cluster: ClusterView) -> int:
        """KV blocks of a replica, including borrowed and excluding lent ones."""
        blocks = cluster.total_blocks[replica]
        for (debtor, creditor), lent in cluster.loans.items():
            blocks += lent * ((debtor == replica) - (creditor == replica))
        return blocks

    def _wake(self, able: Sequence[int], cluster: ClusterView) -> int:
        """The time at which the next measurement expires, computed once."""
        age = ps(self.stale_s)
        fresh = [at for at in (cluster.measured_at[replica] for replica in able) if at and cluster.now - at <= age]
        wake = min(fresh, default=0) + age + 1 if fresh else 0
        if wake == self._woken:
            return 0
        self._woken = wake
        return wake
