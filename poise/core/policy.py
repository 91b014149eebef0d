"""The policy interfaces: one protocol of one method for each decision, and the bundle of all of them.

A policy is built from its parameters alone, may keep its own (deep-copyable) state, changed only in its own methods,
and reads nothing but the views it is given. One object may serve several slots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

from poise.core.action import Batch, Convert, Hold, Lend, Move, Reject, Route, Scale, Wake
from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.placement import Demand, Placement, Unit
from poise.core.request import RequestView
from poise.core.slot import SCENARIO, SLOTS, Side, called_by, check_policy
from poise.core.view import ClusterView, FleetView, LaneView, SequenceView


class Router(Protocol):
    """Which replica gets a request. `needs` names the columns of the cluster view that it reads."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold | Reject:
        """Decide for one request; `cluster.able(request)` is never empty."""
        ...


class Order(Protocol):
    """The order in which the gateway sends what it holds: requests queue in flows, and one flow goes first.

    `needs`, as a router's, may name columns. A class may have `observe(event)` as well, and two methods that track the
    waiting requests, with `taken`: `joined(request)`, when a request begins to wait for its turn (again, where it was
    sent and came back), and `ended(request)`, once for each that joined, however it ends: finished, failed, refused or
    given up.
    """

    def flow(self, request: RequestView) -> Hashable:
        """The flow that a request joins; called once, when it begins to wait."""
        ...

    def key(self, request: RequestView) -> Any:
        """Its place in that flow, the least first; called with the flow. Ties go by arrival, then id."""
        ...

    def order(self, flow: Hashable, cluster: ClusterView) -> Any:
        """Which of several flows goes first, the least; it may change from one decision to the next."""
        ...

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """A request of some flow is sent to `replica` now (before the view counts it)."""
        ...


class Admission(Protocol):
    """Whether a request may be sent now, and where to; called before the router.

    `needs`, as a router's, names the columns that it reads. A class may have `observe(event)`, and `joined`, `taken`
    and `ended` as an order has them. One with `enter(request, cluster) -> Reject | None` is called as well when a
    request arrives, once and before it queues, so that a refused request need not wait for it.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Hold | Reject:
        """The `able` replicas, in order, that it may be sent to now; none of them: hold it."""
        ...


class Predictor(Protocol):
    """How many output tokens a request will have, which other policies read as `RequestView.predicted_tokens`.

    Where a class has `reveal(truth)`, the simulator hands it a function from a request's id to its true output tokens.
    """

    def predict(self, request: RequestView, chance: Chance) -> int:
        """Output tokens, at least 1 (0: unknown); called once, when the request arrives."""
        ...

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """A request finished with this number of output tokens."""
        ...


class Mover(Protocol):
    """Which requests change their replica after they were sent. A router may have this method too.

    A class may set `eager = True` to be called after each arrival as well, not only after reports and wakes.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The moves to begin now, of requests that `cluster.flights` shows and that are not moving."""
        ...


class Lender(Protocol):
    """Which replicas use KV blocks of others. Called after reports and wakes."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    def lend(self, cluster: ClusterView) -> Sequence[Lend]:
        """The loans to make or to give back now; `cluster.loans` shows the current ones.

        A creditor grants what is free or evictable when it is asked, which may be less, and refuses while it borrows or
        requests wait there; who lends does not borrow.
        """
        ...


class Hedger(Protocol):
    """Which requests are sent to a second replica, because the first has given no first token for long.

    `needs`, as a router's, names the columns that it reads. A class may have `observe(event)`, and `taken` and `ended`
    as an order has them; neither is called for a copy.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        """Picoseconds after which `second` is called, if there is no first token by then; 0: never.

        Called when the request was sent, and again whenever `second` answered None.
        """
        ...

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        """One of the `able` replicas, to which a copy goes; None for none now. `replica` has the request."""
        ...


class Scaler(Protocol):
    """How many replicas each pool has, and which role each replica.

    `needs`, as a router's, names the columns that it reads, and a class may have `observe(event)`. One with `ahead_s`
    has `cluster.rate` predicted that far ahead; else for the longest start of a pool. One that answers with
    `Convert` names in `converts` the roles that it changes between.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    @property
    def period_s(self) -> float:
        """Seconds between two decisions, above 0."""
        ...

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale | Convert]:
        """The pools, and the serving replicas, that are to change.

        Beyond a pool's bounds counts as at them; what is so already changes nothing, nor does a role that would leave
        some request without a replica, or a pair, that serves it now.
        """
        ...


class Forecaster(Protocol):
    """How many requests will arrive, which the scaler reads as `FleetView.rate`.

    A class may have `observe(event)`. Where it has `reveal(truth)`, the simulator hands it a function from two instants
    to the number of requests that arrive from the first until before the second.
    """

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """Requests a second from `now` until `until`, picoseconds."""
        ...


class Recovery(Protocol):
    """What is done with the requests of a replica that will be lost.

    `needs`, as a router's, names the columns that it reads. Requests that are still there when it is lost are routed
    again in any case. A class may have `patience_s`: KV that has not arrived after these seconds on its way from one
    replica to another is given up; what was to be decoded with it is computed again where it should have arrived, and
    what was moving stays.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; a class attribute will do."""
        ...

    @property
    def resumes(self) -> bool:
        """Whether a lost request continues after the tokens that its client has, or starts again."""
        ...

    def recover(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """The moves to begin now, of requests that `cluster.flights(replica)` shows, which will be gone at `gone_at`.

        Called at the notice, after reports and wakes, and when a request there has its first token.
        """
        ...


class Queue(Protocol):
    """The order in which an engine admits waiting requests.

    A class may have `place(sequence)` as well, called instead: so the order can see which were preempted, or
    whose session has KV pinned. It is called each time that the request begins to wait. One with `charge` is a
    `FlowQueue`.
    """

    def queue(self, request: RequestView) -> Any:
        """A value to sort by, the least first; fixed while the request waits. Ties go by arrival, then id."""
        ...


class FlowQueue(Queue, Protocol):
    """A queue whose order follows what was served: requests queue in flows, and the flow of the least rank goes first.

    `charge` and `joined` are called when the set of requests that wait, run or compute a prompt has changed; ranks
    must change with these calls, and with `now`, alone.
    """

    def flow(self, request: RequestView) -> Hashable:
        """The flow that a request joins."""
        ...

    def rank(self, flow: Hashable, ahead: Sequence[RequestView], now: int) -> Any:
        """The place of a waiting flow, the least first, once the requests `ahead` of it are admitted as well.

        now: the instant up to which the flow was charged.
        """
        ...

    def joined(self, request: RequestView, waiting: Sequence[Hashable]) -> None:
        """A flow begins to wait, with this request; `waiting` are the others that do."""
        ...

    def charge(self, request: RequestView, prompt_tokens: int, output_tokens: int) -> None:
        """A number of tokens of a request's prompt were admitted (once), or of its output were made."""
        ...


class Batcher(Protocol):
    """Which work shares the next step of a lane.

    A class may set `decodes_alone = True`: where no prompt waits or is being computed it always answers with all
    decodes, held until something changes. It is then not even called, which saves most of the time.
    One that fills a token budget just as `policies.batch.chunked` does may set `budgeted = True` in its own body (a
    subclass does not inherit it), with `tokens`, the budget of a step (0: the engine's own), and `long_prefill`, the
    most of one prompt (0: no cap), both fixed. It is then called only where room may be short (`core/engine/plain.py`).
    One object serves all lanes of a replica. Where a class has `served(request, tokens, now)`, it is called for each
    request here that makes its first token (`tokens` is 1) or its last, at the instant `now`.
    One that keeps its own order of the waiting requests, and must not scan the whole queue in each step, has
    `waits(sequence, place)` and `waited(sequence)`: called for each request that begins to wait here and that no longer
    does. `place` sorts as the queue does, None where the queue's order is not fixed. If they are not called
    (`lane.queue()` is not empty and `waits` was never called), the batcher scans the queue itself.
    With `prompts_first = True` it is called before room is made for decodes, which is done once they take part; it may
    have `retracted(lane)`, called when requests were preempted for that. With `late_prefix = True` prompts find what
    others compute once that step is over, and cached prefixes are evicted node by node. One with `pairs = False` serves
    no pool that prefills or decodes alone.
    """

    def batch(self, lane: LaneView) -> Batch:
        """The next batch; an empty one lets the lane idle until something changes."""
        ...


class Victim(NamedTuple):
    """Which request to preempt, and whether its KV is swapped to host memory instead of dropped."""

    request: int
    swap: bool = False


class Swapping(NamedTuple):
    """How KV is copied to host memory and back.

    run_blocks: adjacent KV blocks, which one copy takes of each layer.  beside: copies run in parallel to the
    steps, which wait for one only where they need its blocks; otherwise they lengthen a step.  keeps: what came back is
    kept in host memory too while there is room, so that only what is new goes out the next time.
    """

    run_blocks: int = 1
    beside: bool = False
    keeps: bool = False


class Preempt(Protocol):
    """Which request is preempted when the KV cache is full.

    A class may have any of

    - `swapping`: what copies are like, a `Swapping`;
    - `review(lane) -> (victims, step)`: which are preempted between two steps although there is room, so that others
      run, and at which decode step of the lane it is called again; first called before the first;
    - `place(sequence)`, a queue's: then it orders the queue where no queue policy does, anew after each review.
    """

    def preempt(self, lane: LaneView) -> Victim:
        """One of the lane's running requests; called until the step fits."""
        ...


class IdleAdapter(NamedTuple):
    """An adapter on the device that no running request uses.

    load: picoseconds to bring it back from host memory.  uses: requests that were admitted with it so far.
    idle_at: when its last one left, picoseconds.
    """

    id: int
    load: int
    uses: int
    idle_at: int


RankExtent = Callable[[Any, int, int], Any]
"""`rank(sequence, extent, blocks)` of a cache policy."""


class Cache(Protocol):
    """How long the KV of a request that ended stays pinned.

    A pin is released when a request of its session is admitted; while one waits it does not expire. A class may have
    any of

    - `returned(request, now)`: called for each request that arrives at this replica, before it queues;
    - `admitted(sequence, now)`: called for each that begins to run here, not again after a preemption;
    - `gives_way(request)`: the place of its pin among those that go when room is needed, the least first, instead of
      the first to expire;
    - `rank(sequence, extent, blocks)`: the value of an extent that is no longer held (-1: blocks without identity),
      the least evicted first, instead of least recently used first; `sequence` held it last. Called once each time.
    - `evict_adapter(idle, now)`: the number of the adapter that leaves the device, one of the `IdleAdapter`s in `idle`;
      without it the first of them, the least recently used;
    - `reveal(truth)`: handed, by the simulator, a function from a request's id to the picoseconds from its end until
      the next request of its session arrives, -1 for none.
    """

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """Picoseconds for which the prefix of `request` must not be evicted; 0 leaves it to LRU."""
        ...


class Placer(Protocol):
    """How many of which units serve a demand; called by a planner, before anything runs."""

    def place(self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = ...) -> Placement:
        """The placement; `available` limits devices by name, those it does not name are without limit.

        CapacityError says why where there is none.
        """
        ...


class Cap(Protocol):
    """The clocks of a row's devices, by priority; called at every reading of the row's power."""

    def cap(self, power: float, now_s: float) -> tuple[float, float]:
        """Clocks of low and of high priority, as parts of the full one; `power` is a part of the row's budget."""
        ...


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """One policy for each slot of a scenario, as `slot.SLOTS` has them; None where the mechanism's own rule holds.

    Each is checked: it has its slot's method, and no method that is almost one (PolicyError). `poise.policies.Policies`
    is this with defaults, and with policies by name.
    """

    router: Router
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
    batcher: Batcher
    preempt: Preempt
    cache: Cache | None = None

    def __post_init__(self) -> None:
        for name in SCENARIO:
            for policy in self.of(name):
                check_policy(name, policy)
        if self.queue is not None and hasattr(self.preempt, "place"):
            raise PolicyError(
                f"{type(self.preempt).__name__} (preempt) orders the queue by its own priorities; leave queue out, not "
                f"{type(self.queue).__name__}"
            )

    def of(self, name: str) -> tuple[Any, ...]:
        """The policies of a slot: none, one, or where several may fill it all of them."""
        held = getattr(self, name)
        if SLOTS[name].several:
            if not isinstance(held, tuple):
                raise PolicyError(f"{name} is {held!r}; give a tuple of policies, as in (Ceiling(64),)")
            return held
        return () if held is None else (held,)

    def all(self) -> tuple[Any, ...]:
        """All of its policies, slot by slot."""
        return tuple(policy for name in SCENARIO for policy in self.of(name))

    def copies(self, side: Side) -> dict[str, Any]:
        """What the slots of one side hold, by slot: copies, of which one object in several slots has one."""
        return copy.deepcopy({name: getattr(self, name) for name in called_by(side) if name in SCENARIO})

    def for_engine(self) -> Self:
        """The same with copies of the engine's policies, because each engine has its own."""
        return replace(self, **self.copies("engine"))
