"""Prefixes of ended requests that a cache policy keeps in the engine for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from poise.core.pins import Pins
from poise.core.policy import Cache
from poise.live.inside.lane import InsideLane
from poise.live.inside.seat import Inner, Seat


class Blocks(Protocol):
    """What holds and frees an engine's KV blocks."""

    def hold(self, inner: Inner) -> Sequence[Any]:
        """Hold the full blocks of a request that ends, beside those who hold them now; its last block first."""
        ...

    def drop(self, nodes: Any) -> None:
        """Let go of blocks, in the order in which they shall be evicted."""
        ...


class Pinned:
    """A cache policy and its pins; `now` tells the instant."""

    def __init__(self, cache: Cache, blocks: Blocks, now: Callable[[], int]) -> None:
        self.pins = Pins(blocks)  # type: ignore[arg-type]  # of a pool, pins ask only that it drops
        self._cache = cache
        self._blocks = blocks
        self._now = now

    def keep(self, seat: Seat, lane: InsideLane) -> None:
        """A request is complete: ask for how long its prefix is kept."""
        time = self._cache.keep(seat.request, seat, lane)
        blocks = list(self._blocks.hold(seat.inner)) if time > 0 else []
        if blocks:
            self.pins.add(seat.request.session, blocks, self._now() + time)

    def back(self, session: int) -> None:
        """A session is back, and what it needs it holds itself."""
        self.pins.release(session)

    def expire(self, now: int) -> None:
        """Let go of the pins whose time is over."""
        while self.pins.next_at <= now:
            self.pins.drop_first()
