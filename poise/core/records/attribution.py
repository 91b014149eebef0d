"""Latency attribution of one request: its time, charged to the parts of `blame` as it changes phase.

In a step that several share, **own** is what the estimator says of this request's entry alone, **others** the rest of
the step. A prompt's own part is that of its tokens behind the longest prefix that a cache of infinite size would have
held; what it computes of that prefix is a **miss**. Alone means on the lane's share of the device, and is never longer
than the time that passed. Everything is a difference of instants or a sum of integers, so the parts add up.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Protocol

from poise.core.engine.slowness import excess
from poise.core.records.blame import (
    DECODE,
    DECODE_OTHERS,
    GATEWAY,
    IDLE,
    IN_ENGINE,
    LINK_WAIT,
    LOST,
    MISS,
    MOVING,
    NO_REPLICA,
    PREEMPTED,
    PREFILL,
    PREFILL_OTHERS,
    QUEUE,
    RETRY,
    SLOW,
    TRANSFER,
    Blame,
)
from poise.core.request import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from poise.core.action import Entry
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica
    from poise.core.request import RequestView, Sequence

BY_PHASE: Final = -1
"""`Attribution.charge`: time goes to the parts of the phase."""


def capped_sum(first: int, last: int, cap: int) -> int:
    """Σ min(c, cap) over the whole numbers first ≤ c ≤ last."""
    below = max(0, min(last, cap) - first + 1)
    return below * (2 * first + below - 1) // 2 + (last - first + 1 - below) * cap


class Clock(Protocol):
    """Whoever knows what time it is."""

    now: int


class Accounts(Protocol):
    """What the accounts of a run share: `Attributions`."""

    blame: Blame
    clock: Clock
    served: Callable[[RequestView], bool]

    def alone(self, lane: LaneState, chunk: tuple[int, int, int, int]) -> int:
        """Picoseconds of one chunk alone on a lane."""
        ...


class Attribution:
    """The attribution of one request, from its arrival to its end.

    since: the instant up to which it is charged.  columns: those of the first token, then those of the rest.
    charge: the part that takes everything until it is reset (recovery from a preemption or a loss), or `BY_PHASE`.
    sequence, replica: what it is in which engine; the sequence is None at the gateway.  busy: that of the replica by
    `since`.  ideal: prompt tokens that an infinite cache holds.
    redo: prompt tokens that a preemption made it lose.  start: tokens computed when it began to decode.
    own, miss, again: picoseconds of its prompt's entries since it was admitted.  swap: of swapping, not yet charged.
    wire_at: when its KV gets onto the link.
    """

    __slots__ = (
        "_accounts", "_clock", "again", "busy", "charge", "columns", "ideal", "miss", "own", "phase", "redo", "replica",
        "request", "row", "sequence", "since", "start", "swap", "wire_at",
    )  # fmt: skip

    busy: int
    ideal: int
    replica: Replica
    start: int

    def __init__(self, request: RequestView, accounts: Accounts) -> None:
        self._accounts = accounts
        self._clock = clock = accounts.clock
        self.request = request
        self.row = request.id
        self.columns: list[array[int]] = accounts.blame.ttft
        self.since = clock.now
        self.phase = Phase.HELD
        self.charge = BY_PHASE
        self.sequence: Sequence | None = None
        self.own = self.miss = self.again = self.swap = self.redo = self.wire_at = 0

    # Events of the request -------------------------------------------------------------------------------------------

    def queue(self, sequence: Sequence, replica: Replica, ideal: int) -> None:
        """It joins the queue of a replica; `ideal` prompt tokens would be in a cache that never evicts."""
        if self._clock.now != self.since:
            self.settle()
        self.sequence, self.replica, self.phase = sequence, replica, Phase.WAITING
        sequence.account = self
        if ideal:
            block = replica.pool.block
            ideal = min(ideal, sequence.request.prompt_tokens - 1) // block * block
        self.ideal = ideal

    def move(self, sequence: Sequence, phase: int) -> None:
        """Its sequence enters `phase`."""
        now = self._clock.now
        if now != self.since:
            self._charge(now, sequence.computed, 0)
        self.phase = phase
        if phase == Phase.PREFILL:
            self.busy = self.replica.busy(now)
            if not sequence.produced:
                self.charge = BY_PHASE
        elif phase == Phase.DECODE:
            self.busy = self.replica.busy(now)
            self.start = sequence.computed
            self.charge = BY_PHASE
        elif phase == Phase.WAITING:
            self.charge = PREEMPTED
            if not sequence.produced:
                self.redo = max(self.redo, sequence.computed)
        elif phase == Phase.ENDED or phase == Phase.SENDING:
            sequence.account = self.sequence = None

    def computed(self, entry: Entry, lane: LaneState, elapsed: int, duration: int) -> None:
        """`elapsed` picoseconds of a step of `duration` in which it had `entry` are over."""
        sequence = self.sequence
        if sequence is None or self.charge != BY_PHASE:
            return
        _, tokens, first_layer, last_layer = entry
        done, redo, ideal = sequence.computed, self.redo, self.ideal
        alone = self._accounts.alone(lane, (tokens, done, first_layer, last_layer))
        if alone > duration:
            alone = duration
        after = own = alone
        if done < redo:
            after = own = min(alone, self._behind(redo, entry, lane))
        if done < ideal and redo < ideal:
            own = min(after, self._behind(ideal, entry, lane))
        if elapsed < duration:
            alone, after, own = [part * elapsed // duration for part in (alone, after, own)]
        self.own += own
        if own != alone:
            self.miss += after - own
            self.again += alone - after

    def go_over(self, sequence: Sequence, replica: Replica) -> None:
        """It moved while it decoded: all its KV is at another replica."""
        self.settle()
        self.detach()
        self.sequence, self.replica = sequence, replica
        sequence.account = self

    def follow(self, sequence: Sequence, replica: Replica) -> None:
        """Only its copy is left from now on; the time until now stays charged as the first one spent it."""
        self.cut(self._clock.now)
        self.detach()
        self.own = self.miss = self.again = self.swap = self.redo = 0
        if sequence.phase == Phase.ENDED:
            return  # its first token was its last
        self.sequence, self.replica, self.phase, self.charge = sequence, replica, sequence.phase, BY_PHASE
        sequence.account = self
        self.busy = replica.busy(self._clock.now)
        self.start = sequence.computed

    def lose(self) -> None:
        """Its replica is lost, or its partner's: without a token all work since it was sent is discarded."""
        self.cut(self._clock.now)
        self.detach()
        self.phase = Phase.HELD
        self.redo = self.swap = 0
        if self.columns is self._accounts.blame.rest:
            self.charge = LOST
        else:
            self.charge = BY_PHASE
            self._throw_away()

    def start_again(self) -> None:
        """Its tokens are discarded as well: the first is still to come."""
        self.settle()
        row, ttft, rest = self.row, self._accounts.blame.ttft, self._accounts.blame.rest
        for part, column in enumerate(rest):
            ttft[part][row] += column[row]
            column[row] = 0
        self._throw_away()
        self.columns, self.charge = ttft, BY_PHASE

    def leave(self) -> None:
        """It is rejected, and its client will retry."""
        self.settle()
        self.charge = RETRY

    def come_back(self) -> None:
        """Its client retries."""
        self.settle()
        self.charge = LOST if self.columns is self._accounts.blame.rest else BY_PHASE

    def detach(self) -> None:
        """Follow its sequence no longer."""
        if self.sequence is not None:
            self.sequence.account = None
            self.sequence = None

    # Charging --------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Charge the time up to now, between two steps of its lane."""
        now, sequence = self._clock.now, self.sequence
        if now != self.since:
            self._charge(now, 0 if sequence is None else sequence.computed, 0)

    def cut(self, now: int) -> None:
        """Charge the time up to `now`, in the middle of a step or not."""
        if now == self.since:
            return
        sequence, reached, more = self.sequence, 0, 0
        if sequence is not None:
            reached = sequence.computed
            lane = self.replica.lanes[sequence.lane]
            if self.phase == Phase.PREFILL and lane.steps:
                for each, entry in lane.chunks:
                    if each is sequence:
                        self.computed(entry, lane, now - lane.began_at, lane.first)
            elif self.phase == Phase.DECODE and lane.group.members.get(sequence.id) is sequence:
                done, elapsed, duration = lane.progress(now)
                reached = sequence.offset + lane.group.step + done
                if duration:
                    more = self._decoded(reached, reached + 1) * elapsed // duration
        self._charge(now, reached, more)

    def _charge(self, now: int, reached: int, more: int) -> None:
        """Charge the time up to `now` by phase.

        reached: tokens computed.  more: picoseconds of its own in the running decode step.
        """
        spent, self.since = now - self.since, now
        phase, charge = self.phase, self.charge
        if charge != BY_PHASE:
            self.columns[charge][self.row] += spent
            self.swap = 0
        elif phase == Phase.DECODE:
            self._share(now, spent, DECODE, DECODE_OTHERS, self._decoded(self.start, reached) + more)
        elif phase == Phase.PREFILL:
            self._share(now, spent, PREFILL, PREFILL_OTHERS, self.own)
            self.own = 0
        elif phase == Phase.WAITING:
            self.columns[QUEUE][self.row] += spent
        elif phase == Phase.MOVING:
            self.columns[MOVING][self.row] += spent
        elif phase == Phase.PULLING:
            waited = min(max(self.wire_at - now + spent, 0), spent)
            self.columns[LINK_WAIT][self.row] += waited
            self.columns[TRANSFER][self.row] += spent - waited
        else:
            self.columns[GATEWAY if self._accounts.served(self.request) else NO_REPLICA][self.row] += spent

    def _share(self, now: int, spent: int, part: int, others: int, own: int) -> None:
        """Charge time in which its engine ran steps, or none."""
        columns, row = self.columns, self.row
        before, busy = self.busy, self.replica.busy(now)
        left, self.busy = busy - before, busy
        if left != spent:
            columns[IDLE][row] += spent - left
        if self.replica.spells:
            slow = excess(self.replica.spells, before, busy)
            columns[SLOW][row] += slow
            left -= slow
        if own > left:
            own = left
        columns[part][row] += own
        left -= own
        if self.miss or self.again or self.swap:
            miss = min(self.miss, left)
            again = min(self.again + self.swap, left - miss)
            columns[MISS][row] += miss
            columns[PREEMPTED][row] += again
            left -= miss + again
            self.miss = self.again = self.swap = 0
        columns[others][row] += left

    def _throw_away(self) -> None:
        """Charge what it spent in engines in vain to the loss."""
        row, ttft = self.row, self._accounts.blame.ttft
        for part in IN_ENGINE:
            ttft[LOST][row] += ttft[part][row]
            ttft[part][row] = 0

    # Time alone ------------------------------------------------------------------------------------------------------

    def _behind(self, start: int, entry: Entry, lane: LaneState) -> int:
        """Picoseconds alone of those tokens of an entry that lie behind the first `start` of its prompt."""
        assert self.sequence is not None
        _, tokens, first_layer, last_layer = entry
        tokens -= start - self.sequence.computed
        return self._accounts.alone(lane, (tokens, start, first_layer, last_layer)) if tokens > 0 else 0

    def _decoded(self, computed: int, reached: int) -> int:
        """Picoseconds of the decode steps alone that bring it from `computed` tokens to `reached`: a closed form."""
        steps = reached - computed
        if steps <= 0:
            return 0
        lane = self.replica.decode_lane
        base, per_kv, per_window, *_ = lane.piece_alone()
        time = steps * base + per_kv * (steps * (computed + 1 + reached) // 2)
        if per_window:
            time += per_window * capped_sum(computed + 1, reached, lane.group.window)
        return time
