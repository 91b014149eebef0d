"""From schedules of any origin the best that can be made of them within the same room, at the true times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from poise.core.chance import Chance
from poise.core.errors import ScheduleError
from poise.pipeline import bound
from poise.pipeline.candidate import Candidate, Value
from poise.pipeline.constraint_graph import ConstraintGraph, Rows, homes_of
from poise.pipeline.scheduling_problem import SchedulingProblem
from poise.pipeline.squeeze import Orders
from poise.pipeline.steady import lengthen, short

Seed = Callable[[int], Rows]
"""Make the rows of a number of microbatches, or raise ScheduleError."""

LOOKS = (2, 3, 4, 6, 8, 12, 16, 24, 48)
"""How far ranks may look ahead."""

FIRST = ((6, True), (16, True))
"""Look and politeness that most often suffice."""

FAR = ((24, True), (12, True))
"""The same where there are only a few attempts."""

POLITE = 0.6
"""The part of attempts in which they wait for what is known to arrive."""

EFFORT = 800_000
"""Operations that improving may place in all; as these are counted, not seconds, results repeat."""

STARTS = 3
"""Schedules that are improved side by side, and one more where there are only a few attempts …"""

ALIKE = 2
"""… of which this many may come from one scheduler."""

WORSE = Fraction(1, 20)
"""By how much the next attempt may start from something worse than the last."""

LONG = 8_000
"""Operations above which a schedule is chosen on a short run, and its steady state repeated."""


def floor(problem: SchedulingProblem, by: str) -> Value:
    """What no schedule of the shop can beat, in ticks; of the second value only that it is not negative."""
    least = bound.makespan(problem) if by == "makespan" else bound.span_bubble(problem)
    return int(least * problem.durations.scale), 0


def reduced(problem: SchedulingProblem, count: int | None = None) -> SchedulingProblem:
    """The shop with `count` microbatches, or with few where it has many operations: soon scheduled."""
    long = LONG if count is None else 0
    count = count or short(problem.ranks, problem.microbatches)
    if 3 * problem.stages * problem.microbatches <= long or not problem.even or count >= problem.microbatches:
        return problem
    durations = replace(problem.durations, microbatch=problem.durations.microbatch[:count])
    return replace(problem, microbatches=count, durations=durations)


def lines(problem: SchedulingProblem, seeds: Iterable[Seed], by: str, least: Value) -> list[Candidate]:
    """What the seeds make of the shop, as far as it fits, the best first; no more once `least` is reached."""
    found = []
    for seed in seeds:
        try:
            line = line_of(problem, seed(problem.microbatches), by)
        except ScheduleError:
            continue
        if line.fits:
            found.append(line)
            if line.value <= least:
                break
    return sorted(found, key=lambda line: line.value)


def line_of(problem: SchedulingProblem, rows: Rows, by: str) -> Candidate:
    """Rows with the times and room of the shop; ranks that share stages have them where they are."""
    net = problem.net
    if not net.holds(rows):
        net = ConstraintGraph(
            problem.durations,
            homes_of(rows, problem.stages, problem.microbatches),
            problem.size,
            problem.kept,
            problem.room,
        )
    return Candidate(net, rows, by)


@dataclass
class Effort:
    """Operations that may be placed in all, and those that still may."""

    whole: int = EFFORT
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.whole


def improve(
    given: Sequence[Candidate], least: Value, effort: Effort, part: int = 2, *, few: bool = False
) -> list[Candidate]:  # fmt: skip
    """The lines and the best that squeezing makes of them, the best first, with a part of the effort that is left.

    Attempts take turns; those that fell behind stop half-way. All end soon after the first of the `least` values is
    reached, since it is the one that counts. Where there will be but a `few` steps, attempts start from different
    lines, look far at once, and all that was better than what it came from is kept, for not all of it can be made long.
    """
    if not given:
        return []
    each = 2 * len(given[0].net.ticks)
    steps, done = max(1, effort.left // part // each), 0
    starts = _unlike(given) if few else given[:STARTS]
    if few:
        steps = max(steps, min(len(FAR), effort.left // each))
    attempts = [_Attempt(line, place, FAR if few else FIRST) for place, line in enumerate(starts)]
    best, every = given[0].value, attempts
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
    ways = [way for one in every for way in one.ways] if few else [way for one in attempts for way in one.ways[-1:]]
    lines = [(value, place, line.ordered(orders)) for place, (value, line, orders) in enumerate(ways)]
    lines += [(line.value, len(ways) + place, line) for place, line in enumerate(given)]
    return [line for _, _, line in sorted(lines, key=lambda each: each[:2])]


def _unlike(lines: Sequence[Candidate]) -> list[Candidate]:
    """Those near the best that have no value in common with one before, and no name with two."""
    names: Counter[str] = Counter()
    values: set[Value] = set()
    found = []
    for line in lines:
        near = line.value[0] <= lines[0].value[0] * (1 + WORSE)
        if near and names[line.name] < ALIKE and line.value not in values:
            found.append(line)
            names[line.name] += 1
            values.add(line.value)
    return found[: STARTS + 1]


class _Attempt:
    """One line on its way: squeezed again and again, with looks that change, from what came out last."""

    def __init__(self, line: Candidate, place: int, first: Sequence[tuple[int, bool]]) -> None:
        self.line, self.best, self.first = line, line.value, first
        self.found = self.orders = line.orders
        self.ways: list[tuple[Value, Candidate, Orders]] = []
        self.last, self.count = line.value, 0
        self.chance = Chance(place)

    def step(self) -> None:
        """Once against the end and once against the begin."""
        ahead, back = (self._setting(each) for each in (0, 1))
        value, orders = self.line.squeezed(self.orders, ahead, back)
        if value < self.best:
            self.best, self.found = value, orders
            self.ways.append((value, self.line, orders))
        if value[0] <= self.last[0] * (1 + WORSE):
            self.last, self.orders = value, orders
        self.count += 1
        if self.count % 32 == 0:
            self.last, self.orders = self.best, self.found

    def _setting(self, way: int) -> tuple[int, bool]:
        if self.count < len(self.first):
            return self.first[self.count]
        self.chance.key = 2 * self.count + way
        return self.chance.pick(LOOKS, "look"), self.chance.draw("polite") < POLITE


def full(line: Candidate, problem: SchedulingProblem) -> Candidate | None:
    """The line as one of the shop, whose steady state it repeats if it has fewer microbatches; None if it cannot."""
    return line if line.net.count == problem.microbatches else lengthen(line, problem.net)


def hope(line: Candidate, problem: SchedulingProblem) -> Fraction:
    """About how long the line is with as many microbatches as the shop, by how often they enter in its second half.

    No more often than the busiest rank can work on them.
    """
    starts, count = line.times[0], line.net.count
    late, half = starts[count - 1], count // 2
    period = Fraction(late - starts[half], max(1, count - 1 - half))
    period = max(period, Fraction(max(problem.work), problem.microbatches))
    more = (problem.microbatches - count) * period if line.by == "makespan" else Fraction(0)
    return (line.value[0] + more) / problem.durations.scale
