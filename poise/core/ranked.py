"""KV blocks of which a policy says which cached ones go first, instead of least recently used first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, ClassVar

from poise.core.errors import PoiseError
from poise.core.kv import CacheListener, KvPool, Node
from poise.core.policy import RankExtent
from poise.core.request import Sequence


class RankedPool(KvPool):
    """A pool that evicts the least rank first, among equal ones who was let go of first.

    A rank is asked when nobody holds an extent any more and stands until somebody does again: were it to move with the
    clock, what is evicted would depend on how often one looks. The same ranks for all are LRU.
    """

    ranked: ClassVar[bool] = True

    __slots__ = ("_count", "_entries", "_heap", "_last", "_rank", "_releasing")

    def __init__(self, total: int, block: int, caching: bool, listener: CacheListener | None, rank: RankExtent) -> None:
        super().__init__(total, block, caching, listener)
        self._rank = rank
        self._heap: list[tuple[Any, int, Node]] = []
        self._entries: dict[int, int] = {}
        self._last: dict[int, Sequence] = {}
        self._count = 0
        self._releasing: Sequence | None = None

    def release(self, sequence: Sequence, output_id: int = -1, *, returns: bool = False) -> list[Node]:
        """As any pool; and remember who held the extents last."""
        self._releasing = sequence
        nodes = super().release(sequence, output_id, returns=returns)
        for node in nodes:
            self._last[node.id] = sequence
        return nodes

    def drop(self, nodes: list[Node]) -> None:
        """Let go of extents, and ask the rank of those that nobody holds any more."""
        super().drop(nodes)
        for node in nodes:
            if not node.refs:
                self._enlist(node, self._last[node.id])

    def settle(self, available: int) -> None:
        """Evict, the least rank first, until the cached blocks fit in `available`."""
        excess = self.cached - available
        while excess > 0:
            node = self._first()
            self.version += 1
            if node.blocks > excess:
                node.blocks -= excess
                self.cached -= excess
                return
            heappop(self._heap)
            self._forget(node)
            self.cached -= node.blocks
            excess -= node.blocks
            if node.id >= 0:
                del self.nodes[node.id]
                if self.listener:
                    self.listener(node.id, False)

    def _first(self) -> Node:
        """The cached extent of the least rank; entries of those that somebody has held since are thrown away."""
        while self._heap:
            _, count, node = self._heap[0]
            if self._entries.get(node.id) == count and node.id in self.lru:
                return node
            heappop(self._heap)
        raise PoiseError("KV pool out of balance: blocks to evict and nothing cached")

    def _forget(self, node: Node) -> None:
        super()._forget(node)
        del self._entries[node.id]
        self._last.pop(node.id, None)

    def _enlist(self, node: Node, sequence: Sequence) -> None:
        self._count += 1
        self._entries[node.id] = self._count
        heappush(self._heap, (self._rank(sequence, node.id, node.blocks), self._count, node))

    def _append_anonymous(self, blocks: int) -> None:
        """Blocks without identity are ranked like others, those of one request together."""
        assert self._releasing is not None
        self._anonymous -= 1
        node = self.lru[self._anonymous] = Node(self._anonymous, blocks, 0, False)
        self.cached += blocks
        self._enlist(node, self._releasing)
