"""The prefix extents that a replica has cached, as runs: which ones are held, and the eviction order of the others."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from poise.core.engine.runs import Path, Run, parting
from poise.core.errors import PoiseError

CacheListener = Callable[[int, bool], None]


class Extents:
    """Extents of a prompt are mostly taken, released and evicted together; a run is split where a part of it is held.

    held: blocks in held extents.  cached: blocks in extents that are not held.
    nodes: by extent, the run that it is in.  lru: the runs that are not held, the next to be evicted first.
    listener: called with each extent that enters (True) or leaves (False) the cache.
    version: changes whenever a look-up could answer differently.
    ranked: whether a run released later may be evicted sooner; each extent is a run of its own then.
    """

    ranked: ClassVar[bool] = False

    __slots__ = ("cached", "held", "listener", "lru", "nodes", "version")

    def __init__(self, listener: CacheListener | None = None) -> None:
        self.listener = listener
        self.held = 0
        self.cached = 0
        self.version = 0
        self.nodes: dict[int, Run] = {}
        self.lru: OrderedDict[Run, None] = OrderedDict()

    def find(self, path: Path, limit: int, runs: list[Run]) -> tuple[int, int]:
        """Append the runs that a prompt's first blocks lie in until `limit` is reached; extents and blocks found."""
        ids, bounds, nodes = path.ids, path.bounds, self.nodes
        most = min(len(ids), bisect_left(bounds, limit) + 1) if limit else 0
        place = hit = 0
        while place < most:
            run = nodes.get(ids[place])
            if run is None:
                break
            assert run.path is not None
            place = parting(run.path.ids, ids, place + 1, min(run.end, most))
            runs.append(run)
            hit = min(run.start + run.blocks, bounds[place - 1])
            if hit < bounds[place - 1]:
                break
        return place, hit

    def hold(self, run: Run) -> None:
        """Hold a run once more."""
        if not run.refs:
            del self.lru[run]
            self.cached -= run.blocks
            self.held += run.blocks
        run.refs += 1

    def split(self, run: Run, place: int) -> Run:
        """Make the extents of a run before `place` a run of their own, which is returned.

        The rest keeps its place among those to be evicted, so its holders need no update.
        """
        path = run.path
        assert path is not None
        blocks = path.bounds[place - 1] - run.start
        head = Run(run.id, blocks, run.refs, path, run.first, place, run.start)
        self.nodes.update(dict.fromkeys(head.extents, head))
        head.before, run.before = run.before, head
        head.parted = True
        run.id, run.first, run.start = path.ids[place], place, run.start + blocks
        run.blocks -= blocks
        if not run.refs:
            self.lru[head] = None
        self.version += 1
        return head

    def share(self, held: list[Run], path: Path, place: int, end: int, full: int) -> int:
        """Cache a prompt's extents from `place` to `end`, computed up to `full` blocks; returns how many became shared.

        held: the runs that the sequence holds, to which new ones are appended.
        Where another sequence computed the same extents meanwhile, this one's copies stay private.
        """
        ids, bounds, nodes, moved = path.ids, path.bounds, self.nodes, 0
        while place < end:
            run = nodes.get(ids[place])
            if run is None:
                after = place + 1 if self.ranked else self._absent(ids, place + 1, end)
                upto = bounds[after - 1]
                moved += self._enter(held, path, place, after, upto if upto < full else full)
            else:
                assert run.path is not None
                after = parting(run.path.ids, ids, place + 1, run.end if run.end < end else end)
                if after == run.end and held and held[-1] is run:
                    moved += self._fill(run, path, min(bounds[after - 1], full))
            place = after
        return moved

    def drop(self, runs: list[Run]) -> None:
        """Release runs, in the order in which they shall be evicted."""
        lru, freed, count = self.lru, 0, len(runs)
        for place, held in enumerate(runs, 1):
            stop = runs[place] if place < count else None
            run: Run | None = held
            while run is not None and run is not stop:
                run.refs -= 1
                if not run.refs:
                    freed += run.blocks
                    lru[run] = None
                run = run.before
        self.held -= freed
        self.cached += freed

    def settle(self, available: int) -> None:
        """Evict until the cached blocks fit in `available`, the blocks that are not held."""
        excess = self.cached - available
        if excess <= 0:
            return
        self.version += 1
        while excess > 0:
            if not self.lru:
                raise PoiseError(f"KV pool out of balance: {excess} blocks to evict and nothing cached")
            run = next(iter(self.lru))
            if run.blocks > excess:
                self.trim(run, excess)
                return
            excess -= run.blocks
            self._forget(run)

    def _absent(self, ids: tuple[int, ...], place: int, end: int) -> int:
        """Up to which place none of the extents from `place` on is cached; at most `end`."""
        nodes = self.nodes
        if place == end or nodes.keys().isdisjoint(ids[place:end]):
            return end
        while ids[place] not in nodes:
            place += 1
        return place

    def _enter(self, held: list[Run], path: Path, place: int, end: int, upto: int) -> int:
        """Cache extents that a sequence computes, the path's blocks up to `upto`; how many blocks they are.

        Where only this sequence holds a run that they go on from, they become a part of it.
        """
        start = path.bounds[place - 1] if place else 0
        run = held[-1] if held else None
        if (
            run is not None and run.refs == 1 and run.end == place and run.start + run.blocks == start
            and not (run.parted or self.ranked)
        ):  # fmt: skip
            run.path, run.end, run.blocks = path, end, upto - run.start
        else:
            run = Run(path.ids[place], upto - start, 1, path, place, end, start)
            held.append(run)
        self.found(path.ids[place:end], run, upto - start)
        return upto - start

    def _fill(self, run: Run, path: Path, upto: int) -> int:
        """The last extent of a run that a sequence holds is computed up to `upto` blocks of the path; how many more."""
        more = upto - run.start - run.blocks
        if more <= 0:
            return 0
        run.path = path
        run.blocks += more
        self.held += more
        self.version += 1
        return more

    def found(self, extents: tuple[int, ...], run: Run, blocks: int) -> None:
        """Extents are cached from now on, in a run that is held."""
        self.nodes.update(dict.fromkeys(extents, run))
        self.held += blocks
        self.version += 1
        if self.listener:
            for extent in extents:
                self.listener(extent, True)

    def _forget(self, run: Run) -> None:
        """Evict a run."""
        del self.lru[run]
        self.cached -= run.blocks
        if run.path is not None:
            self._lose(run.path.ids[run.first : run.end])

    def trim(self, run: Run, blocks: int) -> None:
        """Evict some blocks, but not all, from the end of a run."""
        run.blocks -= blocks
        self.cached -= blocks
        path, end, upto = run.path, run.end, run.start + run.blocks
        if path is not None and end - run.first > 1 and upto <= path.bounds[end - 2]:
            run.end = bisect_left(path.bounds, upto, run.first) + 1
            self._lose(path.ids[run.end : end])

    def _lose(self, extents: tuple[int, ...]) -> None:
        """Extents are evicted, the last first."""
        nodes = self.nodes
        for extent in reversed(extents):
            del nodes[extent]
            if self.listener:
                self.listener(extent, False)
