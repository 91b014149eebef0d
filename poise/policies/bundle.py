"""`Policies`: one policy for each slot, with the recommended ones as defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.policy import Batcher, Cache, Mover, Preempt, Queue, Router
from poise.policies.batch.chunked import Chunked
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.route.least_requests import LeastRequests


@dataclass(frozen=True, slots=True)
class Policies:
    """What decides. router: which replica; mover: who changes it later (None: the router, if it can rebalance);
    queue: order of admission (None: first come, first served); batcher: what shares a step; preempt: who gives way;
    cache: how long KV stays pinned (None: LRU alone)."""

    router: Router = field(default_factory=LeastRequests)
    mover: Mover | None = None
    queue: Queue | None = None
    batcher: Batcher = field(default_factory=Chunked)
    preempt: Preempt = field(default_factory=LastAdmitted)
    cache: Cache | None = None
