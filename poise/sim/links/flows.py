"""Transfers that share links: each link's capacity is divided max-min fairly among those that cross it."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.units import SECOND
from poise.sim.links.wiring import Path

KEPT = 4096
"""Sets of paths whose rates are kept."""


class Flows:
    """The running transfers, by number. Time is in picoseconds, and must not go back.

    Max-min fairness by progressive filling (Bertsekas and Gallager, "Data Networks", section 6.5.2): the link with the
    least capacity for each of its open transfers fixes their rate, then the next. `start` and `end` note what has
    changed; `settle`, once behind all of one instant, shares the links anew. Only transfers that share a link, through
    others perhaps, with one that came or went are looked at again; rates depend on their paths alone, and are kept.
    """

    def __init__(self, bytes_per_s: Sequence[float]) -> None:
        self.capacity = [each / SECOND for each in bytes_per_s]
        self.crossing: list[set[int]] = [set() for _ in bytes_per_s]
        self.paths: dict[int, Path] = {}
        self.left: dict[int, float] = {}
        self.rate: dict[int, float] = {}
        self.since: dict[int, int] = {}
        self.stale: set[int] = set()
        """Links that `settle` must share anew."""
        self.alone: dict[Path, float] = {}
        self.known: dict[tuple[Path, ...], list[float]] = {}

    def start(self, now: int, flow: int, size: float, path: Path) -> int:
        """Begin a transfer; returns its end where it shares no link, else −1: `settle` gives it.

        path: one link at least, none twice.
        """
        crossing, free = self.crossing, True
        for link in path:
            if crossing[link]:
                free = False
            crossing[link].add(flow)
        self.paths[flow], self.left[flow], self.since[flow] = path, size, now
        if not free:
            self.rate[flow] = 0.0
            self.stale.update(path)
            return -1
        rate = self.alone.get(path) or self._alone(path)
        self.rate[flow] = rate
        return now + round(size / rate)

    def end(self, flow: int) -> None:
        """Remove a transfer."""
        for link in self.paths.pop(flow):
            others = self.crossing[link]
            others.discard(flow)
            if others:
                self.stale.add(link)
        del self.left[flow], self.rate[flow], self.since[flow]

    def settle(self, now: int) -> list[tuple[int, int]]:
        """Share the links of what has changed; returns each transfer with another rate, and its new end."""
        found, rate_of, left, since = [], self.rate, self.left, self.since
        while self.stale:
            flows = self._together(self.stale.pop())
            for flow, rate in zip(flows, self._rates(flows), strict=True):
                before = rate_of[flow]
                if rate != before:
                    left[flow] = rest = max(0.0, left[flow] - before * (now - since[flow]))
                    rate_of[flow], since[flow] = rate, now
                    found.append((flow, now + round(rest / rate)))
        return found

    def _together(self, link: int) -> list[int]:
        """The transfers that are bound to those on `link`, in order of their paths; their links are fresh."""
        links, seen, found = [link], {link}, set[int]()
        while links:
            for flow in self.crossing[links.pop()]:
                if flow not in found:
                    found.add(flow)
                    for other in self.paths[flow]:
                        if other not in seen:
                            seen.add(other)
                            links.append(other)
        self.stale -= seen
        return sorted(found, key=self.paths.__getitem__)

    def _rates(self, flows: list[int]) -> list[float]:
        """Bytes per picosecond of each of `flows`, which are in order of their paths."""
        key = tuple([self.paths[flow] for flow in flows])
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= KEPT:
                self.known.clear()
            found = self.known[key] = fair(self.capacity, key)
        return found

    def _alone(self, path: Path) -> float:
        self.alone[path] = found = min(self.capacity[link] for link in path)
        return found


def fair(capacity: Sequence[float], paths: Sequence[Path]) -> list[float]:
    """The max-min fair rates of transfers over `paths`, all of which run at once."""
    on: dict[int, list[int]] = {}
    for at, path in enumerate(paths):
        for link in path:
            on.setdefault(link, []).append(at)
    room = {link: capacity[link] for link in on}
    count = {link: len(row) for link, row in on.items()}
    rates = [0.0] * len(paths)
    while count:
        tight = min(count, key=lambda link: (room[link] / count[link], link))
        rate = room[tight] / count[tight]
        for at in on[tight]:
            if not rates[at]:
                rates[at] = rate
                for link in paths[at]:
                    room[link] = max(0.0, room[link] - rate)
                    count[link] -= 1
                    if not count[link]:
                        del count[link]
    return rates
