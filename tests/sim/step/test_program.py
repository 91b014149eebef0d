"""A step is its Program on links: proven, and equal to the slow simulation and, without bytes, to the plain timing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.core.units import SECOND
from poise.pipeline import Costs, Schedule, make, names, time
from poise.pipeline.text import read_text
from poise.sim.links import Wiring
from poise.sim.program import simulate
from poise.sim.program.routes import routes_of
from poise.sim.step import Traffic, simulate_step
from poise.sim.step.simulate import step_clock, step_program
from tests.depth import examples
from tests.sim.program.reference import Reference

TENTHS = st.integers(1, 40).map(lambda number: number / 10)
PERHAPS = st.one_of(st.just(0.0), TENTHS)
NEAR = 2000  # picoseconds: ends of transfers are rounded


def wirings(ranks: int) -> st.SearchStrategy[Wiring]:
    return st.builds(
        lambda per_node, shared, inside, between: Wiring.nodes(
            ranks, per_node, scaleup_bw=2.0, scaleout_bw=1.0, ranks_per_nic=shared, latency_s=(inside, between)
        ),
        st.integers(1, 2), st.integers(1, 2), PERHAPS, PERHAPS,
    )  # fmt: skip


@st.composite
def steps(draw: st.DrawFn) -> tuple[Schedule, Costs, Traffic, Wiring]:
    ranks = draw(st.sampled_from([2, 4]))
    try:
        schedule = make(draw(st.sampled_from(names())), ranks, ranks * draw(st.integers(1, 3)))
    except ScheduleError:
        reject()
    factors = st.lists(st.sampled_from([1, "1.3"]), min_size=ranks, max_size=ranks)
    alone = not any(len(homes) > 1 for homes in schedule.homes)
    costs = Costs.of(
        f=[draw(st.integers(1, 9)) for _ in range(ranks)], b=draw(st.integers(1, 9)), w=draw(st.integers(1, 9)), r=2,
        s=1, t=1, barrier=draw(st.sampled_from([0, 1, 3])), offload=draw(st.sampled_from([0, 1, 4])),
        reload=draw(st.sampled_from([0, 2])), shared_copy=draw(st.booleans()),
        rank=draw(factors) if alone else 1,  # ranks that share a stage would wait for each other
    )  # fmt: skip
    stages = schedule.stages
    traffic = Traffic(draw(PERHAPS))
    if schedule.updates == "flush":
        traffic = Traffic(
            draw(PERHAPS), draw(st.lists(PERHAPS, min_size=stages, max_size=stages)),
            draw(st.sampled_from(["end", "run"])), draw(PERHAPS), draw(PERHAPS), draw(PERHAPS), draw(PERHAPS),
        )  # fmt: skip
    return schedule, costs, traffic, draw(wirings(ranks))


@pytest.mark.deep
@given(steps())
@settings(max_examples=examples(80), deadline=None)
def test_its_program_is_proven(case: tuple[Schedule, Costs, Traffic, Wiring]) -> None:
    step_program(case[0], case[2]).prove()


@pytest.mark.deep
@given(steps())
@settings(max_examples=examples(80), deadline=None)
def test_it_is_the_slow_simulation(case: tuple[Schedule, Costs, Traffic, Wiring]) -> None:
    schedule, costs, traffic, wiring = case
    program = step_program(schedule, traffic, shared_copy=costs.shared_copy)
    clock = step_clock(program, schedule, costs, traffic, wiring)
    slow = Reference(program.index, clock, routes_of(program.index, wiring), wiring.bytes_per_s).run()
    fast = simulate(program, clock, wiring)
    assert all(abs(fast.ready[at] - instant) <= NEAR for at, instant in slow.ready.items())
    step = simulate_step(*case)
    assert step.makespan_s * SECOND == pytest.approx(float(max(slow.ready.values())), abs=NEAR)


@pytest.mark.deep
@given(steps(), st.sampled_from([0, 1, 2.5]))
@settings(max_examples=examples(400), deadline=None)
def test_without_bytes_it_is_the_plain_timing(case: tuple[Schedule, Costs, Traffic, Wiring], latency: float) -> None:
    schedule, costs, *_ = case
    ranks = len(schedule.ranks)
    wiring = Wiring.nodes(ranks, ranks, scaleup_bw=1.0, scaleout_bw=1.0, latency_s=(latency, latency))
    step = simulate_step(schedule, costs, Traffic(), wiring)
    links = tuple(tuple(Fraction(latency) * (here != there) for there in range(ranks)) for here in range(ranks))
    timing = time(schedule, replace(costs, links=links))
    for found, wanted in ((step.starts, timing.starts), (step.ends, timing.ends)):
        exact = [at * SECOND / timing.scale for at in wanted]
        assert found == pytest.approx(exact, abs=NEAR)
    if not latency:
        assert not any(step.waited)


def test_copies_of_a_stage_update_together() -> None:
    """Rank 1 is slower; the copies of its stages on rank 0 cannot be updated before its gradients are there."""
    schedule = make("chimera", 2, 2)
    costs, wiring = Costs.of(rank=[1, 2]), Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)
    step = simulate_step(schedule, costs, Traffic(optimizer_s=1.0), wiring)
    ends = [max(step.ends[low:high]) for low, high in pairwise(step.graph.first)]
    assert ends[0] < ends[1]
    assert step.finish == [ends[1] + SECOND] * 2
    assert step.waited == [0, 0]  # that is no transfer


def test_a_message_without_bytes_does_not_overtake() -> None:
    """Messages of two ranks are one channel: what stage 2 hands on waits for the four bytes before it."""
    schedule = read_text("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n1F0 3F0 1F1 3F1 3B0 3B1 1B0 1B1")
    wiring = Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)
    step = simulate_step(schedule, Costs(), Traffic(message_bytes=[4.0, 0.0, 0.0, 0.0]), wiring)
    ops = [str(op) for row in schedule.ranks for op in row]
    begin = {op: at / SECOND for op, at in zip(ops, step.starts, strict=True)}
    assert (begin["1F0"], begin["2F0"]) == (0.5 + 4, 5.0)
    assert begin["3F0"] == 0.5 + 4 + 4  # not 5.5, when 2F0 ends


def test_what_cannot_be() -> None:
    wiring = Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)
    with pytest.raises(ScheduleError, match="updates stash: weights change behind every backward"):
        simulate_step(make("pipedream", 2, 4), Costs(), Traffic(sync_bytes=1.0), wiring)
