"""KV blocks evicted by the rank that a policy gives, instead of least recently used first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, ClassVar

from poise.core.engine.extents import CacheListener
from poise.core.engine.kv_pool import KvPool
from poise.core.engine.runs import Run
from poise.core.errors import PoiseError
from poise.core.policy import RankExtent
from poise.core.request import Sequence


class RankedPool(KvPool):
    """A pool that evicts the least rank first, among equal ones the one released first.

    The rank of an extent is computed when it is released and stays until it is held again: if it moved with the
    clock, what is evicted would depend on how often one looks. The same ranks for all are LRU.
    """

    ranked: ClassVar[bool] = True

    __slots__ = ("_count", "_entries", "_heap", "_last", "_rank", "_releasing")

    def __init__(self, total: int, block: int, caching: bool, listener: CacheListener | None, rank: RankExtent) -> None:
        super().__init__(total, block, caching, listener)
        self._rank = rank
        self._heap: list[tuple[Any, int, Run]] = []
        self._entries: dict[int, int] = {}
        self._last: dict[int, Sequence] = {}
        self._count = 0
        self._releasing: Sequence | None = None

    def release(self, sequence: Sequence, output_id: int = -1, *, returns: bool = False) -> list[Run]:
        """As any pool; also records the last holder of the extents."""
        self._releasing = sequence
        runs = super().release(sequence, output_id, returns=returns)
        for run in runs:
            self._last[run.id] = sequence
        return runs

    def drop(self, runs: list[Run]) -> None:
        """Release extents, and compute the rank of those that are no longer held."""
        super().drop(runs)
        for run in runs:
            if not run.refs:
                self._enlist(run, self._last[run.id])

    def settle(self, available: int) -> None:
        """Evict, the least rank first, until the cached blocks fit in `available`."""
        excess = self.cached - available
        while excess > 0:
            run = self._first()
            self.version += 1
            if run.blocks > excess:
                self.trim(run, excess)
                return
            heappop(self._heap)
            excess -= run.blocks
            self._forget(run)

    def _first(self) -> Run:
        """The cached extent of the least rank; entries of those that were held since are dropped."""
        while self._heap:
            _, count, run = self._heap[0]
            if self._entries.get(run.id) == count and run in self.lru:
                return run
            heappop(self._heap)
        raise PoiseError("KV pool out of balance: blocks to evict and nothing cached")

    def _forget(self, run: Run) -> None:
        super()._forget(run)
        del self._entries[run.id]
        self._last.pop(run.id, None)

    def _enlist(self, run: Run, sequence: Sequence) -> None:
        self._count += 1
        self._entries[run.id] = self._count
        heappush(self._heap, (self._rank(sequence, run.id, run.blocks), self._count, run))

    def _append_anonymous(self, blocks: int) -> None:
        """Blocks without identity are ranked like others, those of one request together."""
        assert self._releasing is not None
        self._anonymous -= 1
        run = Run(self._anonymous, blocks, 0)
        run.found = False
        self.lru[run] = None
        self.cached += blocks
        self._enlist(run, self._releasing)
