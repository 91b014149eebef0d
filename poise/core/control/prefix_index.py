"""Which replicas hold which prompt prefixes, as one bit mask of replicas per extent id."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from poise.core.engine.runs import parting


class PrefixIndex:
    """A map from extent id to the set of replicas believed to hold it.

    Ids are chained (an id names its whole prefix), so the longest match walks the extents of a prompt until no
    replica is left: O(extents), whatever the number of replicas.
    """

    __slots__ = ("_holders", "replicas")

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._holders: dict[int, int] = {}

    def add(self, replica: int, extent: int) -> None:
        """`replica` holds `extent` from now on."""
        self.add_all(replica, (extent,))

    def remove(self, replica: int, extent: int) -> None:
        """`replica` holds `extent` no longer."""
        self.remove_all(replica, (extent,))

    def add_all(self, replica: int, extents: Sequence[int]) -> None:
        """`replica` holds these extents from now on."""
        holders, bit = self._holders, 1 << replica
        if len(extents) > 1 and holders.keys().isdisjoint(extents):
            holders.update(dict.fromkeys(extents, bit))
            return
        for extent in extents:
            holders[extent] = holders.get(extent, 0) | bit

    def remove_all(self, replica: int, extents: Iterable[int]) -> None:
        """`replica` holds these extents no longer."""
        holders, others = self._holders, ~(1 << replica)
        for extent in extents:
            left = holders.pop(extent, 0) & others
            if left:
                holders[extent] = left

    def forget(self, replica: int) -> None:
        """`replica` holds nothing any more."""
        self.remove_all(replica, [extent for extent, holders in self._holders.items() if holders >> replica & 1])

    def match(self, ids: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Tokens of the longest known prefix on each replica."""
        tokens = [0] * self.replicas
        holders = self._holders
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

    def held(self, replica: int, ids: Sequence[int], ends: Sequence[int]) -> int:
        """Tokens of the longest known prefix on one replica."""
        holders, end = self._holders, 0
        for extent, reach in zip(ids, ends, strict=True):
            if not holders.get(extent, 0) >> replica & 1:
                break
            end = reach
        return end


def _fill(tokens: list[int], mask: int, value: int) -> None:
    while mask:
        low = mask & -mask
        tokens[low.bit_length() - 1] = value
        mask ^= low


class SentRun:
    """Extents of a prompt from place `first` up to `end`, all sent last at the same time; forgotten from its end."""

    __slots__ = ("end", "ends", "first", "ids")

    def __init__(self, ids: Sequence[int], ends: Sequence[int]) -> None:
        self.ids = ids
        self.ends = ends
        self.first = 0
        self.end = len(ids)

    def reach(self, place: int) -> int:
        """Tokens of the prompt before the extent at a place."""
        return self.ends[place - 1] if place else 0


class Sent:
    """The extents that one replica was sent, the least recently sent first; `tokens` is their sum.

    A prompt's extents are touched from its end to its beginning, so an extent is never older than one that goes on
    from it: what is dropped first is always a leaf, as in an engine. So each prompt becomes one run, which takes from
    older ones what they begin with; their rest stays where it is.
    """

    __slots__ = ("_first", "_runs", "tokens")

    def __init__(self) -> None:
        self._runs: OrderedDict[SentRun, None] = OrderedDict()
        self._first: dict[int, SentRun] = {}  # by first extent
        self.tokens = 0

    def add(self, ids: Sequence[int], ends: Sequence[int]) -> Sequence[int]:
        """A prompt of these extents was sent; returns those that were new."""
        runs, first = self._runs, self._first
        place, count = 0, len(ids)
        while place < count:
            run = first.pop(ids[place], None)
            if run is None:
                break
            place = parting(run.ids, ids, place + 1, min(run.end, count))
            if place == run.end:
                del runs[run]
            else:
                run.first = place
                first[run.ids[place]] = run
        if count:
            new = first[ids[0]] = SentRun(ids, ends)
            runs[new] = None
            self.tokens += ends[-1] - new.reach(place)
        return ids[place:]

    def oldest(self) -> Iterator[tuple[int, int]]:
        """The extents and their tokens, the least recently sent first."""
        for run in self._runs:
            for place in range(run.end - 1, run.first - 1, -1):
                yield run.ids[place], run.ends[place] - run.reach(place)

    def latest(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """What is left of each prompt, with the extents that it begins with, the latest sent first."""
        for run in reversed(self._runs):
            yield tuple(run.ids[: run.end]), tuple(run.ends[: run.end])

    def drop(self, room: int) -> list[int]:
        """Drop the oldest extents until at most `room` tokens are left; returns what was dropped, in that order."""
        runs, dropped = self._runs, list[int]()
        while self.tokens > room and runs:
            run = next(iter(runs))
            first, end = run.first, run.end
            least = run.ends[end - 1] - (self.tokens - room)  # up to where the run may stay
            keep = bisect_right(run.ends, least, first, end)
            self.tokens -= run.ends[end - 1] - run.reach(keep)
            dropped += reversed(run.ids[keep:end])  # its tail first
            if keep > first:
                run.end = keep
            else:
                del runs[run], self._first[run.ids[first]]
        return dropped


class SentPrefixes:
    """The control side's own estimate of the caches: what it sent where, the least recently sent dropped first.

    room: tokens that each replica's cache can hold.
    """

    __slots__ = ("_sent", "index", "room")

    def __init__(self, index: PrefixIndex, room: Sequence[int]) -> None:
        self.index = index
        self.room = list(room)
        self._sent = [Sent() for _ in room]

    def send(self, replica: int, ids: Sequence[int], ends: Sequence[int]) -> None:
        """A prompt made of these extents goes to `replica`."""
        sent = self._sent[replica]
        new = sent.add(ids, ends)
        if new:
            self.index.add_all(replica, new)
        if sent.tokens > self.room[replica]:
            self.index.remove_all(replica, sent.drop(self.room[replica]))

    def latest(self, replica: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The prompts believed to be in a replica's cache, the latest sent first, as extents and their ends."""
        return self._sent[replica].latest()

    def forget(self, replica: int) -> None:
        """`replica` lost its cache."""
        self.index.remove_all(replica, [extent for extent, _ in self._sent[replica].oldest()])
        self._sent[replica] = Sent()
