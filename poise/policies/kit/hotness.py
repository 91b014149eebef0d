"""Hotness of prompt prefixes: the share of recent requests that begin with each, and the key that separates them.

DualMap (arXiv 2602.06502) hashes a prefix to replicas, so a prefix that many requests share would overload its own. A
key therefore grows by one extent while its share of the window exceeds 2/n, and shrinks when it falls below 1/n (n: the
replicas); between the two bounds it stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence


class Hotness:
    """Counts of prefix extents over the last `window` requests. `tokens`: the prompt tokens that every key covers.

    Only what may decide is counted: the shortest key of each request, and what follows a key that has grown.
    """

    __slots__ = ("_counts", "_grown", "_recent", "tokens", "window")

    def __init__(self, window: int, tokens: int) -> None:
        self.window = window
        self.tokens = tokens
        self._recent: deque[Sequence[int]] = deque()
        self._counts: dict[int, int] = {}
        self._grown: set[int] = set()

    def key(self, ids: Sequence[int], ends: Sequence[int], replicas: int) -> int:
        """The extent that is a prompt's key now; the request joins the window.

        ids, ends: its extents, at least one; an id more than ends names the rest of the prompt, which no other shares.
        """
        path = ids[min(bisect_left(ends, self.tokens), len(ends) - 1) :]
        self._see(path)
        seen = max(len(self._recent), replicas)  # one request alone is never hot
        last = len(path) - 1
        depth = 0
        while depth < last:
            extent = path[depth]
            share = self._counts[extent] * replicas / seen  # in units of 1/n
            if extent in self._grown:
                if share < 1:
                    self._shrink(extent, depth)
                    break
            elif share > 2:
                self._grow(extent, depth)
            else:
                break
            depth += 1
        return path[depth]

    def _see(self, path: Sequence[int]) -> None:
        """One more request; the oldest leaves a full window."""
        counts, grown, recent = self._counts, self._grown, self._recent
        recent.append(path)
        for extent in path:
            counts[extent] = counts.get(extent, 0) + 1
            if extent not in grown:
                break
        if len(recent) > self.window:
            for extent in recent.popleft():
                counts[extent] -= 1
                more = extent in grown
                if not counts[extent]:
                    del counts[extent]
                    grown.discard(extent)
                if not more:
                    break

    def _grow(self, extent: int, depth: int) -> None:
        """Keys that end with `extent` go on from now; count what follows it in the window."""
        self._grown.add(extent)
        for path in self._recent:
            if len(path) > depth + 1 and path[depth] == extent:
                self._counts[path[depth + 1]] = self._counts.get(path[depth + 1], 0) + 1

    def _shrink(self, extent: int, depth: int) -> None:
        """Keys end with `extent` again; forget what follows it."""
        self._grown.remove(extent)
        for path in self._recent:
            if len(path) > depth and path[depth] == extent:
                for longer in path[depth + 1 :]:
                    self._counts.pop(longer, None)
                    self._grown.discard(longer)
