"""Every schedule as a Program: same makespan, same memory, and the proof refuses what the schedule's proof refuses."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ProgramError, ScheduleError
from poise.pipeline import Costs, Schedule, Weights, check, make, names, time
from poise.pipeline.communicate import communicate
from poise.pipeline.lower import program_of
from poise.pipeline.op import Kind
from poise.pipeline.program_time import ticks_of
from poise.pipeline.recompute import recomputed
from poise.program.walk import walk
from tests.depth import examples
from tests.program.tampered import tampered

tenths = st.integers(0, 20).map(lambda number: Fraction(number, 10))
work = st.integers(1, 30).map(lambda number: Fraction(number, 10))


def makespan(schedule: Schedule, costs: Costs) -> Fraction:
    program = program_of(schedule, shared_copy=costs.shared_copy)
    ticks, lags, scale = ticks_of(program, schedule, costs)
    return Fraction(max(walk(program.index, ticks, lags).ends), scale)


def peaks(schedule: Schedule, weights: Weights) -> list[float]:
    proof = program_of(schedule, weights=weights).prove()
    return [proof.peak_memory.get((rank, "device"), 0.0) for rank in range(len(schedule.ranks))]


def held(schedule: Schedule, weights: Weights) -> list[float]:
    return [float(each) for each in time(schedule, weights=weights).memory.peaks]


@pytest.mark.deep
@pytest.mark.parametrize("name", names())
@given(st.integers(1, 4), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_makespan_and_memory_are_those_of_the_schedule(name: str, half: int, data: st.DataObject) -> None:
    ranks, microbatches = 2 * half, 2 * half * data.draw(st.integers(1, 2))
    try:
        schedule = make(name, ranks, microbatches)
    except ScheduleError:
        return
    costs = Costs.of(
        f=data.draw(st.lists(work, min_size=ranks, max_size=ranks)), b=data.draw(work), w=data.draw(work),
        r=data.draw(work), offload=data.draw(tenths), reload=data.draw(tenths), shared_copy=data.draw(st.booleans()),
        comm=0 if schedule.barriers else data.draw(tenths), s=data.draw(tenths), t=data.draw(tenths),
    )  # fmt: skip
    assert makespan(schedule, costs) == time(schedule, costs).makespan
    weights = Weights(kept=data.draw(st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(0)])))
    assert peaks(schedule, weights) == pytest.approx(held(schedule, weights))


@pytest.mark.parametrize("name", ["one_f_one_b", "zb_h1", "interleaved"])
def test_recomputed_stages_hold_their_inputs(name: str) -> None:
    schedule = recomputed(make(name, 4, 8))
    weights = Weights(boundary=Fraction(1, 8))
    assert peaks(schedule, weights) == pytest.approx(held(schedule, weights))
    costs = Costs.of(f=1, b=1.5, w=0.5, r=0.75)
    assert makespan(schedule, costs) == time(schedule, costs).makespan


BACKWARDS = (Kind.B, Kind.W)


def harmless(schedule: Schedule) -> bool:
    """Whether a sum is scaled while it is empty, and once more behind all gradients; or freed is what is used up."""
    for row in schedule.ranks:
        for at, op in enumerate(row):
            before = [each for each in row[:at] if each.stage == op.stage and each.kind in BACKWARDS]
            if op.kind is Kind.REDUCE_GRAD and not before:
                return True
            if op.kind is Kind.OFFLOAD and any(each.microbatch == op.microbatch for each in before):
                return True
    return False


def rows(chance: Random) -> Iterator[Schedule]:
    for name in names():
        whole = communicate(make(name, 4, 8))
        for _ in range(examples(400)):
            yield tampered(whole, chance)


@pytest.mark.deep
def test_what_the_proof_of_schedules_refuses_is_refused() -> None:
    refused = accepted = 0
    for schedule in rows(Random(20)):
        try:
            check(schedule)
        except ScheduleError:
            if harmless(schedule):
                continue
            with pytest.raises((ProgramError, ScheduleError)):
                program_of(schedule, lanes=False).prove()
            refused += 1
        else:
            program_of(schedule, lanes=False).prove()
            program_of(schedule).prove()
            accepted += 1
    assert refused > accepted > 0
