"""Prefixes of ended requests that a cache policy keeps in the engine for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from poise.core.engine.pins import Pins
from poise.core.policy import Cache
from poise.core.request import RequestView
from poise.live.vllm.lane import InsideLane
from poise.live.vllm.request import Inner, Seat


class Blocks(Protocol):
    """The interface to an engine's KV blocks."""

    def hold(self, inner: Inner) -> Sequence[Any]:
        """Hold the full blocks of a request that ends, in addition to their present owners; its last block first."""
        ...

    def drop(self, nodes: Any) -> None:
        """Release blocks, in the order in which they shall be evicted."""
        ...


class Pinned:
    """A cache policy and its pins, with the same calls as from `core.engine.replica.Replica`; `now` is the clock."""

    def __init__(self, cache: Cache, blocks: Blocks, now: Callable[[], int]) -> None:
        self.pins = Pins(blocks)  # type: ignore[arg-type]  # of a pool, pins ask only that it drops
        self._cache = cache
        self._blocks = blocks
        self._now = now
        self._returned: Callable[[RequestView, int], None] | None = getattr(cache, "returned", None)
        self._admitted: Callable[[Seat, int], None] | None = getattr(cache, "admitted", None)
        self._gives_way: Callable[[RequestView], Any] | None = getattr(cache, "gives_way", None)

    def arrived(self, seat: Seat, now: int) -> None:
        """A request queues: the pin of its session, where there is one, no longer expires."""
        if self._returned is not None:
            self._returned(seat.request, now)
        seat.pinned = self.pins.hold(seat.request.session)

    def admitted(self, seat: Seat, now: int) -> None:
        """A request begins to run, and holds its own blocks."""
        if self._admitted is not None:
            self._admitted(seat, now)
        self.pins.release(seat.request.session)
        seat.pinned = False

    def left(self, seat: Seat) -> None:
        """A request has left; one that never ran releases the pin that waited for it."""
        if seat.pinned:
            self.pins.release(seat.request.session)

    def keep(self, seat: Seat, lane: InsideLane) -> None:
        """A request is complete: ask the policy for how long its prefix is kept."""
        time = self._cache.cache(seat.request, seat, lane)
        blocks = list(self._blocks.hold(seat.inner)) if time > 0 else []
        if blocks:
            place = None if self._gives_way is None else self._gives_way(seat.request)
            self.pins.add(seat.request.session, blocks, self._now() + time, place)

    def expire(self, now: int) -> None:
        """Release the pins that have expired."""
        while self.pins.next_at <= now:
            self.pins.drop_first()
