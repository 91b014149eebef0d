"""Prompts as paths of extents, and runs: neighbouring extents of a path that a prefix cache treats as one."""

from __future__ import annotations

from collections.abc import Sequence


class Path:
    """The extents of a prompt in which blocks end, in order.

    ids, ends: as in `RequestView`.  bounds: full blocks up to each end, ascending.
    Ids are chained: where two paths have the same id, they are the same up to there. So paths are compared by one id.
    """

    __slots__ = ("bounds", "ends", "ids")

    def __init__(self, ids: tuple[int, ...], ends: tuple[int, ...], bounds: list[int]) -> None:
        self.ids = ids
        self.ends = ends
        self.bounds = bounds

    def extended(self, extent: int, end: int, bound: int) -> Path:
        """The same path with one more extent."""
        return Path((*self.ids, extent), (*self.ends, end), [*self.bounds, bound])


class Run:
    """Extents of a path in the cache that the same sequences and pins hold; it is evicted from its end.

    path, first, end: its extents are the path's from place `first` up to `end`; of the last one blocks may be missing.
    start, blocks: full blocks of the path before it, and in it.  refs: sequences and pins that hold it.
    before: the run that was split off ahead of it; who has held this one since before the split holds that one too.
    parted: whether it was split off ahead of another, so that it takes no more extents.
    id: its first extent; below 0 for blocks without identity, which have no path.  found: whether it may be found.
    """

    __slots__ = ("before", "blocks", "end", "first", "found", "id", "parted", "path", "refs", "start")

    def __init__(
        self,
        extent: int,
        blocks: int,
        refs: int,
        path: Path | None = None,
        first: int = 0,
        end: int = 0,
        start: int = 0,
    ) -> None:
        self.id = extent
        self.blocks = blocks
        self.refs = refs
        self.path = path
        self.first = first
        self.end = end
        self.start = start
        self.before: Run | None = None
        self.found = True
        self.parted = False

    @property
    def extents(self) -> tuple[int, ...]:
        """The ids of its extents."""
        return () if self.path is None else self.path.ids[self.first : self.end]


def path_of(ids: tuple[int, ...], ends: tuple[int, ...], block: int) -> Path:
    """The path of a prompt, where blocks have `block` tokens."""
    bounds = [end // block for end in ends]
    if not bounds or (bounds[0] and (len(bounds) == 1 or len(set(bounds)) == len(bounds))):
        return Path(ids, ends, bounds)
    whole = [place for place, bound in enumerate(bounds) if bound > (bounds[place - 1] if place else 0)]
    return Path(
        tuple([ids[place] for place in whole]),
        tuple([ends[place] for place in whole]),
        [bounds[place] for place in whole],
    )


def parting(mine: Sequence[int], other: Sequence[int], same: int, end: int) -> int:
    """The first place from `same` up to `end` at which two chains of ids differ, else `end`; before `same` they agree.

    As ids are chained, one comparison mostly settles it; else a binary search does.
    """
    if mine is other or mine[end - 1] == other[end - 1]:
        return end
    end -= 1
    while same < end:
        middle = (same + end) // 2
        if mine[middle] == other[middle]:
            same = middle + 1
        else:
            end = middle
    return same
