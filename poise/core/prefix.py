"""Which replicas hold which prompt prefixes, as one bit mask of replicas per extent id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class PrefixIndex:
    """A map from extent id to the set of replicas believed to hold it.

    Ids are chained (an id names its whole prefix), so the longest match walks the extents of a prompt until no
    replica is left: O(extents), whatever the number of replicas.

    holders: for each extent its replicas as bits; none for extents that nobody holds.
    """

    __slots__ = ("holders", "replicas")

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.holders: dict[int, int] = {}

    def add(self, replica: int, extent: int) -> None:
        """`replica` holds `extent` from now on."""
        self.holders[extent] = self.holders.get(extent, 0) | 1 << replica

    def remove(self, replica: int, extent: int) -> None:
        """`replica` holds `extent` no longer."""
        left = self.holders.get(extent, 0) & ~(1 << replica)
        if left:
            self.holders[extent] = left
        else:
            self.holders.pop(extent, None)

    def forget(self, replica: int) -> None:
        """`replica` holds nothing any more."""
        for extent in [extent for extent, holders in self.holders.items() if holders >> replica & 1]:
            self.remove(replica, extent)

    def match(self, ids: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Tokens of the longest known prefix on each replica."""
        tokens = [0] * self.replicas
        holders = self.holders
        alive = -1
        end = 0
        for extent, reach in zip(ids, ends, strict=True):
            left = holders.get(extent, 0) & alive
            if end and left != alive:
                _fill(tokens, alive & ~left, end)
            if not left:
                return tokens
            alive, end = left, reach
        if end:
            _fill(tokens, alive, end)
        return tokens


def _fill(tokens: list[int], mask: int, value: int) -> None:
    while mask:
        low = mask & -mask
        tokens[low.bit_length() - 1] = value
        mask ^= low


class SentPrefixes:
    """The control side's own guess at the caches: what it sent where, the least recently sent forgotten first.

    room: tokens that each replica's cache can hold.
    """

    __slots__ = ("_sent", "_used", "index", "room")

    def __init__(self, index: PrefixIndex, room: Sequence[int]) -> None:
        self.index = index
        self.room = list(room)
        self._sent: list[OrderedDict[int, int]] = [OrderedDict() for _ in room]
        self._used = [0] * len(self.room)

    def send(self, replica: int, ids: Sequence[int], ends: Sequence[int]) -> None:
        """A prompt made of these extents goes to `replica`; as in an engine, its tail is forgotten before its head."""
        sent, used = self._sent[replica], self._used[replica]
        holders, bit = self.index.holders, 1 << replica  # `add` and `remove` in place: this is most of a decision
        for place in range(len(ids) - 1, -1, -1):
            extent = ids[place]
            if extent in sent:
                sent.move_to_end(extent)
            else:
                tokens = ends[place] - ends[place - 1] if place else ends[0]
                sent[extent] = tokens
                used += tokens
                holders[extent] = holders.get(extent, 0) | bit
        while used > self.room[replica] and sent:
            extent, tokens = sent.popitem(last=False)
            used -= tokens
            left = holders[extent] & ~bit
            if left:
                holders[extent] = left
            else:
                del holders[extent]
        self._used[replica] = used

    def forget(self, replica: int) -> None:
        """`replica` lost its cache."""
        for extent in self._sent[replica]:
            self.index.remove(replica, extent)
        self._sent[replica].clear()
        self._used[replica] = 0
