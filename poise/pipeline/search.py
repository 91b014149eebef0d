"""From schedules of any origin the best that can be made of them within the same room, at the true times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from poise.core.chance import Chance
from poise.core.errors import ScheduleError
from poise.pipeline import bound
from poise.pipeline.schedule import Schedule
from poise.pipeline.shop import Shop
from poise.pipeline.squeeze import Line, Value, apart
from poise.pipeline.steady import lengthen, short

Seed = Callable[[int], Schedule]
"""Makes a schedule of so many microbatches, or raises ScheduleError where it cannot."""

LOOKS = (2, 3, 4, 6, 8, 12, 16, 24, 48)
"""How far ranks may look ahead."""

FIRST = ((6, True), (16, True))
"""Look and politeness that most often suffice."""

POLITE = 0.6
"""The part of attempts in which they wait for what is known to arrive."""

EFFORT = 800_000
"""Operations that improving may place in all; as these are counted, not seconds, results repeat."""

STARTS = 3
"""Schedules that are improved side by side."""

WORSE = Fraction(1, 20)
"""By how much the next attempt may start from something worse than the last."""

LONG = 8_000
"""Operations above which a schedule is chosen on a short run, and its steady state repeated."""


def floor(shop: Shop, by: str) -> Value:
    """What no schedule of the shop can beat, in ticks; of the second value only that it is not negative."""
    least = bound.makespan(shop) if by == "makespan" else bound.span_bubble(shop)
    return int(least * shop.durations.scale), 0


def reduced(shop: Shop, count: int | None = None) -> Shop:
    """The shop with `count` microbatches, or with few where it has many operations: soon scheduled."""
    long = LONG if count is None else 0
    count = count or short(shop.ranks, shop.microbatches)
    if 3 * shop.stages * shop.microbatches <= long or not shop.even or count >= shop.microbatches:
        return shop
    durations = replace(shop.durations, microbatch=shop.durations.microbatch[:count])
    return replace(shop, microbatches=count, durations=durations)


def lines(shop: Shop, seeds: Iterable[Seed], by: str, least: Value) -> list[Line]:
    """What the seeds make of the shop, as far as it fits, the best first; no more once `least` is reached."""
    found = []
    for seed in seeds:
        try:
            line = line_of(shop, seed(shop.microbatches), by)
        except ScheduleError:
            continue
        if line.fits:
            found.append(line)
            if line.value <= least:
                break
    return sorted(found, key=lambda line: line.value)


def line_of(shop: Shop, schedule: Schedule, by: str) -> Line:
    """A schedule, its backwards taken apart, with the times and room of the shop."""
    return Line(apart(schedule), shop.durations, shop.size, shop.kept, shop.room, by)


@dataclass
class Effort:
    """Operations that may be placed in all, and those that still may."""

    whole: int = EFFORT
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.whole


def improve(given: Sequence[Line], least: Value, effort: Effort, part: int = 2) -> list[Line]:
    """The lines and what squeezing makes of the best of them, the best first, with a part of the effort that is left.

    Attempts take turns; those that fell behind stop half-way. All end soon after the first of the `least` values is
    reached, since it is the one that counts.
    """
    if not given:
        return []
    each = 2 * given[0].graph.first[-1]
    attempts = [_Attempt(line, place) for place, line in enumerate(given[:STARTS])]
    steps, done = max(1, effort.left // part // each), 0
    best = given[0].value
    while done < steps and best > least:
        if best[0] <= least[0]:
            steps = min(steps, done + 1 + steps // 16)
        if 2 * done >= steps:
            attempts = [min(attempts, key=lambda attempt: attempt.best)]
        for attempt in attempts:
            attempt.step()
            done += 1
        best = min(best, *(attempt.best for attempt in attempts))
    effort.left -= done * each
    found = [attempt.line.ordered(attempt.found) for attempt in attempts if attempt.best < attempt.line.value]
    return sorted([*found, *given], key=lambda line: line.value)


class _Attempt:
    """One line on its way: squeezed again and again, with looks that change, from what came out last."""

    def __init__(self, line: Line, place: int) -> None:
        self.line, self.best = line, line.value
        self.found = self.orders = line.orders
        self.last, self.count = line.value, 0
        self.chance = Chance(place)

    def step(self) -> None:
        """Once against the end and once against the begin."""
        ahead, back = (self._setting(each) for each in (0, 1))
        value, orders = self.line.squeezed(self.orders, ahead, back)
        if value < self.best:
            self.best, self.found = value, orders
        if value[0] <= self.last[0] * (1 + WORSE):
            self.last, self.orders = value, orders
        self.count += 1
        if self.count % 32 == 0:
            self.last, self.orders = self.best, self.found

    def _setting(self, way: int) -> tuple[int, bool]:
        if self.count < len(FIRST):
            return FIRST[self.count]
        self.chance.key = 2 * self.count + way
        return self.chance.pick(LOOKS, "look"), self.chance.draw("polite") < POLITE


def full(line: Line, shop: Shop) -> Line | None:
    """The line as one of the shop, whose steady state it repeats if it has fewer microbatches; None if it cannot."""
    if line.schedule.microbatches == shop.microbatches:
        return line
    found = lengthen(line, shop.microbatches)
    return found and replace(found, durations=shop.durations, room=shop.room)
