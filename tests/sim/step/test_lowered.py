"""A step by way of a Program is the step of the schedule's own loop: every instant, transfer and wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.core.units import SECOND
from poise.pipeline import Costs, Schedule, make, names
from poise.sim.links import Wiring
from poise.sim.step import Step, Traffic, lowered_step, simulate_step
from poise.sim.step.lowered import step_program
from tests.depth import examples

TENTHS = st.integers(1, 40).map(lambda number: number / 10)
PERHAPS = st.one_of(st.just(0.0), TENTHS)
NEAR = 2000  # picoseconds: ends of transfers are rounded at other instants


def near(one: Iterable[Any], two: Iterable[Any]) -> bool:
    return all(abs(a - b) <= NEAR for a, b in zip(one, two, strict=True))


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
@settings(max_examples=examples(800), deadline=None)
def test_it_is_the_loop_of_schedules(case: tuple[Schedule, Costs, Traffic, Wiring]) -> None:
    one, two = simulate_step(*case), lowered_step(*case)
    assert near(one.starts, two.starts)
    assert near(one.ends, two.ends)
    assert near(one.finish, two.finish)
    assert near(one.waited, two.waited)
    assert near([at for each in one.optimizer for at in each], [at for each in two.optimizer for at in each])
    assert len(one.transfers) == len(two.transfers)
    for a, b in zip(sorted(one.transfers), sorted(two.transfers), strict=True):
        assert a[:4] == b[:4]
        assert near(a[4:], b[4:])


@pytest.mark.deep
@given(steps())
@settings(max_examples=examples(80), deadline=None)
def test_its_program_is_proven(case: tuple[Schedule, Costs, Traffic, Wiring]) -> None:
    step_program(case[0], case[2]).prove()


def test_copies_of_a_stage_update_together() -> None:
    """Rank 1 is slower; the copies of its stages on rank 0 cannot be updated before its gradients are there."""
    schedule = make("chimera", 2, 2)
    costs, wiring = Costs.of(rank=[1, 2]), Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)

    def finish(step: Step) -> list[float]:
        return [at / SECOND for at in step.finish]

    traffic = Traffic(optimizer_s=1.0)
    alone, together = simulate_step(schedule, costs, traffic, wiring), lowered_step(schedule, costs, traffic, wiring)
    assert finish(alone)[0] < finish(alone)[1] == finish(together)[0] == finish(together)[1]
    assert together.waited == alone.waited  # that is no transfer


def test_what_cannot_be() -> None:
    wiring = Wiring.nodes(2, 1, scaleup_bw=1.0, scaleout_bw=1.0)
    with pytest.raises(ScheduleError, match="updates stash: weights change behind every backward"):
        lowered_step(make("pipedream", 2, 4), Costs(), Traffic(sync_bytes=1.0), wiring)
    with pytest.raises(ScheduleError, match="2 ranks for a schedule of 3; give as many"):
        lowered_step(make("gpipe", 3, 4), Costs(), Traffic(), wiring)
