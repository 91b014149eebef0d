"""`Policies`: one policy for each slot, with the recommended ones as defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.errors import PolicyError
from poise.core.policy import (
    Admission,
    Batcher,
    Cache,
    Forecaster,
    Hedger,
    Lender,
    Mover,
    Order,
    Predictor,
    Preempt,
    Queue,
    Recovery,
    Router,
    Scaler,
)
from poise.policies.batch.chunked import Chunked
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.route.cache_aware import CacheAware


@dataclass(frozen=True, slots=True)
class Policies:
    """What decides. router: which replica; mover: who changes it later (None: the router, if it can rebalance);
    lender: which replicas use KV blocks of others (None: none);
    order: whom the gateway sends first of those that it holds (None: first come, first served); admission: who may be
    sent, and where to, several narrowing one another; predictor: who foretells output tokens (None: nobody);
    hedge: who is sent to a second replica too (None: nobody); scaler: how many replicas there are (None: as many as at
    the start); forecast: how many requests will come, for the scaler (None: unsaid);
    recovery: what becomes of the requests of a replica that goes (None: as `Recompute`);
    queue: an engine's order of admission (None: first come, first served); batcher: what shares a step;
    preempt: who gives way; cache: how long KV stays pinned (None: LRU alone)."""

    router: Router = field(default_factory=CacheAware)
    mover: Mover | None = None
    lender: Lender | None = None
    order: Order | None = None
    admission: tuple[Admission, ...] = ()
    predictor: Predictor | None = None
    hedge: Hedger | None = None
    scaler: Scaler | None = None
    forecast: Forecaster | None = None
    recovery: Recovery | None = None
    queue: Queue | None = None
    batcher: Batcher = field(default_factory=Chunked)
    preempt: Preempt = field(default_factory=LastAdmitted)
    cache: Cache | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.admission, tuple):
            raise PolicyError(f"admission is {self.admission!r}; give a tuple of admissions, as in (Ceiling(64),)")
        if self.queue is not None and hasattr(self.preempt, "place"):
            raise PolicyError(
                f"{type(self.preempt).__name__} (preempt) orders the queue by its own priorities; leave queue out, not "
                f"{type(self.queue).__name__}"
            )
