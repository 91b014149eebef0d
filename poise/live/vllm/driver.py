"""Turns the policies' decisions for one engine step into preemptions, the batch, and admissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from poise.core.action import ALL, NONE, Batch, Entry
from poise.core.errors import PolicyError
from poise.core.policy import Bundle
from poise.core.request import RequestView
from poise.live.vllm.lane import InsideLane, Inward
from poise.live.vllm.pinned import Pinned
from poise.live.vllm.refuse import impossible
from poise.live.vllm.request import Inner, Seat


class Outward(Inward, Protocol):
    """The engine interface of a driver."""

    def newest_leaves(self) -> Inner | None:
        """The request that was admitted last, if its last token is being made."""
        ...

    def preempt(self, inner: Inner) -> None:
        """Free a running request's blocks and put it back into the queue."""
        ...


class Plan:
    """The tokens that the next step computes.

    tokens: of each request that takes part, by the engine's id of it.  admitted: the waiting ones among them, in
    order.  chunks: requests whose prompts are computed, in the batch's order, with the blocks that each takes.
    """

    __slots__ = ("admitted", "chunks", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.admitted: list[Seat] = []
        self.chunks: dict[Seat, int] = {}


class Driver:
    """Calls the policies of one engine, step by step, and mirrors `core.engine.lane.LaneState.start`.

    pinned: the prefixes that a cache policy keeps, None without one.
    """

    def __init__(self, outward: Outward, lane: InsideLane, policies: Bundle, pinned: Pinned | None = None) -> None:
        self.lane = lane
        self._outward = outward
        self._batcher = batcher = policies.batcher
        self._preempt = policies.preempt
        self._pinned = pinned
        self._served: Callable[[RequestView, int, int], None] | None = getattr(batcher, "served", None)
        self._alone: bool = getattr(batcher, "decodes_alone", False)
        self._chunks: list[Seat] = []
        self._plan = Plan()

    def plan(self, now: int) -> Plan:
        """Decide the next step at instant `now`."""
        lane, pinned = self.lane, self._pinned
        lane.begin(now, self._chunks)
        self._plan = Plan()
        if self._served is not None:
            for seat in lane.decodes():
                if not seat.answered and seat.inner.num_output_tokens:
                    self._notify(seat, False)
        if pinned is not None:
            pinned.expire(now)
        self._compose()
        while pinned is not None and pinned.pins.heap and lane.waiting and not lane.running and not self._plan.tokens:
            self._unpin()  # pins must not stop an engine that has nothing else to do
            self._compose()
        self._chunks = list(self._plan.chunks)
        lane.decode_steps += any(seat.inner.request_id in self._plan.tokens for seat in lane.group.values())
        self._check()
        return self._plan

    def arrived(self, inner: Inner, now: int) -> None:
        """The engine has queued a request, or more input of one that it has."""
        if self.lane.seats.known(inner):
            return
        seat = self.lane.seats.of(inner, now)
        if self._pinned is not None:
            self._pinned.arrived(seat, now)

    def ending(self, inner: Inner, finished: bool) -> None:
        """A request leaves the engine, which frees its blocks next; `finished`: its answer is complete."""
        seat = self.lane.seats.leave(inner)
        if seat is None:
            return
        if self._pinned is not None:
            self._pinned.left(seat)
        if not finished:
            return
        seat.refresh()
        seat.produced = inner.num_output_tokens  # a token that is still being computed does not count yet
        self._notify(seat, True)
        if self._pinned is not None:
            self._pinned.keep(seat, self.lane)

    def _compose(self) -> None:
        """Call the batcher until there is something to compute; a request preempted in vain may be admitted at once.

        Not while a running step computes the last token of a request: the engine schedules again when it ends.
        """
        lane = self.lane
        for _ in range(1 + lane.running):
            decodes = self._ask() if lane.running or lane.waiting else ()
            if self._plan.tokens or lane.leaving or not (decodes or lane.preempted):
                return
            lane.preempted = False

    def _ask(self) -> tuple[Entry, ...]:
        """Call the batcher, and add its batch to the plan; returns its entries."""
        lane = self.lane
        if lane.group and not lane.room(0):
            self._make_room()
        if self._alone and not (lane.prefilling or lane.waiting or lane.paused or lane.preempted):
            batch = Batch()
        else:
            batch = self._batcher.batch(lane)
            cannot = impossible(batch, lane.model_layers)
            if cannot:
                raise self._wrong(cannot)
            if batch.decode != NONE and (batch.decode != ALL or lane.paused):
                lane.choose(None if isinstance(batch.decode, int) else set(batch.decode))
                self._make_room()
        for entry in batch.entries:
            self._take(entry)
        if batch.decode != NONE:
            self._plan.tokens.update((seat.inner.request_id, 1) for seat in lane.group.values())
        return batch.entries

    def _take(self, entry: Entry) -> None:
        """Put one entry into the plan, admitting its request if it waits and there is room."""
        lane = self.lane
        seat = lane.seats.find(entry.request)
        if seat is None or seat.id in lane.group or seat.id in lane.paused:
            raise self._wrong(f"entry {entry} names a request that has no prompt to compute")
        tokens = min(entry.tokens, seat.need - (seat.computed if seat.admitted else lane.cached(seat)))
        if tokens < 1 or seat in self._plan.chunks:
            raise self._wrong(f"entry {entry} gives its request no token of this step; give each one at least 1, once")
        if not seat.admitted and not self._admit(seat, tokens):
            return
        blocks = self._plan.chunks.setdefault(seat, lane.blocks_for(seat, tokens))
        while not lane.room(blocks):
            if self._give_way() is seat:
                return
        lane.planned += blocks
        self._plan.tokens[seat.inner.request_id] = tokens

    def _admit(self, seat: Seat, tokens: int) -> bool:
        """Admit a waiting request where the engine would: not after a preemption, and only into free blocks."""
        lane = self.lane
        if lane.preempted or not lane.room(lane.blocks_for(seat, tokens)):
            return False
        if self._pinned is not None:
            self._pinned.admitted(seat, lane.now)
            lane.look_again()
        self._plan.chunks[seat] = lane.blocks_for(seat, tokens)
        self._plan.admitted.append(seat)
        lane.admit(seat)
        return True

    def _make_room(self) -> None:
        """Preempt requests until this step's decodes have the blocks for their next tokens."""
        while self.lane.group and not self.lane.room(0):
            self._give_way()

    def _give_way(self) -> Seat | None:
        """Release a pin or preempt a request; the preempted one (None for a pin, or where it is leaving anyway)."""
        lane = self.lane
        if self._pinned is not None and self._pinned.pins.heap:
            self._unpin()
            return None
        leaver = self._outward.newest_leaves()
        if leaver is not None:  # as vLLM does; its last token is still delivered
            self._outward.preempt(leaver)
            lane.left()
            return None
        victim = self._preempt.preempt(lane)
        seat = lane.seats.find(victim.request)
        if seat is None or not seat.admitted:
            raise PolicyError(f"{type(self._preempt).__name__} names {victim}, which does not run")
        if seat in self._plan.admitted:  # the engine does not know it yet
            self._plan.admitted.remove(seat)
        else:
            self._outward.preempt(seat.inner)
        blocks = self._plan.chunks.pop(seat, 0)
        if self._plan.tokens.pop(seat.inner.request_id, 0):
            lane.planned -= blocks
        lane.give_way(seat)
        return seat

    def _unpin(self) -> None:
        assert self._pinned is not None
        self._pinned.pins.give_way()
        self.lane.look_again()

    def _check(self) -> None:
        """PolicyError for a step that the engine could not run whole."""
        engine, tokens = self.lane.engine, sum(self._plan.tokens.values())
        if tokens > engine.token_budget:
            raise self._wrong(f"puts {tokens} tokens into a step of {engine.token_budget} at most")
        if self.lane.running > engine.max_sequences:
            raise self._wrong(f"lets {self.lane.running} requests run, of {engine.max_sequences} at most")

    def _notify(self, seat: Seat, ended: bool) -> None:
        """Notify a batcher that observes them of a request's first token, and of its last."""
        if self._served is None:
            return
        if not seat.answered:
            seat.answered = True
            self._served(seat.request, 1, self.lane.now)
        if ended:
            self._served(seat.request, seat.produced, self.lane.now)

    def _wrong(self, text: str) -> PolicyError:
        return PolicyError(f"{type(self._batcher).__name__} {text}")
