"""One engine instance: its queue, its KV blocks and its lanes. Mirrors vLLM v1's scheduler (`Scheduler.schedule`).

Driven by the owner of the clock (the simulator, the emulated engine): `add`, `abort` and `kv_transfer` are the
inputs, `turn(now)` ends the steps that end now and starts the next ones, `next_at` is when it must be called again. A
batch of decodes alone is held over many steps in closed form; with `one_step=True` every hold is cut to one step, which
is the slow reference that the fast path must equal to the picosecond. Every method that takes `now` takes `passed` too:
whether a step of this replica that ends exactly at `now` has already been dealt with. So an arrival at a boundary meets
the same batch whether or not the boundary lay inside a hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poise.core.action import UNTIL_CHANGE
from poise.core.engine.adapters import AdapterSlots
from poise.core.engine.extents import CacheListener
from poise.core.engine.flows import Flows
from poise.core.engine.kv_budget import KvBudget
from poise.core.engine.kv_loans import Loans
from poise.core.engine.kv_pool import KvPool
from poise.core.engine.kv_transfer import KvTransfer
from poise.core.engine.lane import LaneState
from poise.core.engine.late_pool import LatePool
from poise.core.engine.outcome import DONE, FIRST_TOKEN, PARKED, PREFILLED, PULL, Outcome
from poise.core.engine.pins import Pins
from poise.core.engine.preemption import Preemptor
from poise.core.engine.ranked_pool import RankedPool
from poise.core.engine.shared_device import SharedDevice
from poise.core.engine.slowness import Slow, Slowdown
from poise.core.engine.swapping import SwapSpace
from poise.core.engine.waiting import Fcfs, Ordered, Watched
from poise.core.estimate import AdapterCost, Estimator
from poise.core.policy import Bundle, Cache, Preempt, Queue, RankExtent, Swapping
from poise.core.records.records import ReplicaStats
from poise.core.request import Phase, RequestView, Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER, ps


class Replica:
    """One engine instance, exact about its own state.

    blocks: KV blocks.  policies: those of the slots that `slot.ENGINE` names are asked; they are the replica's own, so
    that others take copies (`Bundle.for_engine`).  layers: of the model, for batchers that work by layer ranges.
    sends: this is the prefill half of a P/D pair: prompts end as PREFILLED here and stay until `release`.
    adapters: what adapters cost, where the engine has slots for them (None: nothing).  state_blocks: blocks between
    saved states of recurrent layers, where alone prefixes are found; 0: nowhere.
    slices: set to a list to record each held batch as `(start, end, lane, decodes, prompt tokens)`.
    """

    __slots__ = (
        "_admitted",
        "_busy_from",
        "_cancelled",
        "_gives_way",
        "_returned",
        "adapters",
        "batcher",
        "cache",
        "closed",
        "decode_lane",
        "device",
        "encoding",
        "engine",
        "estimator",
        "flows",
        "kv_transfer",
        "lanes",
        "late",
        "loans",
        "next_at",
        "odd",
        "one_step",
        "out",
        "pins",
        "pool",
        "preemptor",
        "prefill_lane",
        "queued_tokens",
        "running",
        "sends",
        "sequences",
        "served",
        "slices",
        "slowed",
        "space",
        "spells",
        "stats",
        "swaps",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        estimator: Estimator,
        blocks: int,
        policies: Bundle,
        *,
        layers: int = 1,
        sends: bool = False,
        one_step: bool = False,
        listener: CacheListener | None = None,
        adapters: AdapterCost | None = None,
        state_blocks: int = 1,
    ) -> None:
        batcher, preempt, queue, cache = policies.batcher, policies.preempt, policies.queue, policies.cache
        self.engine = engine
        self.estimator = estimator
        self.batcher = batcher
        self.served: Callable[[RequestView, int, int], None] | None = getattr(batcher, "served", None)
        self.cache = cache
        self.sends = sends
        self.one_step = one_step or len(engine.lanes) > 1
        self._returned: Callable[[RequestView, int], None] | None = getattr(cache, "returned", None)
        self._admitted: Callable[[Sequence, int], None] | None = getattr(cache, "admitted", None)
        self._gives_way: Callable[[RequestView], Any] | None = getattr(cache, "gives_way", None)
        self.late: bool = getattr(batcher, "late_prefix", False)
        self.pool = _pool(engine, blocks, listener, cache, self.late)
        self.pool.unit = max(1, state_blocks)
        self.pool.caching = self.pool.caching and state_blocks > 0
        self.space = KvBudget(self.pool)
        self.flows = Flows(queue, self) if hasattr(queue, "charge") else None  # type: ignore[arg-type]
        self.lanes = [LaneState(self, index, spec, layers) for index, spec in enumerate(engine.lanes)]
        for lane in self.lanes:
            lane.review_at = 0 if hasattr(preempt, "review") else NEVER
        self.device = SharedDevice(self) if len(self.lanes) > 1 else None
        self.space.set_lanes(self.lanes)
        for lane in self.lanes:
            lane.swapping = ps(engine.cold_s)
        self.prefill_lane = next(lane for lane in self.lanes if lane.spec.prefill)
        self.decode_lane = next(lane for lane in self.lanes if lane.spec.decode)
        self.waiting: Fcfs | Ordered | Flows | Watched = _waiting(self, queue, preempt)
        self.sequences: dict[int, Sequence] = {}
        self.running = 0
        self.queued_tokens = 0
        self.next_at = NEVER
        self.closed = False
        self.stats = ReplicaStats(total_blocks=blocks)
        self.slices: list[tuple[int, int, int, int, int]] | None = None
        self.spells: list[Slowdown] = []  # slow spells, read by the attribution
        self.slowed = 1.0
        self.loans = Loans(self)
        self._cancelled: list[Sequence] = []
        self.pins = Pins(self.pool)
        self.kv_transfer = KvTransfer(self)
        self.preemptor = Preemptor(self, preempt)
        self.swaps = SwapSpace(self, getattr(preempt, "swapping", Swapping()))
        self._busy_from = NEVER
        self.adapters: AdapterSlots | None = None
        if engine.max_loras:
            self.adapters = AdapterSlots(self, adapters, getattr(cache, "evict_adapter", None))
        self.encoding: list[int] | None = None  # picoseconds of images and audio of each request
        self.out: list[Outcome] = []
        self.odd = False  # some request is cancelled, leaves, is pinned or on its way to or from host memory

    # Inputs ----------------------------------------------------------------------------------------------------------

    def add(self, sequence: Sequence, now: int, passed: bool = False) -> None:
        """Queue a sequence that arrives at `now`."""
        request = sequence.request
        if self._returned is not None:
            self._returned(request, now)
        if self.odd and self.pins.heap:
            sequence.pinned = self.pins.hold(request.session)
        self.sequences[sequence.id] = sequence
        self.queued_tokens += request.prompt_tokens + sequence.produced
        heads = self.waiting.push(sequence)
        until = self.next_at
        for lane in self.lanes:
            if not lane.steps or lane.passing or (lane.steps > 1 and (heads or lane.hold == UNTIL_CHANGE)):
                lane.cut(now, passed)
            if lane.until < until:
                until = lane.until
        self.next_at = until

    def abort(self, request: int, now: int, passed: bool = False) -> None:
        """Drop a request: at once if it waits or its KV is on its way, at the next step boundary if it runs."""
        sequence = self.sequences[request]
        sequence.cancelled = True
        self.catch_up(now, passed)
        if sequence.phase == Phase.WAITING:
            self.waiting.remove(sequence)
            self.queued_tokens -= sequence.need
            self.end(sequence)
        elif sequence.phase == Phase.PULLING:
            self.runs_no_more(sequence)
            self.queued_tokens -= sequence.need - sequence.computed
            self.free(sequence)
        elif sequence.phase in (Phase.SENDING, Phase.MOVING):
            if sequence.phase == Phase.MOVING:
                self.runs_no_more(sequence)
            self.free(sequence)
        else:
            del self.sequences[request]  # the same request may come again before the boundary
            self._cancelled.append(sequence)
            self.odd = True
        self.look_again(now, passed)

    def turn(self, now: int, passed: bool = False) -> list[Outcome]:
        """End what ends at `now`, start what can start, and return the outcomes."""
        self.space.now = now
        out: list[Outcome] = []
        self.out = out
        lane = self.space.only
        if lane is None or self.odd:
            self._turn_all(now, passed)
            self.odd = bool(self._cancelled or self.kv_transfer.leaving or self.pins.heap or self.swaps.flying)
            return out
        if lane.steps:
            if lane.steps > 1 and lane.calm != self.pool.total and self.pool.cached:
                self.space.refresh(now, passed)
            lane.commit()
        if not lane.steps:
            lane.start(now)
        if lane.steps:
            if self._busy_from == NEVER:
                self._busy_from = now
            self.next_at = lane.until
            if self.odd:
                self.next_at = min(lane.until, self.pins.next_at, self.swaps.next_at)
        else:
            self._schedule(now)
        return out

    def _turn_all(self, now: int, passed: bool) -> None:
        """A turn with several lanes, pins, or requests that are cancelled or leave."""
        lanes, pins = self.lanes, self.pins
        self.catch_up(now, passed)
        expired = pins.next_at <= now
        for lane in lanes:  # a boundary inside a hold counts like any other when something else happens at it
            if lane.steps > 1 and lane.until != now and not passed and lane.ends_at(now):
                lane.cut(now, False)
        for lane in lanes:
            if lane.until == now and lane.steps:
                lane.commit()
        if self._cancelled:
            self._cancelled = [sequence for sequence in self._cancelled if not self._drop(sequence)]
        if self.kv_transfer.leaving:
            self.out += [(PARKED, sequence) for sequence in self.kv_transfer.let_go()]
        while pins.next_at <= now:
            pins.drop_first()
        landed = self.swaps.land(now)
        if (expired or landed) and self.flows is not None:
            self.flows.stir()
        for lane in lanes:
            if not lane.steps:
                lane.start(now)
            elif expired or landed:
                lane.cut(now, True)
        while pins.heap and self.waiting and not self.running:
            pins.give_way()  # pins must not stop an engine that has nothing else to do
            for lane in lanes:
                lane.start(now)
        self._schedule(now)

    def close(self, now: int, passed: bool = False) -> None:
        """The replica is lost, or the run is over: stop, and count the work until now."""
        for lane in self.lanes:
            done = lane.done(now, passed)
            self.stats.steps += done
            self.stats.decode_tokens += done * lane.group.n
        if self._busy_from != NEVER:
            self.stats.busy += now - self._busy_from
            self._busy_from = NEVER
        self.next_at = NEVER
        self.closed = True
        self.sequences.clear()

    def progress(self, request: int, now: int, passed: bool = False) -> int:
        """Output tokens that a request has made by `now`."""
        return self.made(self.sequences[request], now, passed)

    def made(self, sequence: Sequence, now: int, passed: bool = False) -> int:
        """The same of a sequence, which may be cancelled."""
        lane = self.decode_lane
        if lane.group.members.get(sequence.id) is sequence:
            step = lane.group.step + lane.done(now, passed)
            return sequence.output_tokens - (sequence.done_at_step - step)
        return sequence.produced

    def busy(self, now: int) -> int:
        """Picoseconds with a running step, up to `now`."""
        return self.stats.busy if self._busy_from == NEVER else self.stats.busy + now - self._busy_from

    def look(self, name: str, now: int, passed: bool = False) -> int:
        """One of the columns of `view.REPORTED`, or `requests`, at `now`; 0 once the replica is lost."""
        if self.closed:
            return 0
        if name == "tokens":
            return self.queued_tokens + sum([lane.context(now, passed) for lane in self.lanes])
        if name == "queued_tokens":
            return self.queued_tokens
        if name == "waiting":
            return len(self.waiting)
        if name == "running":
            return self.running
        if name == "requests":
            return len(self.waiting) + self.running
        return self.space.available(now, passed)

    # Life of a sequence ----------------------------------------------------------------------------------------------

    def admit(self, sequence: Sequence, lane: LaneState) -> bool:
        """Take a waiting sequence into the lane; False if there is nothing to compute, its KV coming from elsewhere."""
        pool = self.pool
        self.waiting.remove(sequence)
        if self.flows is not None:
            self.flows.admit(sequence, 0 if sequence.source >= 0 else sequence.request.prompt_tokens)
        self.running += 1
        if self.adapters is not None:
            lane.swapping += self.adapters.enter(sequence.request.lora)
        if sequence.swapped:
            self.swaps.back(sequence, lane)
            return False
        pool.admit(sequence)
        if not sequence.preemptions:
            sequence.cached = sequence.computed
        if self._admitted is not None:
            self._admitted(sequence, self.space.now)
        if self.odd and self.pins.heap:
            self.pins.release(sequence.request.session)
            sequence.pinned = False
        self.queued_tokens -= sequence.computed
        sequence.lane = lane.index
        if sequence.source >= 0:
            pool.take(sequence, sequence.need - 1 - sequence.computed)
            sequence.move(Phase.PULLING)
            self.out.append((PULL, sequence))
            return False
        if self.encoding is not None and not sequence.preemptions:
            lane.swapping += self.encoding[sequence.id]
        sequence.move(Phase.PREFILL)
        lane.prefilling.append(sequence)
        return True

    def advance(self, sequence: Sequence, tokens: int, lane: LaneState) -> None:
        """A chunk of `tokens` tokens is computed in all layers; the first token follows when the prompt is complete."""
        computed, produced = sequence.computed + tokens, sequence.produced
        sequence.computed = computed
        self.queued_tokens -= tokens
        sequence.chunk = sequence.layer = 0
        if self.late and sequence.request.ids:
            self.pool.register(sequence)
        if self.flows is not None:
            self.flows.stir()
        if computed < sequence.request.prompt_tokens + produced or sequence.cancelled:
            return
        lane.prefilling.remove(sequence)
        if self.sends and self.engine.first_token == "decode" and not produced:
            self.kv_transfer.send(sequence)
            self.out.append((PREFILLED, sequence))
            return
        produced += 1
        sequence.produced = produced
        if produced == 1:
            self.out.append((FIRST_TOKEN, sequence))
            if self.served is not None:
                self.served(sequence.request, 1, self.space.now)
        if produced >= sequence.output_tokens:
            self.pool.explicit -= self.pool.private(sequence)
            self.finish(sequence, lane)
        elif self.sends:
            self.kv_transfer.send(sequence)
            self.out.append((PREFILLED, sequence))
        else:
            sequence.move(Phase.DECODE)
            if self.space.only is None:
                self.kv_transfer.join_decodes(sequence)
            else:  # the lane is between two steps: `lane.decode`, written out
                self.pool.explicit -= self.pool.private(sequence)
                lane.group.join(sequence)

    def finish(self, sequence: Sequence, lane: LaneState) -> None:
        """A sequence (off `explicit` and out of its group) made its last token: pin or free its KV."""
        self.runs_no_more(sequence)
        pool = self.pool
        if pool.lru or sequence.nodes or sequence.output_id >= 0:
            keep = 0
            if self.cache is not None and not sequence.cancelled:
                keep = self.cache.cache(sequence.request, sequence, lane)
            nodes = pool.release(sequence, sequence.output_id)
            if keep > 0 and nodes:
                place = None if self._gives_way is None else self._gives_way(sequence.request)
                self.pins.add(sequence.request.session, nodes, self.space.now + keep, place)
                self.odd = True
            else:
                pool.drop(nodes)
        self.end(sequence)
        if not sequence.cancelled:
            self.out.append((DONE, sequence))
            if self.served is not None:
                self.served(sequence.request, sequence.output_tokens, self.space.now)

    def _drop(self, sequence: Sequence) -> bool:
        """Remove a cancelled sequence, unless its lane is in the middle of a step."""
        if sequence.phase == Phase.ENDED:
            return True
        lane = self.lanes[sequence.lane]
        if sequence.phase == Phase.WAITING:  # preempted since
            self.waiting.remove(sequence)
            self.queued_tokens -= sequence.need
            self.end(sequence)
            return True
        if lane.steps:
            return False
        if not lane.take_out(sequence):
            lane.prefilling.remove(sequence)
            self.queued_tokens -= sequence.need - sequence.computed
        self.runs_no_more(sequence)
        self.free(sequence)
        return True

    def runs_no_more(self, sequence: Sequence) -> None:
        """An admitted sequence leaves the batch, and its adapter."""
        self.running -= 1
        if self.adapters is not None:
            self.adapters.leave(sequence.request.lora)

    def free(self, sequence: Sequence) -> None:
        """Give back the blocks of a sequence that is in no lane; this is its end here."""
        self.pool.explicit -= self.pool.private(sequence)
        self.pool.drop(self.pool.release(sequence))
        self.end(sequence)

    def end(self, sequence: Sequence) -> None:
        """A sequence without blocks has left."""
        if self.flows is not None:
            self.flows.end(sequence)
        if sequence.pinned:
            self.pins.release(sequence.request.session)
        if sequence.swapped or sequence.kept:
            self.swaps.end(sequence)
        sequence.move(Phase.ENDED)
        if not sequence.cancelled or self.sequences.get(sequence.id) is sequence:
            del self.sequences[sequence.id]

    def wait_again(self, sequence: Sequence) -> None:
        """Put an admitted sequence, whose blocks are given back, first in the queue; nothing of it is computed now."""
        sequence.move(Phase.WAITING)
        sequence.computed = sequence.chunk = sequence.layer = 0
        self.runs_no_more(sequence)
        self.waiting.push_front(sequence)

    def catch_up(self, now: int, passed: bool) -> None:
        """Evict for what the steps of a hold took so far, before anything is released: it would be evicted instead."""
        self.space.now = now
        if self.pool.cached:
            self.space.refresh(now, passed)

    def retime(self) -> None:
        """Update step costs to the device's speed and the loans, for steps that begin from now on."""
        step = self.loans.steps(self.estimator.step if self.slowed == 1 else Slow(self.estimator, self.slowed).step)
        for lane in self.lanes:
            lane.reprice(step)
        if self.adapters is not None:
            self.adapters.stir()

    def look_again(self, now: int, passed: bool) -> None:
        """Something arrived from outside: compose anew at the next step boundary."""
        if self.flows is not None:
            self.flows.stir()
        for lane in self.lanes:
            lane.cut(now, passed)
        self._schedule(now)

    def _schedule(self, now: int) -> None:
        """Find the next instant at which something ends here."""
        lanes = self.lanes
        if self.device is not None:
            self.device.settle(now)
        freed, self.preemptor.freed = self.preemptor.freed, False
        if len(lanes) > 1:
            # A lane that composed before another one freed blocks may find room for who waits at the next boundary.
            crowded = self.space.crowded() or (freed and len(self.waiting) > 0) or self._adapters_changed()
            joining = self.decode_lane.joining
            for lane in lanes:
                if lane.steps > 1 and (crowded or (joining and lane is self.decode_lane)):
                    lane.cut(now, True)
        gave_way = freed or any(lane.preempted for lane in lanes)
        if gave_way and self.waiting and not any(lane.steps for lane in lanes):
            for lane in lanes:  # who gave way in a step that never began can be admitted in the next
                lane.preempted, lane.until = False, now
        until, busy = min(self.pins.next_at, self.swaps.next_at), False
        if self.device is not None:
            until = min(until, self.device.next_at)
        for lane in lanes:
            busy = busy or lane.steps > 0
            until = min(until, lane.until)
        if busy:
            if self._busy_from == NEVER:
                self._busy_from = now
        elif self._busy_from != NEVER:
            self.stats.busy += now - self._busy_from
            self._busy_from = NEVER
        self.next_at = until

    def _adapters_changed(self) -> bool:
        """Whether the set of running adapters changed since the last turn: steps of all lanes depend on it."""
        adapters = self.adapters
        changed = adapters is not None and adapters.changed
        if adapters is not None:
            adapters.changed = False
        return changed


def _waiting(replica: Replica, queue: Queue | None, preempt: Preempt) -> Fcfs | Ordered | Flows | Watched:
    """The queue; the batcher is notified of its changes if it wants that."""
    found = _in_order(replica, queue, preempt)
    return found if getattr(replica.batcher, "waits", None) is None else Watched(found, replica.batcher)


def _in_order(replica: Replica, queue: Queue | None, preempt: Preempt) -> Fcfs | Ordered | Flows:
    """The queue in its policy's order, or in that of the preemption policy where it has one."""
    if replica.flows is not None:
        return replica.flows
    if queue is not None:
        return Ordered(queue)
    return Ordered(preempt) if hasattr(preempt, "place") else Fcfs()


def _pool(engine: Engine, blocks: int, listener: CacheListener | None, cache: Cache | None, late: bool) -> KvPool:
    """The KV blocks, evicted as the cache policy ranks them or least recently used first."""
    rank: RankExtent | None = getattr(cache, "rank", None)
    if rank is None and late:
        return LatePool(blocks, engine.block_tokens, engine.prefix_caching, listener)
    if rank is None:
        return KvPool(blocks, engine.block_tokens, engine.prefix_caching, listener)
    return RankedPool(blocks, engine.block_tokens, engine.prefix_caching, listener, rank)
