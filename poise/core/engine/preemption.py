"""Preemption: which requests are preempted when a replica runs out of KV blocks, or by a policy's review."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poise.core.engine.outcome import PREEMPTED
from poise.core.errors import PolicyError
from poise.core.policy import Preempt, Victim
from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica


class Preemptor:
    """One replica's preemption.  freed: whether a pin was released, or a review had an effect, since the last turn."""

    __slots__ = ("freed", "preempt", "replica", "retracted")

    def __init__(self, replica: Replica, preempt: Preempt) -> None:
        self.replica = replica
        self.preempt = preempt
        self.freed = False
        self.retracted: Callable[[LaneState], None] | None = getattr(replica.batcher, "retracted", None)

    def make_room(self, lane: LaneState) -> None:
        """Preempt until the next step of the lane's decodes fits."""
        while lane.group.n and not lane.space.fits(0):
            self.give_way(lane)
        if self.retracted is not None and lane.preempted:
            self.retracted(lane)

    def give_way(self, lane: LaneState) -> Sequence | None:
        """Release a pin, wait for a copy, or preempt a request of the lane; returns the preempted one (None: none)."""
        replica = self.replica
        if replica.pins.heap:
            replica.pins.give_way()
            self.freed = True
            return None
        if replica.swaps.flying and replica.swaps.wait(lane):
            return None
        sequence = self._preempt(lane, self.preempt.preempt(lane))
        lane.preempted = True
        return sequence

    def review(self, lane: LaneState) -> None:
        """Preempt the requests that the policy names between two steps; others may be admitted in the next."""
        victims, again = self.preempt.review(lane)  # type: ignore[attr-defined]  # only asked where it has one
        if again <= lane.group.step:
            raise PolicyError(
                f"{type(self.preempt).__name__} asks to review again at decode step {again}, and it is "
                f"{lane.group.step}; give a later one"
            )
        lane.review_at = again
        for victim in victims:
            self._preempt(lane, victim)
        self.replica.waiting.sort_anew()
        self.freed = True  # or another one is first in the queue now, who fits

    def _preempt(self, lane: LaneState, victim: Victim) -> Sequence:
        replica, pool = self.replica, self.replica.pool
        sequence = replica.sequences.get(victim.request)
        if sequence is None or sequence.lane != lane.index or sequence.phase not in (Phase.PREFILL, Phase.DECODE):
            raise PolicyError(
                f"{type(self.preempt).__name__} names {victim}, which does not run on lane {lane.spec.name!r}"
            )
        if lane.take_out(sequence):
            replica.queued_tokens += sequence.need
        else:
            lane.prefilling.remove(sequence)
            replica.queued_tokens += sequence.computed
            lane.chunks = [chunk for chunk in lane.chunks if chunk[0] is not sequence]
        private = pool.private(sequence)
        swapped = victim.swap and sequence.computed > 0 and replica.swaps.out(sequence, lane, private)
        if swapped and replica.swaps.how.beside:
            sequence.shared += private  # none of its blocks is free yet
        else:
            pool.explicit -= private
        pool.drop(pool.release(sequence, returns=not swapped))
        sequence.preemptions += 1
        replica.wait_again(sequence)
        replica.out.append((PREEMPTED, sequence))
        return sequence
