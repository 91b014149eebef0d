"""A slow simulation of a Program in exact fractions, for comparison: at every instant everything is looked at again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from poise.core.units import SECOND
from poise.program.index import Index
from poise.sim.program.clock import Clock
from poise.sim.program.routes import Flow


def shared(paths: Sequence[Sequence[int]], bytes_per_s: Sequence[float]) -> list[Fraction]:
    """Max-min fair rates in bytes per picosecond: all grow alike until a link is full, which stops those on it."""
    rates = [Fraction(0)] * len(paths)
    growing = set(range(len(paths)))
    room = [Fraction(each) / SECOND for each in bytes_per_s]
    while growing:
        crossing = {link: sum(link in paths[at] for at in growing) for link in range(len(room))}
        step = min(room[link] / count for link, count in crossing.items() if count)
        for at in growing:
            rates[at] += step
        for link, count in crossing.items():
            room[link] -= step * count
        growing = {at for at in growing if all(room[link] for link in paths[at])}
    return rates


@dataclass
class Reference:
    """Starts, ends and instants of readiness in picoseconds, as fractions."""

    index: Index
    clock: Clock
    routes: Mapping[int, Sequence[Flow]]
    bytes_per_s: Sequence[float]
    starts: dict[int, Fraction] = field(default_factory=dict)
    ends: dict[int, Fraction] = field(default_factory=dict)
    ready: dict[int, Fraction] = field(default_factory=dict)
    left: dict[tuple[int, int], Fraction] = field(default_factory=dict)
    """Bytes of each flow (task, number) that is on its links."""
    sent: set[int] = field(default_factory=set)
    """Tasks whose flows have been put on their links."""
    now: Fraction = Fraction(0)

    def run(self) -> Reference:
        while len(self.ends) < len(self.index.tasks):
            while self._start() or self._send() or self._end():
                pass
            self._pass()
        return self

    def _start(self) -> bool:
        found = [
            number
            for number in range(len(self.index.tasks))
            if number not in self.starts and all(self._can(each) for each in self._together(number))
        ]
        for number in found:
            self.starts[number] = self.now
        return bool(found)

    def _together(self, number: int) -> list[int]:
        meeting = self.index.meeting[number]
        return self.index.members[meeting] if meeting >= 0 else [number]

    def _can(self, number: int) -> bool:
        index = self.index
        before = number - 1
        if number > index.first[index.lane[number]] and self.ends.get(before, self.now + 1) > self.now:
            return False
        if any(self.ready.get(need, self.now + 1) > self.now for need in index.needs[number]):
            return False
        send = index.source[number]
        return send < 0 or (send in self.ends and self.ends[send] + self.clock.lags[number] <= self.now)

    def _send(self) -> bool:
        found = [
            number
            for number in self.routes
            if number not in self.sent
            and number in self.starts
            and self.starts[number] + self.clock.ticks[number] <= self.now
        ]
        for number in found:
            self.sent.add(number)
            self.left.update({(number, at): Fraction(size) for at, (size, _) in enumerate(self.routes[number])})
        return bool(found)

    def _end(self) -> bool:
        for flow in [flow for flow, left in self.left.items() if left <= 0]:
            del self.left[flow]
        found = [number for number in self.starts if number not in self.ends and self._over(number)]
        for number in found:
            self.ends[number] = self.now
            late = self.clock.lags[number] if self.index.source[number] < 0 else 0
            self.ready[number] = self.now + late
        return bool(found)

    def _over(self, number: int) -> bool:
        if self.starts[number] + self.clock.ticks[number] > self.now:
            return False
        together = self._together(number)
        if not any(each in self.routes for each in together):
            return True
        return all(self._brought(each) for each in together)

    def _brought(self, number: int) -> bool:
        if self.starts[number] + self.clock.ticks[number] > self.now:
            return False
        if number not in self.routes:
            return True
        return number in self.sent and not any(task == number for task, _ in self.left)

    def _pass(self) -> None:
        """To the next instant at which something changes."""
        if len(self.ends) == len(self.index.tasks):
            return
        flows = list(self.left)
        rates = shared([self.routes[task][at][1] for task, at in flows], self.bytes_per_s)
        instants = [self.now + self.left[flow] / rate for flow, rate in zip(flows, rates, strict=True)]
        instants += [begin + self.clock.ticks[number] for number, begin in self.starts.items()]
        instants += [*self.ready.values()]
        instants += [
            self.ends[send] + self.clock.lags[number]
            for number, send in enumerate(self.index.source)
            if send in self.ends
        ]
        after = min(instant for instant in instants if instant > self.now)
        for flow, rate in zip(flows, rates, strict=True):
            self.left[flow] -= rate * (after - self.now)
        self.now = after
