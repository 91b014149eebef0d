"""Chameleon's adapter cache: of the idle adapters on the device, the one of least value leaves first.

Paper: Chameleon, arXiv 2411.17741 (MICRO 2025), section 4.2. An idle adapter's value is the weighted sum of how often
it was used, how recently, and how large it is; large ones are worth more, since it takes longer to load them again.
Each part is divided by the greatest among the idle adapters, so that all are between 0 and 1.

Parameters: the weights; the defaults 0.45, 0.10 and 0.45 are the paper's. Differences: the paper lets the cache grow
and shrink in the device memory that KV leaves idle, while here the engine has a fixed number of slots of equal size
(`engine.max_loras`); so size counts as the time of a load. The paper's prefetch of the adapters of waiting requests,
and its queues by weighted request size, are not part of it. KV is evicted least recently used first.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.policy import IdleAdapter
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView


@dataclass(slots=True)
class Chameleon:
    """Evict adapters by value.  frequency, recency, size: the weights of its parts."""

    frequency: float = 0.45
    recency: float = 0.10
    size: float = 0.45

    def __post_init__(self) -> None:
        for name in ("frequency", "recency", "size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name):g} is below 0; give a weight of 0 or more")

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """No KV is pinned."""
        return 0

    def evict_adapter(self, idle: list[IdleAdapter], now: int) -> int:
        """The adapter of least value; of equals the one idle for longest."""
        uses = max([each.uses for each in idle]) or 1
        loads = max([each.load for each in idle]) or 1
        oldest = max([now - each.idle_at for each in idle]) or 1

        def value(each: IdleAdapter) -> float:
            recent = 1 - (now - each.idle_at) / oldest
            return self.frequency * each.uses / uses + self.recency * recent + self.size * each.load / loads

        return min(idle, key=value).id
