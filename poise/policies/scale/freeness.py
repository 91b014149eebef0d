"""Llumnix's scaling: one replica more or fewer when the mean freeness of a pool stays outside a band.

Paper: Llumnix, OSDI 2024, arXiv 2406.03243, section 4.4. A replica's freeness is what it has left for each of its
requests, in blocks, as in `route/llumnix.py`: (free blocks − demand of all that wait) / (running + waiting). Where the
mean over the replicas that serve has been below `up` for `hold_s`, one is added; above `down`, one leaves.

Parameters: 10, 60 and 10 s are the defaults of its code. It differs in this: the paper ends the replica with the fewest
requests, here the world drains the one that came last; and requests held at the gateway make a pool of none grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.units import ps
from poise.core.view import FleetView, PoolView


@dataclass(slots=True)
class Freeness:
    """Keep the mean freeness of each pool between two bounds.

    up, down: blocks per request below which a replica is added, above which one leaves.  hold_s: for how long the mean
    must lie there.  block_tokens: tokens per KV block.
    """

    up: float = 10.0
    down: float = 60.0
    hold_s: float = 10.0
    block_tokens: int = 16
    period_s: float = 1.0
    _since: dict[int, tuple[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.up < self.down:
            raise ValueError(f"up {self.up} is not below down {self.down}; give a band between them")
        if self.hold_s < 0 or self.period_s <= 0 or self.block_tokens < 1:
            raise ValueError("give hold_s of 0 or more, period_s above 0 and block_tokens of 1 or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("free_blocks", "queued_tokens", "running", "waiting")

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """A target for each pool."""
        return [
            Scale(number, pool.wanted + self._step(cluster, number, pool), pool.warm)
            for number, pool in enumerate(cluster.pools)
        ]

    def _step(self, cluster: FleetView, number: int, pool: PoolView) -> int:
        """1, 0 or −1: the side of the band on which the mean has been for long enough."""
        side = self._side(cluster, pool)
        last, since = self._since.get(number, (0, cluster.now))
        if side != last:
            since = cluster.now
        due = cluster.now - since >= ps(self.hold_s)
        self._since[number] = side, cluster.now if due else since
        return side if due else 0

    def _side(self, cluster: FleetView, pool: PoolView) -> int:
        if not pool.serving:
            return int(pool.held > 0 and not pool.wanted)
        mean = fmean(self._freeness(cluster, each) for each in pool.serving)
        return (mean < self.up) - (mean > self.down)

    def _freeness(self, cluster: FleetView, replica: int) -> float:
        waits = cluster.waiting[replica]
        left = cluster.free_blocks[replica] - cluster.queued_tokens[replica] / self.block_tokens
        return left / max(1, cluster.running[replica] + waits)
