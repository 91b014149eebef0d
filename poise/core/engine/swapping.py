"""KV of preempted requests in host memory, and the copies on their way there and back.

A swap lengthens a step, or runs in parallel to the steps (`Swapping.beside`). Then copies follow one another over the
link to the host in the order in which they were begun, so one that overwrites what another still reads comes after it.
Blocks on their way out are free when their copy has ended; a step that cannot wait for that long waits for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from poise.core.policy import Swapping
from poise.core.request import Phase, Sequence
from poise.core.units import NEVER

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica


class SwapSpace:
    """One replica's swapping.

    host_bytes: host memory that is left.  how: what copies are like.  copies: running requests of which the host keeps
    a copy (`Sequence.kept`), the oldest first.  flying: `(at, who comes back or None, blocks that become free)` in the
    order of their ends; empty when nothing is on its way, which is all that the hot path checks.
    """

    __slots__ = ("_free_at", "copies", "flying", "host_bytes", "how", "replica")

    def __init__(self, replica: Replica, how: Swapping) -> None:
        self.replica = replica
        self.how = how
        self.host_bytes = replica.engine.host_kv_bytes
        self.copies: dict[Sequence, None] = {}
        self.flying: deque[tuple[int, Sequence | None, int]] = deque()
        self._free_at = 0

    @property
    def next_at(self) -> int:
        """When the next copy ends."""
        return self.flying[0][0] if self.flying else NEVER

    @property
    def leaving(self) -> int:
        """Blocks that are taken until their copy to the host has ended."""
        return sum([blocks for _, _, blocks in self.flying])

    def out(self, sequence: Sequence, lane: LaneState, private: int) -> bool:
        """Copy the KV of a request to the host; False where there is no room for it.

        Of its blocks, `private` are its alone: where the copy runs in parallel they stay taken until it has ended.
        """
        kv_bytes = self.replica.estimator.kv_bytes
        tokens, kept = sequence.computed, sequence.kept
        self.copies.pop(sequence, None)
        sequence.kept = 0
        more = kv_bytes(tokens) - kv_bytes(kept)
        while more > self.host_bytes and self.copies:
            self._forget(next(iter(self.copies)))
        if more > self.host_bytes:
            self.host_bytes += kv_bytes(kept)
            return False
        self.host_bytes -= more
        sequence.swapped = tokens
        time = self._time(tokens, kept)
        if self.how.beside:
            self._fly(time, None, private)
        else:
            lane.swapping += time
        return True

    def back(self, sequence: Sequence, lane: LaneState) -> None:
        """Bring swapped KV back: in parallel to the steps, or in the step being composed, which takes longer for it."""
        replica, tokens = self.replica, sequence.swapped
        time = self._time(tokens, 0)
        sequence.shared, sequence.extent = 0, len(sequence.request.ids)
        if self.how.beside:
            replica.pool.take(sequence, tokens)
            sequence.move(Phase.PULLING)
            at = self._fly(time, sequence, 0)
            if sequence.account is not None:
                sequence.account.wire_at = at - time
            return
        lane.swapping += time
        replica.queued_tokens -= tokens
        replica.pool.explicit += replica.pool.blocks(tokens)
        sequence.computed = tokens
        self._arrived(sequence)
        replica.kv_transfer.resume(sequence)
        if sequence.account is not None:
            sequence.account.swap = time

    def land(self, now: int) -> bool:
        """End the copies that end by `now`, between two steps; returns whether there were any."""
        replica, landed = self.replica, False
        while self.next_at <= now:
            _, sequence, blocks = self.flying.popleft()
            replica.pool.explicit -= blocks
            if sequence is None:
                landed = True
            elif sequence.phase == Phase.PULLING:  # else its client left meanwhile
                replica.kv_transfer.received(sequence.id)
                self._arrived(sequence)
                replica.kv_transfer.resume(sequence)
                landed = True
        return landed

    def wait(self, lane: LaneState) -> bool:
        """Let the step under composition wait for the next blocks on their way out; False if there are none."""
        for place, (at, _, blocks) in enumerate(self.flying):
            if blocks:
                del self.flying[place]
                self.replica.pool.explicit -= blocks
                lane.swapping = max(lane.swapping, at - self.replica.space.now)
                return True
        return False

    def end(self, sequence: Sequence) -> None:
        """A request has left; free its host memory."""
        if sequence.swapped:
            self.host_bytes += self.replica.estimator.kv_bytes(sequence.swapped)
            sequence.swapped = 0
        elif sequence.kept:
            self._forget(sequence)

    def _time(self, tokens: int, kept: int) -> int:
        """Picoseconds to copy the tokens of a request, but for its first `kept`, which are whole blocks."""
        replica, pool = self.replica, self.replica.pool
        blocks = pool.blocks(tokens) - kept // pool.block
        runs = -(-blocks // self.how.run_blocks)
        return replica.estimator.swap(replica.estimator.kv_bytes(tokens - kept), runs)

    def _fly(self, time: int, sequence: Sequence | None, blocks: int) -> int:
        """Queue a copy on the link; returns when it will end."""
        self._free_at = at = max(self._free_at, self.replica.space.now) + time
        self.flying.append((at, sequence, blocks))
        self.replica.odd = True
        return at

    def _arrived(self, sequence: Sequence) -> None:
        """The KV is back: the host drops it, or keeps the blocks that will not change any more."""
        kv_bytes, block = self.replica.estimator.kv_bytes, self.replica.pool.block
        tokens, sequence.swapped = sequence.swapped, 0
        sequence.kept = tokens // block * block if self.how.keeps else 0
        self.host_bytes += kv_bytes(tokens) - kv_bytes(sequence.kept)
        if sequence.kept:
            self.copies[sequence] = None

    def _forget(self, sequence: Sequence) -> None:
        del self.copies[sequence]
        self.host_bytes += self.replica.estimator.kv_bytes(sequence.kept)
        sequence.kept = 0
