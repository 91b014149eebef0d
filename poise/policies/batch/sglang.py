"""SGLang's batches: prompts before decodes, admitted while a share of the outputs to come still fits.

Code: SGLang 0.5.23, `managers/scheduler.py` (`get_next_batch_to_run`), `managers/schedule_policy.py` (`PrefillAdder`),
with the preemption `fewest_outputs`. `tests/live/sglang` compares the decisions of both with those of that code.

A step computes prompts alone while one can be admitted; decodes wait. A request is admitted if what is left of its
prompt, its whole output (at most 4,096 tokens) and a page are less than the KV tokens that are free or evictable,
without a share of the outputs that the running requests may still make: the new-token ratio. It begins at 0.7 times
`conservativeness`, falls by 1/600 of its range with each decode step to 14 % of that, begins anew when the engine
idles, and is set to what the remaining requests need after a retraction. Requests that ignore the end token count in
full.

After a request that found no room, none is tried until one leaves. The first prompt that is larger than the rest of the
chunk is cut, and no other is under way meanwhile. A prompt finds what others computed once their step is over.

With `mixed` (`--enable-mixed-chunk`) decodes join a step with prompts and take their tokens of the chunk. `order` is
`fcfs`, `lpm` (longest cached prefix), `lof` (longest output) or `priority` (lowest number first, without preemption).
Differences: `dfs-weight`, `hrrn`, `shortest-prefill-first`, `routing-key` and `random` orders and preemption by
priority are absent. Workers that only prefill or only decode keep other reserves: take `prefill_first` for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from poise.core.action import ALL, NONE, UNTIL_HEAD, Batch
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import DECODES, PREEMPTED
from poise.policies.batch.prefill_first import UNREAD, PrefillFirst
from poise.policies.kit.new_tokens import NewTokenRatio, most_new
from poise.policies.kit.prefill_adder import PrefillAdder, Verdict
from poise.policies.kit.waiting_order import SORTED, WaitingOrder

BLOCKED: Final = Batch((), ALL, UNTIL_HEAD)

REFRESH: Final = 32
"""WAITING_PREFIX_REFRESH_INTERVAL: scheduling passes after which the prefixes of waiting requests count as used."""


@dataclass(slots=True)
class SGLang(PrefillFirst):
    """Compose SGLang's batch.

    tokens: chunked_prefill_size, 0 for the engine's own budget.  chunked: whether prompts are cut at all.
    max_prefill: max_prefill_tokens; 0 for SGLang's 16,384, or the chunk where that is larger.
    prefills: prefill_max_requests, 0 for no limit.  mixed: enable_mixed_chunk.  order: schedule_policy.
    conservativeness: schedule_conservativeness.  ignore_eos: whether requests make all tokens that they may.
    recv_interval: decode steps between two reads of the queue.
    """

    prompts_first: ClassVar[bool] = True
    late_prefix: ClassVar[bool] = True
    pairs: ClassVar[bool] = False

    chunked: bool = True
    max_prefill: int = 0
    prefills: int = 0
    mixed: bool = False
    order: str = "fcfs"
    conservativeness: float = 1.0
    ignore_eos: bool = False
    _ratio: NewTokenRatio = field(init=False, repr=False, compare=False)
    _waiting: WaitingOrder = field(init=False, repr=False, compare=False)
    _full: bool = field(default=False, init=False, repr=False, compare=False)
    _running: int = field(default=0, init=False, repr=False, compare=False)
    _ended_at: int = field(default=-1, init=False, repr=False, compare=False)
    _passes: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        PrefillFirst.__post_init__(self)
        if self.conservativeness <= 0:
            raise ValueError(f"conservativeness {self.conservativeness} is not above 0; give 1.0 for SGLang's own")
        self._ratio = NewTokenRatio(self.conservativeness)
        self._waiting = WaitingOrder(self.order)

    def batch(self, lane: LaneView) -> Batch:
        """Prompts that can be computed now; all decodes where there are none, or beside them with `mixed`."""
        waiting = lane.waiting if lane.spec.prefill else 0
        self._note(lane)
        if waiting and not self._reads(lane):
            waiting = 0
            if not lane.prefilling:
                return UNREAD
        if not lane.prefilling and not waiting:
            return DECODES
        if not lane.prefilling and (self._full or lane.decoding >= lane.engine.max_sequences):
            self._full = True
            return BLOCKED
        adder = self._adder(lane)
        if not all(adder.go_on(sequence) for sequence in lane.prefilling):
            return PREEMPTED
        if waiting:
            self._admit_all(lane, adder, self._sorted(lane))
        if not adder.entries:
            return BLOCKED
        return self._compose(lane, adder)

    def _note(self, lane: LaneView) -> None:
        """Bring what is kept between steps up to date: who left, and the ratio."""
        if lane.decoding < self._running or not lane.decoding:
            self._full = False
        self._running = lane.decoding
        idle = not lane.decoding and not lane.prefilling and lane.now > self._ended_at
        self._ratio.follow(lane.decode_steps, idle)

    def _adder(self, lane: LaneView) -> PrefillAdder:
        """The room for prompts, without what running requests may still need."""
        chunk = (self.tokens or lane.engine.token_budget) if self.chunked else 0
        page, pages, offset = lane.engine.block_tokens, lane.free_blocks, 0.0
        ratio = 1.0 if self.ignore_eos else self._ratio.current
        for sequence in lane.decodes():
            offset += most_new(sequence, lane) * ratio
            pages += sequence.computed % page == 0 and sequence.id not in lane.paused
        return PrefillAdder(
            lane, pages * page, offset, chunk, self.max_prefill or max(16384, chunk),
            lane.decoding if self.mixed and chunk else 0, self.ignore_eos, self.prefills,
        )  # fmt: skip

    def _sorted(self, lane: LaneView) -> Iterable[SequenceView]:
        """The queue in order; each so many times its prefixes are looked up, so that they are evicted last."""
        queue = self._waiting.sorted(lane)
        if lane.engine.prefix_caching and self.order != "lpm":
            if self._passes % REFRESH == 0:
                queue = list(queue)
                for sequence in reversed(queue[:SORTED]):
                    lane.cached(sequence)
            self._passes += 1
        return queue

    def _admit_all(self, lane: LaneView, adder: PrefillAdder, queue: Iterable[SequenceView]) -> None:
        """Admit waiting requests in order until one does not fit."""
        for sequence in queue:
            if adder.spent():
                return
            if len(adder.entries) >= lane.engine.max_sequences - lane.decoding:
                self._full = True
                return
            verdict = adder.add(sequence)
            if verdict is Verdict.NO_TOKEN and not (adder.entries or lane.running):
                adder.add_alone(sequence)  # SGLang refuses what can never fit; here the world has refused it before
                return
            if verdict is Verdict.NO_TOKEN:
                self._full = bool(adder.entries) or lane.decoding > 0
            if verdict is not Verdict.CONTINUE:
                return

    def _compose(self, lane: LaneView, adder: PrefillAdder) -> Batch:
        """The batch of the entries; who is a running request after it."""
        entries = tuple(adder.entries)
        decode = NONE
        if self.mixed and adder.chunk and lane.decoding and lane.room(adder.pages):
            decode = ALL
            self._ratio.mixed()
            self._full = False  # SGLang's flag is that of the batch, and this one is a new batch
        if adder.cut or not lane.decoding:
            self._full = False
        self._running = lane.decoding + len(entries) - adder.cut
        return Batch(entries, decode)

    def served(self, request: RequestView, tokens: int, now: int) -> None:
        """A request made its first token or its last."""
        self._ended_at = now

    def retracted(self, lane: LaneView) -> None:
        """Room was made for a decode step: the ratio follows what the remaining requests have made."""
        self._full = False
        self._running = lane.decoding
        self._ratio.estimate(lane)
