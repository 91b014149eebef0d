"""The budget of KV blocks: those not held, now and after the running or next steps of the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.engine.decode_group import DecodeGroup
from poise.core.engine.kv_pool import KvPool
from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState


class KvBudget:
    """The blocks of one replica, its lanes' decodes counted in closed form.

    lanes: of the replica, in order.  only: the lane where there is but one (then a bound in O(1) mostly will do).
    now: the instant of the replica's turn; a running lane is counted up to its current step.
    """

    __slots__ = ("lanes", "now", "only", "pool")

    def __init__(self, pool: KvPool) -> None:
        self.pool = pool
        self.lanes: list[LaneState] = []
        self.only: LaneState | None = None
        self.now = 0

    def set_lanes(self, lanes: list[LaneState]) -> None:
        """Set the lanes, once they are built."""
        self.lanes = lanes
        self.only = lanes[0] if len(lanes) == 1 else None

    def available(self, now: int, passed: bool = False) -> int:
        """KV blocks that are not held at `now`: free, or cached and evictable."""
        pool = self.pool
        taken = sum([lane.group.private(lane.reach(now, passed)) for lane in self.lanes])
        return pool.total - pool.held - pool.explicit - taken

    def fits(self, blocks: int) -> bool:
        """Whether `blocks` blocks are left between two steps, after the next step of each idle lane's decodes."""
        pool = self.pool
        left = pool.total - pool.held - pool.explicit - blocks
        if self.only is not None:
            if self.room_at_least(self.only.group) >= blocks:  # it settles most questions
                return True
        elif left >= self._taken_ahead_at_most():
            return True
        return left >= self._taken_ahead()

    def room_at_least(self, group: DecodeGroup) -> int:
        """A lower bound of `left`, in O(1), where there is but one lane, with this group."""
        pool = self.pool
        at_most = (group.offsets + group.n * (group.step + 1)) // group.block + group.n - group.shared
        return pool.total - pool.held - pool.explicit - at_most

    def left(self) -> int:
        """KV blocks that are not held between two steps, after the next step of each idle lane's decodes."""
        pool = self.pool
        return pool.total - pool.held - pool.explicit - self._taken_ahead()

    def refresh(self, now: int, passed: bool = False) -> None:
        """Bring the prefix cache's contents up to `now`, for readers from outside."""
        pool, lane = self.pool, self.only
        if not pool.cached:
            return
        if lane is not None:  # the bound first, as in `fits`
            free = pool.total - pool.held - pool.explicit - pool.cached
            if free >= lane.group.private_at_most(lane.group.step + lane.steps + 1):
                return
        pool.settle(max(0, self.available(now, passed)))

    def settle(self) -> None:
        """Evict as much as the blocks taken so far, and those of the next step, require."""
        pool, lane = self.pool, self.only
        left = pool.total - pool.held - pool.explicit
        if lane is not None and left - pool.cached >= lane.group.private_at_most(lane.group.step + (lane.steps or 1)):
            return
        pool.settle(max(0, left - self._taken_ahead()))

    def blocks_for(self, sequence: Sequence, tokens: int) -> int:
        """KV blocks that become unavailable when `tokens` further tokens of a sequence are computed."""
        block = self.pool.block
        if sequence.phase != Phase.WAITING:
            return -(-(sequence.computed + tokens) // block) - -(-sequence.computed // block)
        if not (sequence.request.ids or sequence.own is not None or sequence.swapped or sequence.source >= 0):
            return -(-tokens // block)
        if sequence.swapped:
            return -(-sequence.need // block)  # room to go on, or it would be swapped out again at once
        hit = self.pool.lookup(sequence)
        if sequence.source >= 0:
            tokens = sequence.need - 1 - hit * block
        blocks = -(-tokens // block)
        return blocks + self.pool.idle_hit(sequence) if hit else blocks

    def steps(self, lane: LaneState, limit: int) -> int:
        """How many of `limit` decode steps the lane may hold before the KV blocks run out; at least 1."""
        group = lane.group
        left = self._unchanged()
        at_most = group.private_at_most(group.step + limit)
        for other in self.lanes:
            if other is not lane:
                at_most += _taken_at_end_at_most(other)
        if at_most <= left:
            return limit
        for other in self.lanes:
            if other is not lane:
                left -= _taken_at_end(other)
        return max(1, group.steps_within(left - group.private(group.step), limit))

    def _taken_ahead(self) -> int:
        now = self.now
        taken = 0
        for lane in self.lanes:
            taken += lane.group.private(lane.reach(now) if lane.steps else lane.group.step + 1)
        return taken

    def _taken_ahead_at_most(self) -> int:
        """An upper bound of `_taken_ahead`, in O(1) a lane: a running lane is counted to its hold's end."""
        taken = 0
        for lane in self.lanes:
            group = lane.group
            if group.n:
                taken += group.private_at_most(group.step + (lane.steps or 1))
        return taken

    def crowded(self) -> bool:
        """Whether the lanes' holds together may take more blocks than there are."""
        left = self._unchanged()
        if sum(map(_taken_at_end_at_most, self.lanes)) <= left:
            return False
        return sum(map(_taken_at_end, self.lanes)) > left

    def _unchanged(self) -> int:
        """Blocks that holds may take before a waiting request could be admitted, or one must be preempted.

        Evictions of the least recently used, tails of prefixes first, never make room for one that had none. By rank
        the head of a prefix may go first, and with it all reason to keep the rest free for who waits.
        """
        pool = self.pool
        left = pool.total - pool.held - pool.explicit
        return left - pool.cached if pool.ranked and self.lanes[0].replica.waiting else left


def _taken_at_end(lane: LaneState) -> int:
    """Blocks that a lane's decodes alone use when its hold ends."""
    return lane.group.private(lane.group.step + (lane.steps if lane.decoded else 0))


def _taken_at_end_at_most(lane: LaneState) -> int:
    """An upper bound of `_taken_at_end`, in O(1)."""
    group = lane.group
    return group.private_at_most(group.step + lane.steps) if group.n else 0
