"""A hash ring of replicas: a key keeps its replica while that is able, whichever others join or leave.

Paper: Karger et al., STOC 1997. Every replica lies on the ring at `points` places, which follow from the seed and its
own id alone; a key belongs to the first able replica clockwise. So when a replica joins or leaves only the arcs next to
its points move, and the result depends on the replicas able now, not on earlier ones. No Python hash is used: the ring
is the same in every process.

Default of `points`: 150 (SGLang's gateway; vLLM's router has 160).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain

from poise.core.chance import mix
from poise.core.request import RequestView

_MASK = (1 << 64) - 1
_REPLICA = (1 << 24) - 1
"""The low bits of a point name its replica; the high ones are its place."""


def spot(key: int, choice: int = 0) -> int:
    """The position of `key` on the ring, 64 bits; another `choice` is an independent hash of the same key."""
    return mix((mix(key & _MASK) + (choice + 1) * 0x9E3779B97F4A7C15) & _MASK)


def head(request: RequestView, tokens: int) -> int:
    """The extent that names the beginning of a prompt: the shortest that reaches `tokens`, or the whole prompt's."""
    return request.ids[min(bisect_left(request.ends, tokens), len(request.ids) - 1)]


class HashRing:
    """seed: the run's (`chance.seed`), so that placement is drawn anew with each seed.  points: places per replica."""

    __slots__ = ("_points", "_replicas", "points", "seed")

    def __init__(self, seed: int, points: int = 150) -> None:
        self.seed = seed
        self.points = points
        self._points: list[int] = []
        self._replicas = 0

    def successor(self, spot: int, able: Sequence[int], besides: int = -1) -> int:
        """The first replica of `able` clockwise from `spot` other than `besides`, or `besides` if there is no other."""
        return next((replica for replica in self.walk(spot, able) if replica != besides), besides)

    def below(self, spot: int, able: Sequence[int], loads: Sequence[int], factor: float) -> int:
        """The first of `able` clockwise from `spot` whose load is below ⌈factor · (m + 1) / n⌉.

        m: the sum of the loads of the n able replicas (Mirrokni, Thorup and Zadimoghaddam, SODA 2018). loads: a column
        over replicas.  factor: at least 1, so that there always is one.
        """
        whole = len(able) == len(loads)
        total = sum(loads) if whole else sum([loads[replica] for replica in able])
        bound = factor * (total + 1) / len(able)  # a whole number is below ⌈bound⌉ just when it is below `bound`
        return next(replica for replica in self.walk(spot, able) if loads[replica] < bound)

    def walk(self, spot: int, able: Sequence[int]) -> Iterator[int]:
        """The replicas of `able` (ids, rising) in the order in which they are met clockwise from `spot`, each once."""
        if able[-1] >= self._replicas:
            self._grow(able[-1] + 1)
        count, whole = len(able), able[-1] + 1 == len(able)
        points = self._points
        start = bisect_left(points, spot)
        met: set[int] = set()
        for index in chain(range(start, len(points)), range(start)):
            replica = points[index] & _REPLICA
            if replica in met:
                continue
            if not whole:
                place = bisect_left(able, replica)
                if place == count or able[place] != replica:
                    continue
            elif replica >= count:
                continue
            yield replica
            met.add(replica)
            if len(met) == count:
                return

    def _grow(self, replicas: int) -> None:
        """Put the points of further replicas among the others."""
        for replica in range(self._replicas, replicas):
            own = mix((self.seed + (replica + 1) * 0x9E3779B97F4A7C15) & _MASK)
            for number in range(self.points):
                place = mix((own + (number + 1) * 0x9E3779B97F4A7C15) & _MASK)
                self._points.append(place & ~_REPLICA | replica)
        self._points.sort()
        self._replicas = replicas


def kept(ring: HashRing | None, seed: int, points: int = 150) -> HashRing:
    """`ring` as long as it is of this seed, else a new one: a router learns the seed with its first decision."""
    return ring if ring is not None and ring.seed == seed else HashRing(seed, points)
