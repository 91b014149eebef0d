"""Random small worlds: every mechanism of the simulator at once, on a coarse clock that provokes ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from hypothesis import strategies as st

from poise.core.action import Convert, Lend, Move, Scale
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.control.prefix_index import PrefixIndex
from poise.core.engine.replica import Replica
from poise.core.model import Model
from poise.core.policy import IdleAdapter
from poise.core.records.records import Run
from poise.core.spec import Belief, Cluster, Device, Engine, Fault, Lane, Pool, ReplicaSpec, Role, Startup
from poise.core.view import ClusterView, FleetView
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.early_reject import EarlyReject
from poise.policies.admit.saturation import Saturation
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.batch.chunked import Chunked
from poise.policies.hedge.tail import Tail
from poise.policies.move.central_search import CentralSearch
from poise.policies.move.negotiation import Negotiation
from poise.policies.order.deficit_longest_prefix import DeficitLongestPrefix
from poise.policies.order.deficit_round_robin import DeficitRoundRobin
from poise.policies.order.edf import Edf
from poise.policies.order.shortest_predicted import ShortestPredicted
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.order.weighted_round_robin import WeightedRoundRobin
from poise.policies.predict.constant import Constant
from poise.policies.predict.history import History
from poise.policies.preempt.fast_switch import FastSwitch
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.queue.priority import Priority
from poise.policies.queue.saga import Saga as FairPrograms
from poise.policies.queue.virtual_token_counter import VirtualTokenCounter as FairQueue
from poise.policies.recover.migrate import Migrate
from poise.policies.recover.recompute import Recompute
from poise.policies.recover.restart import Restart
from poise.policies.route.bounded_hash import BoundedHash
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.dualmap import DualMap
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.llumnix import Llumnix
from poise.policies.route.min_ttft import MinTtft
from poise.policies.route.pd_pair import PdPair
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.preble import Preble
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.pull import Pull
from poise.policies.route.random_choice import RandomChoice
from poise.policies.route.round_robin import RoundRobin
from poise.policies.route.session_affinity import SessionAffinity
from poise.scenario.scaling import pool_specs
from poise.sim.terms import Saving, Stopping, Watching
from poise.sim.world import World
from poise.testing.cost import LinearAdapters, LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Prefixes, Workload
from tests.core.scripted import Hasty

LAYERS = 4
ROLES: tuple[Role, ...] = ("mixed", "prefill", "decode")
MODEL = Model("tiny", LAYERS, 64, 4, 4, 16, 100, 64, 100_000)
DEVICE = Device("toy", "none", 1e12, 10**9, 1e12, scaleout_bw=1e6)


def eager_cache_aware() -> CacheAware:
    """A tree so small and bounds so tight that small worlds meet them."""
    return CacheAware(0.1, 1, 1.0, 1e-6, 40)


def eager_preble() -> Preble:
    """A window so short, caches so small and no warm-up, so that small worlds meet every rule."""
    return Preble(window_s=0.5, balance=1.0, warmup=0, decode_cost=2.0, decode_ratio=1.5, cache_tokens=60)


def eager_min_ttft(ttft_s: float = 5e-5) -> MinTtft:
    """Turns away who would wait for more than a few steps, and expects longer prefixes to be fetched."""
    return MinTtft(reject=True, ttft_s=ttft_s, balancing=2.0)


def eager_dualmap() -> DualMap:
    """An SLO of few steps, keys of a block or two and a short window, so that small worlds see moves and hot keys."""
    return DualMap(ttft_s=5e-6, key_tokens=4, window=9)


def eager_pull(ttft_s: float = 5e-5) -> Pull:
    """Slots for two, queues by prefix, and a deadline that some miss."""
    return Pull(2, ttft_s, "prefix")


ROUTERS: tuple[Callable[[], Any], ...] = (
    RoundRobin,
    LeastRequests,
    LeastTokens,
    PrefixCache,
    Llumnix,
    RandomChoice,
    PowerOfTwo,
    BoundedHash,
    SessionAffinity,
    CacheAware,
    eager_cache_aware,
    Preble,
    eager_preble,
    MinTtft,
    DualMap,
    eager_dualmap,
    Pull,
    PdPair,
)
NONE: Callable[[], Any] = type(None)
ORDERS: tuple[Callable[[], Any], ...] = (
    *(NONE,) * 4,
    Edf,
    ShortestPredicted,
    WeightedRoundRobin,
    VirtualTokenCounter,
    partial(VirtualTokenCounter, uncached=True),
    partial(DeficitLongestPrefix, 20.0),
    partial(DeficitRoundRobin, 20.0),
)


FAIR: tuple[Callable[[], Any], ...] = (
    *(NONE,) * 3,
    FairQueue,
    partial(FairQueue, weights={1: 3.0}),
    partial(FairPrograms, 60.0, 1e-7),
)
"""Queues of an engine that follow what was served; else it goes by priority, or by arrival."""


def unlimited(unit: float) -> tuple[Any, ...]:
    """Everybody is admitted."""
    return ()


def few(unit: float) -> tuple[Any, ...]:
    """Two requests at a replica."""
    return (Ceiling(2),)


def fewer_of_each(unit: float) -> tuple[Any, ...]:
    """Four requests or 60 tokens at a replica, six of a tenant."""
    return (Ceiling(4, 60), TenantLimits(concurrency=6))


def unsaturated(unit: float) -> tuple[Any, ...]:
    """Replicas with little to do by their own word, which soon is old."""
    return (Saturation(1.0, 0.7, 100 * unit, 3, "replica"),)


def in_time(unit: float) -> tuple[Any, ...]:
    """Who will be in time, while half of the KV cache is free."""
    return (EarlyReject(1000 * unit), Ceiling(0, kv_share=0.5))


ADMISSIONS: tuple[Callable[[float], tuple[Any, ...]], ...] = (
    *(unlimited,) * 4, few, fewer_of_each, unsaturated, in_time,
)  # fmt: skip
"""In ticks of so many seconds: on a clock of 10 ms, one that looks again each microsecond would never end."""

PREDICTORS: tuple[Callable[[], Any], ...] = (*(NONE,) * 2, History, partial(Constant, 9))
"""What stands before and beside the router; nothing for about half of the worlds."""

REJECTING: tuple[Callable[[], Any], ...] = (eager_min_ttft, eager_pull)
"""Those that turn requests away: for the random worlds alone, the other proofs want everybody served."""

ALONE = (Lane(),)
PREFILL_FIRST = (Lane("p", True, False, 0.5), Lane("d", False, True, 0.5))
DECODE_FIRST = (Lane("d", False, True, 0.5), Lane("p", True, False, 0.5))
OVERLAPPING = (Lane("p", True, False, 1.0), Lane("d", False, True, 0.8, borrows=True))


class Restless:
    """Move every so many of the requests in flight somewhere else at every occasion, up to nine times each.

    Who is moved at every report, and reports come oftener than steps end, would never get anywhere.
    """

    needs = ("flights",)

    def __init__(self, every: int, eager: bool) -> None:
        self.every = every
        self.eager = eager
        self.moved: dict[int, int] = {}

    def move(self, cluster: ClusterView) -> list[Move]:
        moves = []
        for replica in range(len(cluster.total_blocks)):
            for flight in cluster.flights(replica):
                request = flight.request
                peers = cluster.peers(request, replica)
                lot = (cluster.now // 100 + request.id) % (self.every * 7)
                if flight.target < 0 and peers and lot % self.every == 0 and self.moved.get(request.id, 0) < 9:
                    self.moved[request.id] = self.moved.get(request.id, 0) + 1
                    moves.append(Move(request.id, replica, peers[lot % len(peers)]))
        return moves


MOVERS: tuple[Callable[[], Any], ...] = (
    *(type(None),) * 6,
    *(partial(Restless, every, eager) for every in (1, 3) for eager in (False, True)),
    partial(CentralSearch, 2, 0.0, 0.0, 4, 1e-9),
    partial(Negotiation, 2, 0.0, 0.0, 0.0, 4, 1e-9),
)
"""None half of the time: what moves keeps the other mechanisms from meeting."""


class Restive:
    """Lend some blocks between two replicas, or call some back, at every so many occasions; so many loans in all.

    Were there no end to them, who lends could be kept from ever computing a prompt.
    """

    needs = ("free_blocks",)

    def __init__(self, every: int, most: int = 12) -> None:
        self.every = every
        self.left = most

    def lend(self, cluster: ClusterView) -> list[Lend]:
        lot, replicas = cluster.now // 100, len(cluster.total_blocks)
        if lot % self.every or replicas < 2 or not self.left:
            return []
        self.left -= 1
        actions = [Lend(*pair, -1 - lot % blocks) for pair, blocks in cluster.loans.items() if lot % 5 == 0]
        debtor = lot // 7 % replicas
        creditor = (debtor + 1 + lot // 3 % (replicas - 1)) % replicas
        return [*actions, Lend(debtor, creditor, 1 + lot % max(cluster.total_blocks))]


LENDERS: tuple[Callable[[], Any], ...] = (*(type(None),) * 4, partial(Restive, 1), partial(Restive, 3))
"""Nobody lends in two of three."""


def default_recovery(unit: float) -> None:
    """Nobody decides."""


def moved(unit: float) -> Migrate:
    """Moved as soon as it is told."""
    return Migrate()


def moved_late(unit: float) -> Migrate:
    """Moved so many ticks before the end."""
    return Migrate(20 * unit)


def computed_again(unit: float) -> Recompute:
    """Computed elsewhere what is lost."""
    return Recompute()


def impatient(unit: float) -> Recompute:
    """The same, of KV too that is not there after some ticks."""
    return Recompute(5 * unit)


def moved_impatiently(unit: float) -> Migrate:
    """Moved, and given up after some ticks."""
    return Migrate(patience_s=10 * unit)


def from_the_start(unit: float) -> Restart:
    """Begun anew."""
    return Restart()


RECOVERIES: tuple[Callable[[float], Any], ...] = (
    default_recovery, moved, moved, moved_late, computed_again, impatient, moved_impatiently, from_the_start,
)  # fmt: skip
"""Who moves begins as soon as it is told, or so many ticks before the end."""


def eager_tail() -> Tail:
    """Learns from one first token, with no thrift."""
    return Tail(quantile=0.5, share=1.0, cancel_tokens=0, window=5, least=1)


class Fickle:
    """Another size for every pool at every beat, each of none to three; so replicas come and go all the time.

    converts: every third of those that serve takes another role besides.
    """

    def __init__(self, period_s: float, converts: bool = False) -> None:
        self.period_s = period_s
        self.converts = converts

    needs = ("requests", "waiting")

    def scale(self, cluster: FleetView, chance: Chance) -> list[Scale | Convert]:
        sizes: list[Scale | Convert] = [
            Scale(number, int(4 * chance.draw(f"size {number}")), int(3 * chance.draw(f"warm {number}")))
            for number in range(len(cluster.pools))
        ]
        if not self.converts:
            return sizes
        return sizes + [
            Convert(each, chance.pick(ROLES, f"role {each}"))
            for pool in cluster.pools
            for each in pool.serving
            if chance.draw(f"turn {each}") < 1 / 3
        ]


class KeepSessions:
    """Pin the KV of every session for a fixed time."""

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl

    def cache(self, request: Any, sequence: Any, lane: Any) -> int:
        return self.ttl if request.session >= 0 else 0


class RankSessions(KeepSessions):
    """Pins that give way by session, and evictions in an order of their own that hangs on who came back."""

    def __init__(self, ttl: int) -> None:
        super().__init__(ttl)
        self.came = 0

    def returned(self, request: Any, now: int) -> None:
        self.came += 1 + now % 3

    def gives_way(self, request: Any) -> int:
        return -request.session % 3

    def rank(self, sequence: Any, extent: int, blocks: int) -> int:
        return (extent + sequence.request.session * self.came + blocks) % 5


class PickyCache(KeepSessions):
    """Adapters that leave the device in an order that hangs on all that is shown of them."""

    def evict_adapter(self, idle: list[IdleAdapter], now: int) -> int:
        return max(idle, key=lambda each: ((each.uses * 3 + (now - each.idle_at) // 100) % 5, -each.load)).id


class PinnedFirst:
    """Who gave way, then whose KV is pinned, then by priority."""

    def queue(self, request: Any) -> int:
        return 0

    def place(self, sequence: Any) -> tuple[bool, bool, int]:
        return not sequence.preemptions, not sequence.pinned, sequence.request.priority


@dataclass
class Case:
    """Everything that a world is built from; `build` makes a fresh one each time."""

    seed: int
    workload: Workload
    engine: Engine
    cost: LinearCost
    blocks: int
    roles: list[str]
    cluster: Cluster
    router: Callable[[], Any]
    belief: Belief
    ttl: int
    swap: bool
    ordered: bool
    until_s: float | None
    drain: bool
    resume: bool
    long_prefill: int
    mover: Callable[[], Any]
    last_blocks: int = 16
    ranked: bool = False
    order: Callable[[], Any] = NONE
    admission: Callable[[], Any] = tuple
    predictor: Callable[[], Any] = NONE
    hedge: Callable[[], Any] = NONE
    scaler: Callable[[], Any] = NONE
    recovery: Callable[[], Any] = NONE
    lender: Callable[[], Any] = NONE
    batcher: Callable[[], Any] | None = None
    fair: Callable[[], Any] = NONE
    churn: Callable[[], Any] | None = None
    adapters: LinearAdapters | None = None
    picky: bool = False

    def build(self, *, one_step: bool, check: bool = True, **options: Any) -> World:
        """A world of this case; `one_step` is the slow reference."""
        limit = self.blocks * self.engine.block_tokens
        absent, returning = self.cluster.absent | self._spare(), self.cluster.returning

        def renew(number: int) -> Replica:
            return Replica(
                self.engine,
                self.cost,
                self.blocks,
                Policies(
                    batcher=self.batcher() if self.batcher else Chunked(long_prefill=self.long_prefill),
                    preempt=self.churn() if self.churn else LastAdmitted(self.swap),
                    queue=None  # who churns orders the queue as well
                    if self.churn
                    else self.fair() or ((PinnedFirst() if self.ranked else Priority()) if self.ordered else None),
                    cache=self._cache(),
                ),
                layers=LAYERS,
                sends=self.roles[number] == "prefill",
                one_step=one_step,
                adapters=self.adapters,
            )

        replicas = [renew(number) for number in range(len(self.roles))]
        budget = self.engine.token_budget
        spec = ReplicaSpec(
            capacity_tokens=limit, cache_tokens=limit, blocks=self.blocks,
            prefill_rate=budget / (self.cost.step_s + budget * self.cost.prompt_s),
            kv_token_bytes=self.cost.token_bytes,
        )  # fmt: skip
        specs = [
            spec._replace(
                role=role,
                up=number not in absent,
                pool=self.cluster.pool_of(number),
                returns=number in returning,
                link_bw=self.cluster.pools[self.cluster.pool_of(number)].link_bw or self.cluster.link_bw,
            )
            for number, role in enumerate(self.roles)
        ]
        index = PrefixIndex(len(specs)) if self.belief.prefix == "oracle" else None
        controls = [
            Control(
                Policies(
                    router=self.router(),
                    mover=self.mover(),
                    lender=self.lender(),
                    order=self.order(),
                    admission=self.admission(),
                    predictor=self.predictor(),
                    hedge=self.hedge(),
                    scaler=self.scaler(),
                    recovery=self.recovery(),
                ),
                specs,
                pools=pool_specs(self.cluster),
                belief=self.belief,
                seed=self.seed,
                resume=self.resume,
                index=index,
            )
            for _ in range(self.belief.gateways)
        ]
        hook = check_world if check else None
        world = World(
            self.cluster,
            self.workload,
            controls,
            replicas,
            [limit] * len(self.roles),
            renew=renew,
            saving=Saving(**options),
            stopping=Stopping(until_s=self.until_s, drain=self.drain or self.until_s is None, enough=_ends()),
            watching=Watching(after_event=hook),
        )
        world.transfers.last_blocks = self.last_blocks
        return world

    def _cache(self) -> Any:
        if self.picky:
            return PickyCache(self.ttl)
        return RankSessions(self.ttl) if self.ranked else KeepSessions(self.ttl) if self.ttl else None

    def _spare(self) -> set[int]:
        """Slots that nobody has at the start."""
        spare, first = set(), 0
        for pool in self.cluster.pools:
            spare |= set(range(first + pool.replicas, first + pool.slots))
            first += pool.slots
        return spare


def _ends(most: int = 4000) -> Callable[[Run, int], bool]:
    """Fails a run of a million events: it would never end, and a test that hangs does not say in which world."""
    numbers = count(1)

    def enough(run: Run, now: int) -> bool:
        assert next(numbers) < most, f"no end in sight at {now} ps"
        return False

    return enough


def _often(draw: st.DrawFn, percent: int) -> bool:
    return draw(st.integers(1, 100)) <= percent


def _workload(draw: st.DrawFn, step: int) -> Workload:
    rows = draw(st.integers(1, 14))
    stretch = draw(st.sampled_from((1, 20, 200)))
    stamps = draw(st.lists(st.integers(0, stretch), min_size=rows, max_size=rows))
    arrival = np.sort(np.array(stamps, "i8") * step)
    prompt = np.array(draw(st.lists(st.integers(1, 40), min_size=rows, max_size=rows)), "i4")
    output = np.array(draw(st.lists(st.integers(1, 30), min_size=rows, max_size=rows)), "i4")
    more: dict[str, Any] = {}
    if _often(draw, 60):
        more["prefixes"] = _prefixes(draw, prompt)
    if _often(draw, 40):
        patience = draw(st.lists(st.integers(0, 100), min_size=rows, max_size=rows))
        more["timeout"] = np.array(patience, "i8") * step
    if _often(draw, 40):
        more["session"] = np.array(draw(st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)), "i4")
    if _often(draw, 40):
        more["tenant"] = np.array(draw(st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)), "i4")
    if _often(draw, 30):
        more["priority"] = np.array(draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)), "i2")
    if _often(draw, 20):
        more["concurrency"] = draw(st.integers(1, 4))
    elif _often(draw, 30):
        more |= _joins(draw, rows, step)
    if step >= 10**9:  # clients try again after whole seconds; on a finer clock the reports between would never end
        more["retry"] = draw(st.integers(0, 1))
    return Workload(arrival, prompt, output, **more)


def _prefixes(draw: st.DrawFn, prompt: Any) -> Prefixes:
    """Chains of extents of few families, so that prefixes are shared; some go on with another's output."""
    families = draw(st.integers(1, 3))
    offsets, ids, ends = [0], [], []
    for tokens in prompt.tolist():
        end, chain = 0, draw(st.integers(1, families))
        for length in draw(st.lists(st.sampled_from((1, 3, 4, 8, 16)), max_size=5)):
            end += length
            if end > tokens:
                break
            chain = (chain * 50 + length) % 10**9
            ids.append(chain)
            ends.append(end)
        offsets.append(len(ids))
    output = [10**9 + row if _often(draw, 50) else -1 for row in range(len(prompt))]
    return Prefixes(np.array(offsets, "i8"), np.array(ids, "i8"), np.array(ends, "i4"), np.array(output, "i8"))


def _hedge(draw: st.DrawFn, step: int) -> Callable[[], Any]:
    """Nobody half of the time; else one that waits for few steps."""
    hedgers = (NONE, NONE, NONE, partial(Hasty, step), partial(Hasty, 7 * step), eager_tail)
    return draw(st.sampled_from(hedgers))


def _churn(draw: st.DrawFn) -> Callable[[], Any] | None:
    """Nobody mostly; else priorities that change every few steps."""
    if not _often(draw, 25):
        return None
    return partial(
        FastSwitch,
        draw(st.sampled_from((0.0, 0.05, 0.2))),
        draw(st.sampled_from(("random", "markov"))),
        run_blocks=draw(st.sampled_from((1, 3))),
        beside=_often(draw, 70),
        keeps=_often(draw, 50),
    )


def _joins(draw: st.DrawFn, rows: int, step: int) -> dict[str, Any]:
    offsets, before = [0, 0], []
    for row in range(1, rows):
        before += draw(st.lists(st.integers(0, row - 1), max_size=2, unique=True))
        offsets.append(len(before))
    delay = draw(st.lists(st.integers(0, 20), min_size=rows, max_size=rows))
    between = draw(st.lists(st.integers(0, 20), min_size=len(before), max_size=len(before)))
    return {
        "after_offsets": np.array(offsets[: rows + 1], "i8"),
        "after_ids": np.array(before, "i8"),
        "delay": np.array(delay, "i8") * step,
        "after_delay": np.array(between, "i8") * step if _often(draw, 50) else None,
    }


def _faults(draw: st.DrawFn, step: int, replicas: int, joins: bool) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if _often(draw, 40):
        for _ in range(draw(st.integers(1, 2))):
            at, span = draw(st.integers(0, 200)), draw(st.integers(0, 100))
            kind = draw(st.sampled_from(("lost", "reclaimed", "drain")))
            number = draw(st.integers(0, replicas - 1))
            faults.append(Fault(at * step / 1e12, kind, number, span * step / 1e12))
            if joins and _often(draw, 40):
                faults.append(Fault((at + span + draw(st.integers(0, 50))) * step / 1e12, "join", number))
    if _often(draw, 40):
        for _ in range(draw(st.integers(1, 3))):
            at, span = draw(st.integers(0, 100)), draw(st.integers(1, 100))
            kind = draw(st.sampled_from(("slow", "slow", "device_lost", "link_slow", "link_lost")))
            factor = draw(st.sampled_from((1.5, 2.0, 7.0)))
            number = draw(st.integers(0, replicas - 1))
            faults.append(Fault(at * step / 1e12, kind, number, 0.0, span * step / 1e12, factor))
    if joins and _often(draw, 20):
        number = draw(st.integers(0, replicas - 1))
        if all(fault.replica != number for fault in faults):
            faults.append(Fault(draw(st.integers(0, 100)) * step / 1e12, "join", number))
    return tuple(faults)


def _pools(draw: st.DrawFn, unit: float, roles: list[str], engine: Engine, scaled: bool) -> tuple[Pool, ...]:
    """A pool of one for each role; with a scaler of none to three, some pre-warmed."""
    if not scaled:
        return tuple(Pool(MODEL, DEVICE, role=role, engine=engine) for role in roles)  # type: ignore[arg-type]
    return tuple(
        Pool(
            MODEL, DEVICE, role=role, engine=engine,  # type: ignore[arg-type]
            min_replicas=draw(st.integers(0, 1)), max_replicas=draw(st.integers(1, 3)),
            prewarmed=draw(st.integers(0, 1)),
            startup=Startup(*(draw(st.integers(0, 9)) * unit for _ in range(6)), draw(st.sampled_from((0.0, 0.5)))),
        )
        for role in roles
    )  # fmt: skip


def _router(draw: st.DrawFn, unit: float) -> Callable[[], Any]:
    """Deadlines are so many ticks: while somebody is held on a fine clock, the reports until 50 µs are too many."""
    router = draw(st.sampled_from(ROUTERS + REJECTING))
    return partial(router, 500 * unit) if router in REJECTING else router


@st.composite
def adapter_cases(draw: st.DrawFn, given: st.SearchStrategy[Case]) -> Case:
    """The same cases with adapters: few slots, so that requests wait for one, and adapters leave device and host."""
    case = draw(given)
    rows, unit = len(case.workload), 10 ** draw(st.sampled_from((2, 3, 6))) / 1e12
    lora = np.array(draw(st.lists(st.integers(-1, 3), min_size=rows, max_size=rows)), "i4")
    slots = draw(st.integers(1, 3))
    engine = replace(case.engine, max_loras=slots, max_cpu_loras=draw(st.sampled_from((0, slots, slots + 1))))
    times = [draw(st.sampled_from((0, 1, 3))) * unit for _ in range(3)]
    return replace(
        case,
        workload=replace(case.workload, lora=lora),
        engine=engine,
        cluster=replace(case.cluster, pools=tuple(replace(pool, engine=engine) for pool in case.cluster.pools)),
        adapters=LinearAdapters(*times),
        picky=_often(draw, 30),
    )


@st.composite
def cases(draw: st.DrawFn, scaled_percent: int = 25, ranked_percent: int = 25, lent_percent: int = 33) -> Case:
    """One random case; `step` is the tick of its clock in picoseconds. So many of a hundred have a scaler, or ranks."""
    step = 10 ** draw(st.sampled_from((2, 3, 6, 10)))
    unit = step / 1e12
    workload = _workload(draw, step)
    block = draw(st.sampled_from((1, 2, 4, 16)))
    pairs = _often(draw, 25)
    replicas = draw(st.integers(2, 4)) if pairs else draw(st.integers(1, 3))
    tokens = draw(st.integers(75, 400)) if _often(draw, 80) else draw(st.integers(20, 75))
    sequences = draw(st.integers(1, 6))
    engine = Engine(
        token_budget=draw(st.integers(sequences, 32)),
        max_sequences=sequences,
        block_tokens=block,
        prefix_caching=_often(draw, 80),
        reserve_prompt=_often(draw, 50),
        host_kv_bytes=draw(st.sampled_from((0, 50_000, 300_000))),
        first_token=draw(st.sampled_from(("decode", "prefill"))),
        rank_budget=draw(st.sampled_from((0, 0, 7))),
        lanes=draw(st.sampled_from((ALONE, ALONE, PREFILL_FIRST, DECODE_FIRST, OVERLAPPING))),
    )
    window = draw(st.sampled_from((0, 0, 16)))
    cost = LinearCost(
        step_s=draw(st.sampled_from((1, 3, 10))) * unit,
        decode_s=draw(st.integers(0, 1)) * unit,
        prompt_s=draw(st.integers(0, 1)) * unit,
        kv_s=draw(st.integers(0, 1)) * unit,
        window_s=draw(st.integers(0, 1)) * unit if window else 0.0,
        window=window,
        layers=LAYERS,
        swap_bw=draw(st.sampled_from((1e3, 1e5))) / unit,
        swap_run_s=draw(st.sampled_from((0, 0, 2))) * unit,
        copies=draw(st.sampled_from((1, 2, 3))),
        slowed=draw(st.sampled_from((1.0, 1.0, 1.5))),
        switch_s=draw(st.sampled_from((0, 0, 2))) * unit,
    )
    prefills = draw(st.integers(1, replicas - 1)) if pairs else 0
    roles = ["prefill"] * prefills + ["decode"] * (replicas - prefills) if pairs else ["mixed"] * replicas
    scaled = _often(draw, scaled_percent)
    pools = _pools(draw, unit, roles, engine, scaled)
    roles = [pool.role for pool in pools for _ in range(pool.slots)]
    cluster = Cluster(
        pools,
        link_bw=draw(st.sampled_from((1e3, 1e4, 1e6))) / unit,
        link_latency_s=draw(st.integers(0, 3)) * unit,
        faults=_faults(draw, step, len(roles), joins=not scaled),
    )
    gateways = 1 if scaled else draw(st.sampled_from((1, 1, 2, 3)))
    belief = Belief(
        draw(st.sampled_from((0, 5, 50))) * unit,
        draw(st.sampled_from((0, 3))) * unit,
        _often(draw, 60),
        draw(st.sampled_from(("own", "reported", "oracle"))),
        gateways,
        None if gateways == 1 else draw(st.sampled_from((None, 0.0, 4 * unit))),
    )
    seed = draw(st.integers(0, 2**32))
    return Case(
        seed=seed,
        workload=workload,
        engine=engine,
        cost=replace(cost, host_s=(0, 0, 1)[seed % 3] * unit),
        blocks=-(-tokens // block),
        roles=roles,
        cluster=cluster,
        router=_router(draw, unit),
        belief=belief,
        ttl=draw(st.sampled_from((0, 0, 30, 300))) * step,
        swap=_often(draw, 30),
        ordered=_often(draw, 30),
        ranked=_often(draw, ranked_percent),
        until_s=draw(st.sampled_from((None, None, 100 * unit))),
        drain=_often(draw, 70),
        resume=_often(draw, 70),
        long_prefill=draw(st.sampled_from((0, 5))),
        mover=draw(st.sampled_from(MOVERS)),
        last_blocks=draw(st.sampled_from((0, 1, 16))),
        order=draw(st.sampled_from(ORDERS)),
        admission=partial(draw(st.sampled_from(ADMISSIONS)), unit),
        predictor=draw(st.sampled_from(PREDICTORS)),
        hedge=_hedge(draw, step),
        recovery=partial(draw(st.sampled_from(RECOVERIES)), unit),
        churn=_churn(draw),
        scaler=partial(Fickle, draw(st.sampled_from((7, 30, 110))) * unit, _often(draw, 50)) if scaled else NONE,
        fair=draw(st.sampled_from(FAIR)),
        lender=draw(st.sampled_from(LENDERS if lent_percent < 100 else LENDERS[4:])),
    )
