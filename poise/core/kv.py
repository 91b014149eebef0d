"""The KV blocks of one replica: shared prefix extents, private blocks, and which cached ones go first.

A block is in one of four places: private to a sequence, in an extent that a sequence or a pin holds, in an extent
that nobody holds (cached: evicted when needed, least recently used first), or free. Counts are kept, not lists of
blocks; and what decoding sequences take is not even counted here but computed by their group when it is asked for
(`DecodeGroup.private`), so `free` is whatever is left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from poise.core.errors import PoiseError
from poise.core.request import Sequence

CacheListener = Callable[[int, bool], None]


class Node:
    """One prefix extent in the cache: its blocks, how many sequences and pins hold it, and whether it may be found."""

    __slots__ = ("blocks", "found", "id", "refs")

    def __init__(self, extent: int, blocks: int, refs: int, found: bool = True) -> None:
        self.id = extent
        self.blocks = blocks
        self.refs = refs
        self.found = found


class KvPool:
    """Blocks and prefix extents of one replica.

    total: blocks.  held: blocks in extents that somebody holds.  cached: blocks in extents that nobody holds.
    explicit: private blocks of all sequences that are not in a decode group.
    listener: told of each extent that enters (True) or leaves (False) the cache.
    version: changes whenever a look-up could answer differently.
    ranked: whether what is let go of later may be evicted sooner.
    """

    ranked: ClassVar[bool] = False

    __slots__ = (
        "_ageing",
        "_anonymous",
        "block",
        "cached",
        "caching",
        "explicit",
        "held",
        "listener",
        "lru",
        "nodes",
        "total",
        "version",
    )

    def __init__(self, total: int, block: int, caching: bool, listener: CacheListener | None = None) -> None:
        self.total = total
        self.block = block
        self.caching = caching
        self.listener = listener
        self.held = 0
        self.cached = 0
        self.explicit = 0
        self.version = 0
        self.nodes: dict[int, Node] = {}
        self.lru: OrderedDict[int, Node] = OrderedDict()
        self._anonymous = -1
        self._ageing: Node | None = None  # the blocks without identity that were let go of last

    def blocks(self, tokens: int) -> int:
        """Blocks that `tokens` tokens take."""
        return -(-tokens // self.block)

    def private(self, sequence: Sequence) -> int:
        """Blocks of the tokens computed, and of the chunk under way, that only this sequence uses."""
        return -(-(sequence.computed + sequence.chunk) // self.block) - sequence.shared

    def lookup(self, sequence: Sequence) -> int:
        """Blocks of a waiting sequence's prompt that are cached; its last token is always left to compute.

        vLLM's rule: a token must be computed to sample the next, so a full hit gives its last block back.
        """
        if sequence.hit_version == self.version:
            return sequence.hit
        found: list[Node] = []
        hit = start = 0
        request = sequence.request
        own = 0
        if self.caching and (request.ids or sequence.own is not None):
            block, nodes = self.block, self.nodes
            limit = (sequence.need - 1) // block
            for extent, end in zip(request.ids, request.ends, strict=True):
                whole = end // block - start // block
                if whole:
                    node = nodes.get(extent)
                    if node is None or hit >= limit:
                        break
                    found.append(node)
                    hit += min(node.blocks, whole)
                    if node.blocks < whole:
                        break
                start = end
            else:
                own = max(0, min(self._left_of(sequence), limit - hit))
            hit = min(hit + own, limit)
        sequence.hit_nodes = found
        sequence.hit_own = own
        sequence.hit = hit
        sequence.hit_version = self.version
        return hit

    def _left_of(self, sequence: Sequence) -> int:
        """Blocks behind its last extent that a preempted sequence left here, and that nobody took meanwhile."""
        own = None if sequence.own is None else self.lru.get(sequence.own.id)
        return 0 if own is None else own.blocks

    def idle_hit(self, sequence: Sequence) -> int:
        """Blocks that holding what `lookup` found takes out of the evictable ones."""
        return sum(node.blocks for node in sequence.hit_nodes if not node.refs) + sequence.hit_own

    def admit(self, sequence: Sequence) -> None:
        """Hold the cached prefix of a sequence; its computed tokens start there."""
        sequence.extent = 0
        if not sequence.request.ids and sequence.own is None:
            sequence.computed = sequence.shared = 0
            return
        hit = self.lookup(sequence)
        for node in sequence.hit_nodes:
            self._hold(node)
        sequence.nodes = list(sequence.hit_nodes)
        sequence.shared = hit - sequence.hit_own
        sequence.computed = hit * self.block
        if sequence.own is not None:
            self._take_back(sequence.own, sequence.hit_own)
            sequence.own = None

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Take blocks for a chunk of `tokens` further tokens, and cache the extents that it completes.

        As in vLLM, blocks are findable from the moment their step is scheduled.
        """
        self.take(sequence, tokens)
        if sequence.request.ids:
            self.register(sequence)

    def take(self, sequence: Sequence, tokens: int) -> None:
        """Take private blocks for a chunk of `tokens` further tokens."""
        computed = sequence.computed
        self.explicit += -(-(computed + tokens) // self.block) - -(-computed // self.block)
        sequence.chunk = tokens

    def register(self, sequence: Sequence) -> None:
        """Cache the extents that the computed tokens and the chunk under way complete."""
        if not (self.caching and sequence.request.ids):
            return
        block = self.block
        upto = sequence.computed + sequence.chunk
        ids, ends = sequence.request.ids, sequence.request.ends
        index = sequence.extent
        while index < len(ids):
            start = ends[index - 1] if index else 0
            reach = min(ends[index], upto)
            blocks = reach // block - start // block
            if blocks > 0:
                moved = self._share(sequence, ids[index], blocks)
                sequence.shared += moved
                self.explicit -= moved
            if reach < ends[index]:
                break
            index += 1
        sequence.extent = index

    def release(self, sequence: Sequence, output_id: int = -1, *, returns: bool = False) -> list[Node]:
        """Free the private blocks of a sequence (already off `explicit`) and return the extents it held, last first.

        With `output_id` the full blocks behind its last extent are cached under that id first; those of one that
        `returns` it finds again itself. A block that is not full nobody could find: it is free at once.
        The caller drops or pins the extents; they are freed tail first, so that heads of prefixes live longest.
        """
        full = sequence.computed // self.block
        private = min(self.private(sequence), full - sequence.shared)
        nodes: list[Node] = sequence.nodes[::-1]
        if self.caching and (returns or (output_id >= 0 and output_id not in self.nodes)):
            start = sequence.request.ends[-1] if sequence.request.ends else 0
            blocks = min(full - start // self.block, private)
            if blocks > 0:
                nodes.insert(0, self._leave(sequence, blocks) if returns else self._enter(output_id, blocks))
                private -= blocks
        if private > 0 and self.lru:
            self._append_anonymous(private)
        sequence.nodes = []
        sequence.shared = 0
        sequence.hit_version = -1
        return nodes

    def drop(self, nodes: list[Node]) -> None:
        """Let go of extents, in the order in which they shall be evicted."""
        for node in nodes:
            node.refs -= 1
            if not node.refs:
                self.held -= node.blocks
                self.cached += node.blocks
                self.lru[node.id] = node

    def settle(self, available: int) -> None:
        """Evict until the cached blocks fit in `available`, the blocks that nobody holds."""
        excess = self.cached - available
        while excess > 0:
            if not self.lru:
                raise PoiseError(f"KV pool out of balance: {excess} blocks to evict and nothing cached")
            node = next(iter(self.lru.values()))
            self.version += 1
            if node.blocks > excess:
                node.blocks -= excess
                self.cached -= excess
                return
            self.lru.popitem(last=False)
            self.cached -= node.blocks
            excess -= node.blocks
            if node.id >= 0:
                del self.nodes[node.id]
                if self.listener:
                    self.listener(node.id, False)

    def resize(self, blocks: int) -> None:
        """So many blocks more, or fewer, which are free or evictable; else who uses them gives way at its next step.

        Call `Space.refresh` before and after: what steps under way have evicted does not depend on what comes now.
        """
        self.total += blocks

    def check(self, private: int, short: int = 0) -> None:
        """Assert that every block is in exactly one place, `private` being what all sequences use alone.

        short: blocks in use that are gone, until those who use them have given way.
        """
        held = sum(node.blocks for node in self.nodes.values() if node.refs)
        idle = sum(node.blocks for node in self.lru.values())
        assert held == self.held, f"held {self.held}, extents say {held}"
        assert idle == self.cached, f"cached {self.cached}, extents say {idle}"
        assert all(not node.refs for node in self.lru.values()), "an extent in use is up for eviction"
        assert sum(not node.refs for node in self.nodes.values()) == sum(key >= 0 for key in self.lru), (
            "an idle extent is lost"
        )
        assert 0 <= private + held <= self.total + short, f"{private} private + {held} held of {self.total} blocks"

    def _hold(self, node: Node) -> None:
        if not node.refs:
            del self.lru[node.id]
            self.cached -= node.blocks
            self.held += node.blocks
        node.refs += 1

    def _enter(self, extent: int, blocks: int) -> Node:
        node = self.nodes[extent] = Node(extent, blocks, 1)
        self.held += blocks
        self.version += 1
        if self.listener:
            self.listener(extent, True)
        return node

    def _leave(self, sequence: Sequence, blocks: int) -> Node:
        """Blocks of a preempted sequence that no other can find; they are let go of like extents."""
        self._anonymous -= 1
        node = sequence.own = Node(self._anonymous, blocks, 1)
        self.held += blocks
        return node

    def _take_back(self, own: Node, blocks: int) -> None:
        """Make the first `blocks` blocks of what a sequence left its private ones again; the rest ages on."""
        own.blocks -= blocks
        own.found = False
        self.cached -= blocks
        self.explicit += blocks
        if blocks and not own.blocks:
            self._forget(own)

    def _forget(self, node: Node) -> None:
        """Take an extent without identity out of those that may be evicted."""
        del self.lru[node.id]

    def _append_anonymous(self, blocks: int) -> None:
        """Full blocks that nobody will find age with the cached ones: vLLM frees all of them into one queue."""
        lru = self.lru
        while lru and not (first := next(iter(lru.values()))).found:
            lru.popitem(last=False)  # the next to be evicted, so as good as free
            self.cached -= first.blocks
        if not lru:
            return
        last = next(reversed(lru.values()))
        if last is self._ageing:
            last.blocks += blocks
        else:
            self._anonymous -= 1
            self._ageing = lru[self._anonymous] = Node(self._anonymous, blocks, 0, False)
        self.cached += blocks

    def _share(self, sequence: Sequence, extent: int, blocks: int) -> int:
        """Put the first `blocks` computed blocks of an extent where others find them; how many became shared.

        Where another sequence computed the same extent meanwhile, this one's copy stays private.
        """
        node = self.nodes.get(extent)
        if node is None:
            sequence.nodes.append(self._enter(extent, blocks))
            return blocks
        more = blocks - node.blocks
        if more > 0 and sequence.nodes and sequence.nodes[-1] is node:
            node.blocks += more
            self.held += more
            self.version += 1
            return more
        return 0
