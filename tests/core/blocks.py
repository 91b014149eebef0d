"""A KV cache block by block, as slow and as plain as can be: the reference for `KvPool`.

Each block is an object; a free queue holds those that nobody uses, the first to be taken first, and what it held is
forgotten only when it is taken (vLLM's block pool). Blocks with identity belong to an extent and are held, freed and
found with it; an extent's blocks are freed tail first. A block that is not full is the first to be taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.runs import Run


@dataclass(eq=False)
class Block:
    """One block; `extent` is the prefix extent whose tokens it holds, -1 for none that anybody could find."""

    extent: int = -1


@dataclass
class Work:
    """One sequence: its prompt's extents, its blocks by position and the extents that it holds."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    blocks: list[Block] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    computed: int = 0
    known: int = 0  # extents whose blocks are all computed
    own: int = -1  # the extent of what it left when it gave way, which it alone can find


OWN = 10**6
"""The extents of what preempted sequences leave are numbered from here on."""


class BlockPool:
    """All blocks of a replica."""

    def __init__(self, total: int, size: int) -> None:
        self.size = size
        self.queue = [Block() for _ in range(total)]
        self.cached: dict[int, list[Block]] = {}
        self.holders: dict[int, int] = {}
        self.owns = OWN

    def _span(self, work: Work, index: int) -> tuple[int, int]:
        """The positions of an extent's blocks: a block belongs to the extent in which it ends."""
        start = work.ends[index - 1] if index else 0
        return start // self.size, work.ends[index] // self.size

    def hit(self, work: Work, need: int) -> tuple[int, list[int]]:
        """Blocks of a prompt found from its start on, the last token left to compute, and the extents they lie in."""
        limit = (need - 1) // self.size
        blocks, extents = 0, []
        for index, extent in enumerate(work.ids):
            first, last = self._span(work, index)
            if first == last:
                continue
            if blocks >= limit or extent not in self.cached:
                break
            extents.append(extent)
            blocks += len(self.cached[extent])
            if blocks < last:
                break
        else:
            blocks += len(self.cached.get(work.own, ()))
        return min(blocks, limit), extents

    def admit(self, work: Work, need: int) -> None:
        """Hold what is found and start behind it."""
        hit, extents = self.hit(work, need)
        found: list[Block] = []
        for extent in extents:
            self.hold(extent)
            found += self.cached[extent]
        if len(found) < hit:
            found += self._take_back(work.own, hit - len(found))
        work.own = -1
        work.held, work.blocks, work.computed, work.known = extents, found[:hit], hit * self.size, 0

    def _take_back(self, own: int, count: int) -> list[Block]:
        """The first blocks of what a sequence left, nobody else's again."""
        left = self.cached.pop(own)
        if left[count:]:
            self.cached[own] = left[count:]
        for block in left[:count]:
            self.queue.remove(block)
            block.extent = -1
        return left[:count]

    def hold(self, extent: int) -> None:
        if not self.holders.get(extent):
            self.queue = [block for block in self.queue if block.extent != extent]
        self.holders[extent] = self.holders.get(extent, 0) + 1

    def drop(self, extents: list[int]) -> None:
        """Let go of extents in this order; those that nobody holds join the queue, each tail first."""
        for extent in extents:
            self.holders[extent] -= 1
            if not self.holders[extent]:
                self.queue += self.cached[extent][::-1]

    def grow(self, work: Work, tokens: int) -> None:
        """Compute tokens: take blocks for them, then make findable what is full now.

        Copies of others count even where taking these very blocks forgot them: `KvPool` evicts at the end of a chunk.
        """
        there = set(self.cached)
        work.computed += tokens
        while len(work.blocks) * self.size < work.computed:
            work.blocks.append(self._take())
        while work.known < len(work.ids):
            self._share(work, work.known, there)
            if work.computed < work.ends[work.known]:
                break
            work.known += 1

    def free(self, work: Work, output: int = -1, returns: bool = False) -> list[int]:
        """The sequence lets its own blocks go; the extents it held are returned, the last first."""
        if returns:
            self.owns += 1
            output = self.owns
        extents = work.held[::-1]
        start = (work.ends[-1] if work.ends else 0) // self.size
        made = work.blocks[start : work.computed // self.size]
        if output >= 0 and made and output not in self.cached:
            for block in made:
                block.extent = output
            self.cached[output] = made
            self.holders[output] = 1
            extents.insert(0, output)
            work.own = self.owns if returns else -1
        full = work.blocks[: work.computed // self.size]
        self.queue = [*work.blocks[len(full) :], *self.queue, *(block for block in full if block.extent < 0)]
        work.blocks, work.held, work.computed = [], [], 0
        return extents

    def _take(self) -> Block:
        block = self.queue.pop(0)
        if block.extent >= 0:
            gone = self.cached[block.extent].pop()
            assert gone is block, "an extent loses its tail first"
            if not self.cached[block.extent]:
                del self.cached[block.extent]
        return Block()

    def _share(self, work: Work, index: int, there: set[int]) -> None:
        """Give the full blocks of an extent to it, unless somebody else's copies are there already."""
        extent = work.ids[index]
        first, last = self._span(work, index)
        full = work.blocks[first : min(last, work.computed // self.size)]
        if not full:
            return
        if extent not in there:
            self.cached[extent] = []
            self.holders[extent] = 1
            work.held.append(extent)
        elif not work.held or work.held[-1] != extent:
            return
        for block in full[len(self.cached[extent]) :]:
            block.extent = extent
            self.cached[extent].append(block)


def known(pool: KvPool) -> dict[int, int]:
    """Blocks of every extent that a pool has cached, as its runs say."""
    blocks: dict[int, int] = {}
    for run in set(pool.nodes.values()):
        assert run.path is not None
        reach = [run.start, *run.path.bounds[run.first : run.end - 1], run.start + run.blocks]
        blocks |= {extent: reach[place + 1] - reach[place] for place, extent in enumerate(run.extents)}
    return blocks


def idle(pool: KvPool) -> list[int]:
    """The extents that nobody holds, the next to be evicted first."""
    return [extent for run in pool.lru for extent in reversed(run.extents)]


def held(runs: list[Run]) -> list[int]:
    """The extents of runs that somebody holds, the last first; a run's head may have been split off since."""
    extents: list[int] = []
    for place, run in enumerate(runs):
        part: Run | None = run
        while part is not None and part not in runs[place + 1 :]:
            extents += reversed(part.extents)
            part = part.before
    return extents
