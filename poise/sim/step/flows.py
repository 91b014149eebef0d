"""Transfers that share links: each link's capacity is divided max-min fairly among those that cross it."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.units import SECOND
from poise.sim.step.wiring import Path


class Flows:
    """The running transfers. Time is in picoseconds; after a start or an end, `changed` has the new ends.

    Max-min fairness by progressive filling (Bertsekas and Gallager, "Data Networks", section 6.5.2): the link with the
    least capacity for each of its open transfers fixes their rate, then the next. Only transfers that share a link,
    through others perhaps, with the one that came or went are looked at again.
    """

    def __init__(self, bytes_per_s: Sequence[float]) -> None:
        self.capacity = [each / SECOND for each in bytes_per_s]
        self.crossing: list[set[int]] = [set() for _ in bytes_per_s]
        self.paths: dict[int, Path] = {}
        self.left: dict[int, float] = {}
        self.rate: dict[int, float] = {}
        self.since: dict[int, int] = {}

    def start(self, now: int, flow: int, size: float, path: Path) -> dict[int, int]:
        """Begin a transfer; returns the ends of all transfers whose rate this changes, itself among them."""
        self.paths[flow], self.left[flow], self.rate[flow], self.since[flow] = path, size, 0.0, now
        for link in path:
            self.crossing[link].add(flow)
        return self._changed(now, self._together(path))

    def end(self, now: int, flow: int) -> dict[int, int]:
        """Remove a transfer; returns the new ends of those that get more room."""
        path = self.paths.pop(flow)
        for link in path:
            self.crossing[link].discard(flow)
        del self.left[flow], self.rate[flow], self.since[flow]
        return self._changed(now, self._together(path))

    def _together(self, path: Path) -> list[int]:
        """The transfers that are bound to those on `path`, in order of their numbers."""
        links, found = list(path), set[int]()
        seen = set(links)
        while links:
            for flow in self.crossing[links.pop()] - found:
                found.add(flow)
                fresh = [link for link in self.paths[flow] if link not in seen]
                seen.update(fresh)
                links += fresh
        return sorted(found)

    def _changed(self, now: int, flows: list[int]) -> dict[int, int]:
        for flow in flows:
            self.left[flow] = max(0.0, self.left[flow] - self.rate[flow] * (now - self.since[flow]))
            self.since[flow] = now
        for flow, rate in self._fair(flows).items():
            self.rate[flow] = rate
        return {flow: now + round(self.left[flow] / self.rate[flow]) for flow in flows}

    def _fair(self, flows: list[int]) -> dict[int, float]:
        """Bytes per picosecond of each of `flows`."""
        if len(flows) == 1:
            return {flows[0]: min(self.capacity[link] for link in self.paths[flows[0]])}
        open_on: dict[int, int] = {}
        for flow in flows:
            for link in self.paths[flow]:
                open_on[link] = open_on.get(link, 0) + 1
        room = {link: self.capacity[link] for link in open_on}
        rates: dict[int, float] = {}
        while len(rates) < len(flows):
            tight = min(
                (link for link in open_on if open_on[link]), key=lambda link: (room[link] / open_on[link], link)
            )
            rate = room[tight] / open_on[tight]
            for flow in flows:
                if flow not in rates and tight in self.paths[flow]:
                    rates[flow] = rate
                    for link in self.paths[flow]:
                        room[link] = max(0.0, room[link] - rate)
                        open_on[link] -= 1
        return rates
