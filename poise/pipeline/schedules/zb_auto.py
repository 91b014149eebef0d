"""The automatic heuristic of Zero Bubble (Qi et al., ICLR 2024, section 3.1): order from times and a memory limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product
from typing import NamedTuple

from poise.core.errors import ScheduleError
from poise.pipeline import bound
from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit, per_rank
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.zb_h1 import zb_h1
from poise.pipeline.schedules.zb_h2 import zb_h2
from poise.pipeline.scheduling_problem import problem
from poise.pipeline.time import time

_NEVER = 1 << 62

_SHORT = 64

_F, _I, _W = (int(kind) for kind in (Kind.F, Kind.I, Kind.W))


class Knobs(NamedTuple):
    """What the heuristic tries both ways."""

    delay: bool
    """One more forward before the first backward, though it delays that."""
    backward: bool
    """Ready backwards come before forwards."""
    fill: bool
    """A weight gradient fills every gap, also one that is too short for it."""


Way = Knobs | Callable[[int, int], Schedule]


def zb_auto(
    stages: int, microbatches: int, costs: Costs | None = None, memory_limit: Limit | None = None,
    kept: Fraction | float = 1, by: str = "makespan",
) -> Schedule:  # fmt: skip
    """One chunk per rank; the best of eight runs with the knobs of the paper, by makespan or by span.

    As many forwards as memory allows, until the first backward is there; then one of each in turn, with weight
    gradients where the rank would wait for at least their time, where it would become the rank that idles most, or
    where memory forces them. `memory_limit` is in activations, one or one per rank (default 2p, the paper's ZB-2p), of
    which the part `kept` stays from the input gradient to the weight gradient. Long runs choose on 64 or 2p
    microbatches, also between the heuristic and ZB-H1 and ZB-H2, where those fit. Where the paper takes forwards and
    backwards strictly in turn, here the one that can start first goes first and turns settle ties, so that unequal
    stages do not block each other. What reaches its lower bounds ends the search.
    """
    limits = per_rank(2 * stages if memory_limit is None else memory_limit, stages)
    limit = min(limits)
    part = Fraction(kept)
    if limit < 1 or not 0 <= part <= 1:
        raise ScheduleError(
            f"zb_auto: memory limit {float(limit):g} must be 1 or more, kept {float(part):g} from 0 to 1"
        )
    if by not in ("makespan", "span"):
        raise ScheduleError(f"zb_auto: by {by!r}; give makespan or span")
    given = costs or Costs()
    room = [int(each * part.denominator) for each in limits], part.denominator, part.numerator
    short = max(_SHORT, 2 * stages)
    short = microbatches if microbatches <= short + short // 4 else short

    def costs_of(count: int) -> Costs:
        return replace(given, microbatch=given.microbatch[:count])

    def run(knobs: Knobs, count: int) -> _Run:
        return _Run(stages, count, costs_of(count), room, knobs)

    def figures(schedule: Schedule) -> tuple[Fraction, Fraction]:
        timing = time(schedule, costs_of(short))
        return timing.makespan, timing.bubble_span

    where = problem("zb_auto", stages, short, costs=costs_of(short), limit=limits, kept=part)
    least = bound.makespan(where), bound.span_bubble(where)
    hand = [make for make, peak in ((zb_h1, stages), (zb_h2, 2 * stages - 1)) if peak <= limit]
    ways: list[Way] = [*map(Knobs._make, product((False, True), repeat=3)), *hand]
    tries: list[tuple[tuple[Fraction, Fraction], Way]] = []
    runs: list[_Run] = []
    for each in ways:
        if isinstance(each, Knobs):
            if any(other.is_also(each) for other in runs):
                continue
            runs.append(run(each, short))
            tries.append((runs[-1].figures(), each))
        else:
            tries.append((figures(each(stages, short)), each))
        if tries[-1][0] == least:
            break
    best = min(tries, key=lambda each: each[0] if by == "makespan" else each[0][::-1])[1]
    if isinstance(best, Knobs):
        return run(best, microbatches).schedule()
    return replace(best(stages, microbatches), name="zb_auto")


class _Run:
    """One run in simulated time. A rank decides whenever it is free and something is known that was not."""

    def __init__(
        self, stages: int, microbatches: int, costs: Costs, room: tuple[list[int], int, int], knobs: Knobs
    ) -> None:  # fmt: skip
        self.stages, self.count, self.knobs = stages, microbatches, knobs
        self.limits, self.whole, self.part = room
        self.durations = costs.at(stages, stages, microbatches)
        even, of = self.durations.even, self.durations.of
        self.ticks = [
            [[of(kind, rank, 0, rank)] * microbatches for rank in range(stages)] if even
            else [[of(kind, rank, batch, rank) for batch in range(microbatches)] for rank in range(stages)]
            for kind in (_F, _I, _W)
        ]  # fmt: skip
        self.rows: list[list[tuple[int, int]]] = [[] for _ in range(stages)]
        self.last = [_F] * stages
        self.hops = [self.durations.hop(rank, rank + 1) for rank in range(stages - 1)]
        self.done = [[0, 0, 0] for _ in range(stages)]
        self.there: list[list[list[int]]] = [[[], []] for _ in range(stages)]
        self.there[0][0] = [0] * microbatches
        self.free, self.bubble, self.began = [0] * stages, [0] * stages, [-1] * stages
        self.worst = 0
        self.read_knobs: set[str] = set()
        self.delayed = [False] * stages
        self.events = [(0, rank) for rank in range(stages)]
        while self.events:
            now, rank = heappop(self.events)
            if now >= self.free[rank]:
                self._decide(max(now, self.free[rank]), rank)

    def schedule(self) -> Schedule:
        """The resulting schedule."""
        kinds = list(Kind)
        rows = enumerate(self.rows)
        ranks = tuple(tuple(Op(rank, kinds[kind], batch) for kind, batch in row) for rank, row in rows)
        return Schedule(ranks, self.stages, self.count, "zb_auto")

    def is_also(self, knobs: Knobs) -> bool:
        """Whether the run with other knobs is this one: the knobs that differ were never read."""
        own = self.knobs._asdict()
        return all(own[name] == value for name, value in knobs._asdict().items() if name in self.read_knobs)

    def figures(self) -> tuple[Fraction, Fraction]:
        """Makespan and the largest bubble within a span."""
        return Fraction(max(self.free), self.durations.scale), Fraction(max(self.bubble), self.durations.scale)

    def _decide(self, now: int, rank: int) -> None:
        _, backward, weight = self.done[rank]
        if backward == self.count:
            if weight < self.count:
                self._start(now, rank, _W)
            return
        kind, at = self._next(now, rank)
        gap = at - now
        if gap > 0 and weight < backward and self._fills(rank, gap, weight):
            self._start(now, rank, _W)
        elif gap <= 0:
            self._start(now, rank, kind)
        elif at < _NEVER:
            heappush(self.events, (at, rank))

    def _next(self, now: int, rank: int) -> tuple[int, int]:
        """The forward or backward to come, and when it can start; a forward without memory waits for weights."""
        forward, backward, weight = self.done[rank]
        forwards, backwards = self.there[rank]
        to_f = forwards[forward] if forward < len(forwards) and forward < self.count else _NEVER
        to_b = backwards[backward] if backward < len(backwards) else _NEVER
        to_f, to_b = to_f if to_f > now else now, to_b if to_b > now else now
        held = (forward - backward) * self.whole + (backward - weight) * self.part
        if held + self.whole > self.limits[rank]:
            to_f = _NEVER
            if weight < backward and forward < self.count and to_b > now:
                return _W, now
        if backward == 0 and to_f < _NEVER and to_b < _NEVER and to_f + self.ticks[_F][rank][forward] > to_b:
            if not self.delayed[rank] and to_f <= to_b:
                self.read_knobs.add("delay")
                if self.knobs.delay:
                    self.delayed[rank] = True
                    return _F, to_f
            return _I, to_b
        if to_b != to_f or to_b == _NEVER:
            return (_I, to_b) if to_b < to_f else (_F, to_f)
        if not self.rows[rank] or self.last[rank] == _F:
            return _I, to_b
        self.read_knobs.add("backward")
        return (_I, to_b) if self.knobs.backward else (_F, to_f)

    def _fills(self, rank: int, gap: int, weight: int) -> bool:
        if gap >= self.ticks[_W][rank][weight] or self.bubble[rank] + gap > self.worst:
            return True
        self.read_knobs.add("fill")
        return self.knobs.fill

    def _start(self, now: int, rank: int, kind: int) -> None:
        batch = self.done[rank][kind]
        end = now + self.ticks[kind][rank][batch]
        if self.began[rank] < 0:
            self.began[rank] = now
        elif now > self.free[rank]:
            self.bubble[rank] += now - self.free[rank]
            self.worst = max(self.worst, self.bubble[rank])
        self.rows[rank].append((kind, batch))
        if kind != _W:
            self.last[rank] = kind
        self.done[rank][kind] += 1
        self.free[rank] = end
        heappush(self.events, (end, rank))
        if kind == _F and rank + 1 < self.stages:
            self._notify(now, rank + 1, 0, end + self.hops[rank])
        elif kind == _F:
            self.there[rank][1].append(end)
        elif kind == _I and rank:
            self._notify(now, rank - 1, 1, end + self.hops[rank - 1])

    def _notify(self, now: int, rank: int, which: int, at: int) -> None:
        """Another rank learns when a message will be there."""
        self.there[rank][which].append(at)
        heappush(self.events, (max(now, self.free[rank]), rank))
