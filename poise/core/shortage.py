"""Who gives way when a replica runs out of KV blocks, and how what was swapped to host memory comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.errors import PolicyError
from poise.core.outcome import PREEMPTED
from poise.core.policy import Preempt
from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.lane import LaneState
    from poise.core.replica import Replica


class Shortage:
    """One replica's side of it.

    host_bytes: host memory that is left for swapped KV.  unpinned: whether a pin gave way since the last turn.
    """

    __slots__ = ("host_bytes", "preempt", "replica", "unpinned")

    def __init__(self, replica: Replica, preempt: Preempt) -> None:
        self.replica = replica
        self.preempt = preempt
        self.host_bytes = replica.engine.host_kv_bytes
        self.unpinned = False

    def make_room(self, lane: LaneState) -> None:
        """Preempt until the next step of the lane's decodes fits."""
        while lane.group.n and not lane.space.fits(0):
            self.give_way(lane)

    def give_way(self, lane: LaneState) -> Sequence | None:
        """Let a pin go, or preempt one request of the lane; the one that gave way (None for a pin)."""
        replica = self.replica
        if replica.pins.heap:
            replica.pins.give_way()
            self.unpinned = True
            return None
        victim = self.preempt.victim(lane)
        sequence = replica.sequences.get(victim.request)
        if sequence is None or sequence.lane != lane.index:
            raise PolicyError(
                f"{type(self.preempt).__name__} names {victim}, which does not run on lane {lane.spec.name!r}"
            )
        lane.preempted = True
        self._preempt(lane, sequence, victim.swap)
        return sequence

    def restore(self, sequence: Sequence, lane: LaneState) -> None:
        """Bring swapped KV back; the step under composition takes the longer for it."""
        replica, tokens = self.replica, sequence.swapped
        kv_bytes = replica.estimator.kv_bytes(tokens)
        time = replica.estimator.swap(kv_bytes)
        lane.swapping += time
        self.host_bytes += kv_bytes
        replica.queued_tokens -= tokens
        replica.pool.explicit += replica.pool.blocks(tokens)
        sequence.computed, sequence.swapped, sequence.shared, sequence.extent = tokens, 0, 0, len(sequence.request.ids)
        replica.handover.resume(sequence)
        if sequence.account is not None:
            sequence.account.swap = time

    def _preempt(self, lane: LaneState, sequence: Sequence, swap: bool) -> None:
        replica, pool = self.replica, self.replica.pool
        if lane.take_out(sequence):
            replica.queued_tokens += sequence.need
        else:
            lane.prefilling.remove(sequence)
            replica.queued_tokens += sequence.computed
            lane.chunks = [chunk for chunk in lane.chunks if chunk[0] is not sequence]
        pool.explicit -= pool.private(sequence)
        kv_bytes = replica.estimator.kv_bytes(sequence.computed) if swap else 0
        if swap and sequence.computed and kv_bytes <= self.host_bytes:
            self.host_bytes -= kv_bytes
            lane.swapping += replica.estimator.swap(kv_bytes)
            sequence.swapped = sequence.computed
        pool.drop(pool.release(sequence))
        sequence.preemptions += 1
        sequence.move(Phase.WAITING)
        sequence.computed = sequence.chunk = sequence.layer = 0
        replica.running -= 1
        replica.waiting.push_front(sequence)
        replica.out.append((PREEMPTED, sequence))
