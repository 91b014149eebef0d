"""Random draws by key, never by order: the same purpose, key and seed give the same number everywhere.

So two policies that consume randomness differently still see the same lengths, faults and ties (common random
numbers), and a replayed recording repeats itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

_MASK: Final = (1 << 64) - 1

Item = TypeVar("Item")


def mix(value: int) -> int:
    """Scramble 64 bits (SplitMix64's finaliser: Steele, Lea and Flood, OOPSLA 2014, figure 19)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


class Ranks:
    """A column of counts, all 0 at first, that indexes the replicas by count, so that the least is found at once.

    column: the list, written to only here.  low: the least count.  holders: by count, the replicas in order.
    """

    __slots__ = ("column", "holders", "low")

    def __init__(self, column: list[int]) -> None:
        self.column = column
        self.low = 0
        self.holders: dict[int, list[int]] = {0: list(range(len(column)))}

    def add(self, replica: int, more: int) -> None:
        """Add to a replica's count, or subtract."""
        before = self.column[replica]
        after = self.column[replica] = before + more
        holders = self.holders
        left = holders[before]
        del left[bisect_left(left, replica)]
        if after in holders:
            insort(holders[after], replica)
        else:
            holders[after] = [replica]
        if after < self.low:
            self.low = after
        while not holders.get(self.low):
            self.low += 1


class Chance:
    """Draws for one decision: `seed` is the run's, `key` the request's id, set anew for each request.

    ranks: of a column that `least` often uses, where they are kept.
    """

    __slots__ = ("_purposes", "key", "ranks", "seed")

    def __init__(self, seed: int, key: int = 0) -> None:
        self.seed = mix((seed * 0x9E3779B97F4A7C15 + 1) & _MASK)
        self.key = key
        self.ranks: Ranks | None = None
        self._purposes: dict[str, int] = {}

    def bits(self, purpose: str = "tie") -> int:
        """64 random bits for `purpose` and the current key."""
        salt = self._purposes.get(purpose)
        if salt is None:
            salt = self._purposes[purpose] = mix(crc32(purpose.encode()) << 32 ^ self.seed)
        return mix((salt + self.key * 0x9E3779B97F4A7C15) & _MASK)

    def draw(self, purpose: str = "tie") -> float:
        """A number in [0, 1)."""
        return (self.bits(purpose) >> 11) * 2.0**-53

    def pick(self, items: Sequence[Item], purpose: str = "tie") -> Item:
        """One of `items`, each equally likely; `items` must not be empty."""
        return items[self.bits(purpose) * len(items) >> 64]

    def least(self, able: Sequence[int], column: Sequence[Any] | Callable[[int], Any]) -> int:
        """The replica of `able` with the least of `column` (a column over replicas, or a function); ties are drawn."""
        if len(able) == 1:
            return able[0]
        ranks = self.ranks
        if ranks is not None and column is ranks.column and len(able) == len(ranks.column):
            equals = ranks.holders[ranks.low]
            return equals[self.bits() * len(equals) >> 64] if len(equals) > 1 else equals[0]
        whole = False
        if callable(column):
            values = [column(replica) for replica in able]
        elif len(able) == len(column):
            whole = True
            values = column  # type: ignore[assignment]  # every replica is able: the whole column
        else:
            values = [column[replica] for replica in able]
        least = min(values)
        ties = values.count(least)
        place = values.index(least)
        if ties > 1:  # walk to the drawn one of equals: each step is one scan in C
            for _ in range(self.bits() * ties >> 64):
                place = values.index(least, place + 1)
        return place if whole else able[place]
