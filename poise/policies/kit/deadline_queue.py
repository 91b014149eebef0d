"""Requests by urgency, those that are too late behind the others."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple


class Urgency(NamedTuple):
    """A place, the least first: whether it is too late, a key that is fixed until that changes, the request's id."""

    late: bool
    key: int
    id: int


class DeadlineQueue:
    """Urgencies of requests, each of which is too late from some instant on and then has another key."""

    __slots__ = ("_early", "_late", "_places", "_turns")

    def __init__(self) -> None:
        self._early: list[Urgency] = []
        self._late: list[Urgency] = []
        self._places: dict[int, Urgency] = {}
        self._turns: list[tuple[int, Urgency, int]] = []  # until when, the place until then, the key from then on

    def add(self, id: int, key: int, until: int, late_key: int) -> None:
        """Add a request with its key up to the instant `until`, and the one after that."""
        place = Urgency(False, key, id)
        self._put(place)
        heappush(self._turns, (until, place, late_key))

    def remove(self, id: int) -> None:
        """Take a request out."""
        place = self._places.pop(id)
        some = self._late if place.late else self._early
        del some[bisect_left(some, place)]

    def order(self, now: int) -> Iterator[Urgency]:
        """All of them, the most urgent first; to be left when one is added or removed."""
        turns = self._turns
        while turns and turns[0][0] < now:
            _, place, key = heappop(turns)
            if self._places.get(place.id) is place:
                self.remove(place.id)
                self._put(Urgency(True, key, place.id))
        return chain(self._early, self._late)

    def _put(self, place: Urgency) -> None:
        self._places[place.id] = place
        insort(self._late if place.late else self._early, place)
