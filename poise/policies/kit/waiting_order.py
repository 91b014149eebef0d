"""SGLang's orders of the waiting queue, which is sorted in place: ties keep the order of the last time.

Code: SGLang 0.5.23, `SchedulePolicy` in `managers/schedule_policy.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from poise.core.view import LaneView, SequenceView
from poise.policies.kit.new_tokens import limit

SORTED: Final = 128
"""WAITING_QUEUE_PREFIX_MATCH_MAX: a longer queue is not sorted by prefix."""

SHORT: Final = 32
SHARED: Final = 32
"""IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD and _DEPRIORITIZE_THRESHOLD, tokens: of requests that find no more than the
first in the cache and share the second with one before them, the later ones wait, to find it then."""

ORDERS: Final = ("fcfs", "lpm", "lof", "priority")


@dataclass(slots=True)
class WaitingOrder:
    """The waiting requests in one of `ORDERS`."""

    order: str
    _last: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order {self.order!r} is unknown; give one of {', '.join(ORDERS)}")

    def sorted(self, lane: LaneView) -> Iterable[SequenceView]:
        """The queue in this order."""
        if self.order == "fcfs":
            return lane.queue()
        queue = list(lane.queue())
        if self.order == "priority":
            return sorted(queue, key=lambda sequence: sequence.request.priority)
        new = len(self._last)
        queue.sort(key=lambda sequence: self._last.get(_stay(sequence), new))
        if self.order == "lof":
            queue.sort(key=lambda sequence: -limit(sequence, lane))
        elif len(queue) <= SORTED:
            keys = _by_prefix(lane, queue)
            queue.sort(key=lambda sequence: keys[sequence.id])
        self._last = {_stay(sequence): place for place, sequence in enumerate(queue)}
        return queue


def _stay(sequence: SequenceView) -> tuple[int, int]:
    """A request's time in the queue: after a retraction it is another one."""
    return sequence.id, sequence.preemptions


def _by_prefix(lane: LaneView, queue: list[SequenceView]) -> dict[int, float]:
    """By request, the tokens that it finds in the cache, negative; none for those that had better wait."""
    keys: dict[int, float] = {}
    seen: set[int] = set()
    for sequence in queue:
        cached = lane.cached(sequence)
        keys[sequence.id] = -cached
        if cached > SHORT:
            continue
        ids, ends, common = sequence.request.ids, sequence.request.ends, 0
        for extent, end in zip(ids, ends, strict=True):
            if extent not in seen:
                break
            common = end
        if common >= SHARED:
            keys[sequence.id] = inf
        else:
            seen.update(ids)
    return keys
