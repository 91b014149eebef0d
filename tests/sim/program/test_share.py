"""Computations at once on one device: closed forms from no slowdown to full, and the published bubble of DualPipe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ProgramError
from poise.core.units import SECOND
from poise.pipeline import make, time
from poise.pipeline.lower import program_of
from poise.program import Builder, Content, Program, Task
from poise.program.passes import side_by_side
from poise.sim.links import Wiring
from poise.sim.program import Clock, simulate
from poise.sim.program.share import SLOWDOWN as SHARE

SECONDS = st.floats(0.1, 9).map(lambda number: round(number, 3))
SLOWDOWN = st.floats(1, 2)


def free(ranks: int) -> Wiring:
    return Wiring.nodes(ranks, ranks, scaleup_bw=1.0, scaleout_bw=1.0)


def makespan(program: Program, seconds: dict[str, float], slowdown: float) -> float:
    wiring = free(program.ranks)
    clock = Clock.of(program, wiring, lambda task: seconds.get(task.kind, 0.0))
    return simulate(program, clock, wiring, slowdown=slowdown).makespan_s


def pair_s(forward: float, backward: float, slowdown: float) -> float:
    """Until the shorter one ends both are slower, then the other one is alone."""
    return max(forward, backward) + (slowdown - 1) * min(forward, backward)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=6), SLOWDOWN)
@settings(max_examples=50, deadline=None)
def test_two_lanes_are_slower_only_while_both_run(pairs: list[tuple[float, float]], slowdown: float) -> None:
    """Pairs that begin together, one after the other: the sum of their closed forms; with 2 the work of both lanes."""
    into, wiring = Builder(), free(1)
    before: tuple[str, ...] = (into.give("start@0", Content({})),)
    for number in range(len(pairs)):
        made = (f"one{number}@0", f"two{number}@0")
        into.add(Task("work", 0, "compute", before, made[:1], arg=(number, 0)))
        into.add(Task("work", 0, "compute 1", before, made[1:], arg=(number, 1)))
        before = made
    program = into.build()
    clock = Clock.of(program, wiring, lambda task: pairs[task.arg[0]][task.arg[1]])

    def took(slow: float) -> float:
        return simulate(program, clock, wiring, slowdown=slow).makespan_s

    assert took(slowdown) == pytest.approx(sum(pair_s(one, two, slowdown) for one, two in pairs), abs=1e-9)
    assert took(1.0) == pytest.approx(sum(max(each) for each in pairs), abs=1e-9)
    assert took(2.0) == pytest.approx(sum(map(sum, pairs)), abs=1e-9)


def middle(name: str, ranks: int) -> tuple[int, ...]:
    return (ranks - 1,) if name == "dualpipe_v" else (ranks // 2 - 1, ranks // 2)


def idle(program: Program, rank: int, seconds: dict[str, float], slowdown: float) -> float:
    """Seconds in which a rank does nothing, a pair taken as side by side from its begin to its end."""
    own = [task for task in program.tasks() if task.rank == rank]
    pairs = sum(task.lane == "compute 1" and task.kind == "B" for task in own)
    saved = seconds["F"] + seconds["B"] - pair_s(seconds["F"], seconds["B"], slowdown)
    return makespan(program, seconds, slowdown) - sum(seconds.get(task.kind, 0.0) for task in own) + pairs * saved


CASES = pytest.mark.parametrize(
    ("name", "ranks", "microbatches"), [("dualpipe", 8, 20), ("dualpipe", 4, 8), ("dualpipe_v", 4, 20)]
)


@CASES
@given(st.floats(0.2, 2), SLOWDOWN)
@settings(max_examples=6, deadline=None)
def test_the_bubble_is_the_published_one(
    name: str, ranks: int, microbatches: int, weight: float, slowdown: float
) -> None:
    """(p / 2 - 1)(F&B + B - 3W) of DualPipe's README, B a full backward: of the ranks in the middle, where W is half
    of B - W = F to all of it and pairs cost nothing; else it is a lower bound."""
    alone = middle(name, ranks)
    program = side_by_side(program_of(make(name, ranks, microbatches)), alone, together=True)
    seconds = {"F": 1.0, "I": 1.0, "W": weight, "B": 1.0 + weight}
    pipeline = ranks if name == "dualpipe_v" else ranks // 2

    def published(slow: float) -> float:
        return (pipeline - 1) * (pair_s(1.0, 1.0 + weight, slow) + (1.0 + weight) - 3 * weight)

    for rank in alone:
        assert idle(program, rank, seconds, slowdown) >= published(slowdown) - 1e-6
        if 0.5 <= weight <= 1:
            assert idle(program, rank, seconds, 1.0) == pytest.approx(published(1.0), abs=1e-6)


@CASES
def test_full_slowdown_is_one_after_the_other(name: str, ranks: int, microbatches: int) -> None:
    schedule = make(name, ranks, microbatches)
    unit = len(schedule.ranks) / schedule.stages
    seconds = {"F": unit, "I": unit, "W": unit, "B": 2 * unit}
    assert makespan(side_by_side(program_of(schedule)), seconds, 2.0) == pytest.approx(float(time(schedule).makespan))


def test_what_dualpipe_gains() -> None:
    """At F = B = W, 8 ranks and 20 microbatches, as DeepSeek's code pairs them."""
    schedule = make("dualpipe", 8, 20)
    plain = program_of(schedule)
    program = side_by_side(plain, middle("dualpipe", 8), together=True)
    seconds = {"F": 1.0, "I": 1.0, "W": 1.0, "B": 2.0}
    assert makespan(plain, seconds, 1.0) == time(schedule).makespan == 63  # one lane shares with none
    assert makespan(program, seconds, 1.0) == 52
    assert makespan(program, seconds, SHARE) == pytest.approx(54.5)


def test_what_cannot_be() -> None:
    program, wiring = program_of(make("gpipe", 2, 2)), free(2)
    clock = Clock([0] * len(program.index.tasks), [SECOND] * len(program.index.tasks))
    with pytest.raises(ProgramError, match=r"slowdown: 0\.5 times as long; give 1 or more"):
        simulate(program, clock, wiring, slowdown=0.5)
