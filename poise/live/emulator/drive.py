"""Drives one replica by instants: requests in, one call for each output token out. Has no clock and does no I/O.

A batch of decodes is held over many steps in closed form, but a stream sends its client a token at the end of each. So
the driver is due at every step boundary of the decode lane: one boundary for all members of the batch, whatever their
number, and nothing is looked up per request but its listener.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from poise.core.engine.hold import span
from poise.core.engine.outcome import DONE, FIRST_TOKEN, PREEMPTED
from poise.core.engine.replica import Replica
from poise.core.request import Phase, Sequence
from poise.core.units import NEVER

Watcher = Callable[[int, int], None]


class Listener(Protocol):
    """Receives the events of one request. made: how many tokens were delivered to it."""

    made: int

    def admitted(self, at: int) -> None:
        """The request has left the queue, for the first time."""
        ...

    def token(self, at: int) -> None:
        """Count and deliver one more output token, made at the instant `at`."""
        ...

    def done(self, at: int) -> None:
        """All tokens are made; nothing follows."""
        ...


def _waits(sequence: Sequence) -> bool:
    """Whether it was never admitted."""
    return sequence.lane < 0 and sequence.phase != Phase.ENDED


class Driver:
    """Drives one replica; instants are picoseconds and never decrease.

    next_at: when `advance` has something to do next.  preemptions: how many there were.
    watch: called at each decode step with the picoseconds since the step before and the number of requests in it.
    left: called with each sequence when it is done or aborted.
    """

    __slots__ = (
        "_aborts", "_again", "_began_at", "_busy", "_delivered", "_last_at", "_queued", "_stepped_at", "_token_at",
        "lane", "left", "listeners", "next_at", "now", "preemptions", "replica", "watch",
    )  # fmt: skip

    def __init__(
        self,
        replica: Replica,
        now: int = 0,
        watch: Watcher | None = None,
        left: Callable[[Sequence], None] | None = None,
    ) -> None:
        self.replica = replica
        self.lane = replica.decode_lane
        self.now = now
        self.next_at = NEVER
        self.preemptions = 0
        self.watch = watch
        self.left = left
        self.listeners: dict[int, Listener] = {}
        self._again: dict[int, tuple[Sequence, int]] = {}  # preempted, when, and not decoding again yet
        self._queued: deque[Sequence] = deque()  # in order of arrival, which is the order of admission
        self._aborts: list[int] = []  # of requests whose listeners gave up during a callback
        self._busy = False
        self._stepped_at = -1
        self._last_at = now
        self._began_at = -1  # of the hold that `_delivered` counts in
        self._delivered = 0  # steps of the hold whose tokens were delivered
        self._token_at = NEVER

    def add(self, sequence: Sequence, listener: Listener, now: int) -> None:
        """Queue a sequence that arrives at `now`, before the step that ends just then."""
        now = self._reach(now)
        self.listeners[sequence.id] = listener
        self._queued.append(sequence)
        self.replica.add(sequence, now, now == self._stepped_at)
        self._plan()

    def abort(self, request: int, now: int) -> None:
        """Drop a request; its listener gets no more calls, and its blocks are free at the next step boundary."""
        if self.listeners.pop(request, None) is None:
            return
        if self._busy:
            self._aborts.append(request)
            return
        now = self._reach(now)
        self._abort(request, now)
        self._plan()

    def advance(self, now: int) -> None:
        """Handle everything that is due by `now`."""
        while self.next_at <= now:
            self._step(self.next_at)
        if now > self.now:
            self.now = now

    def look_again(self, now: int) -> None:
        """The cost of the running batch has changed: compose anew at the next step boundary."""
        now = self._reach(now)
        self.replica.look_again(now, now == self._stepped_at)
        self._plan()

    def _reach(self, now: int) -> int:
        """Handle what is due before `now`; returns the current instant."""
        if now <= self.now:
            return self.now
        self.advance(now - 1)
        self.now = now
        return now

    def _step(self, at: int) -> None:
        """A step of the lane, or something else, ends at `at`."""
        self.now = at
        self._busy = True
        if at == self._token_at:
            self._deliver(at)
        replica = self.replica
        if replica.next_at == at:
            passed = at == self._stepped_at
            self._stepped_at = at
            outcomes = replica.turn(at, passed)
            if self._queued:
                self._admit(at)
            for code, sequence in outcomes:
                self._notify(code, sequence, at)
            for request in list(self._again):
                if self._again[request][0].phase in (Phase.DECODE, Phase.ENDED):
                    self._catch_up(request, at)
        self._busy = False
        while self._aborts:
            self._abort(self._aborts.pop(), at)
        self._plan()

    def _deliver(self, at: int) -> None:
        """One token for each member of the batch."""
        self._delivered += 1
        listeners = self.listeners
        members = self.lane.group.members
        if self.watch is not None:
            self.watch(at - self._last_at, len(members))
        self._last_at = at
        for request in members:
            listener = listeners.get(request)
            if listener is not None:
                listener.token(at)

    def _admit(self, at: int) -> None:
        """Notify the listeners of requests that have left the queue (first come, first served)."""
        queued = self._queued
        if self.replica.adapters is not None:  # one that waits for a slot is overtaken
            self._queued = queued = deque(sorted(queued, key=_waits))
        while queued and (queued[0].lane >= 0 or queued[0].phase == Phase.ENDED):
            listener = self.listeners.get(queued.popleft().id)
            if listener is not None:
                listener.admitted(at)

    def _notify(self, code: int, sequence: Sequence, at: int) -> None:
        listener = self.listeners.get(sequence.id)
        if code == PREEMPTED:
            self.preemptions += 1
            self._again[sequence.id] = sequence, self._catch_up(sequence.id, at)
        elif code == FIRST_TOKEN:
            self._last_at = at
            if listener is not None:
                listener.token(at)
        elif code == DONE and listener is not None:
            self._catch_up(sequence.id, at)
            self.listeners.pop(sequence.id, None)  # it may have given up at its last token
            listener.done(at)
            self._leave(sequence)

    def _catch_up(self, request: int, at: int) -> int:
        """Deliver the token that a preempted request made when its KV was computed again, which no outcome contains.

        Returns when its last token was made, `at` if it was not preempted.
        """
        sequence, since = self._again.pop(request, (None, at))
        listener = self.listeners.get(request)
        if sequence is None or listener is None or listener.made == sequence.produced:
            return since
        if self.watch is not None:
            self.watch(at - since, 1)
        listener.token(at)
        return at

    def _abort(self, request: int, now: int) -> None:
        sequence = self.replica.sequences.get(request)
        if sequence is not None:
            self.replica.abort(request, now, now == self._stepped_at)
            self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        if self.left is not None:
            self.left(sequence)

    def _plan(self) -> None:
        """Find the next instant at which a token is made or something ends."""
        lane = self.lane
        at = self.replica.next_at
        self._token_at = NEVER
        if lane.steps and lane.decoded:
            if lane.began_at != self._began_at:
                self._began_at, self._delivered = lane.began_at, 0
            if self._delivered < lane.steps:
                self._token_at = lane.began_at + span(lane.first, lane.growth, self._delivered + 1)
                if self._token_at < at:
                    at = self._token_at
        self.next_at = at
