"""Devices that are lost: replicas that go on more slowly, replicas that go with them, and how both come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.records.blame import SLOW
from poise.core.records.records import FINISHED, Run
from poise.core.spec import Cluster, Fault, FaultRate, Pool
from poise.core.units import SECOND, seconds
from poise.policies.recover.migrate import Migrate
from poise.policies.recover.restart import Restart
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.scenario.simulate import simulate
from poise.sim.hazards import faults as drawn
from poise.sim.terms import Saving, Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_exact import assert_equal
from tests.sim.test_faults import a_load, ends


class Surviving:
    """Ten milliseconds a step; all but one of `copies` devices may be lost, each for half a step's time."""

    def __init__(self, copies: int) -> None:
        self.copies = copies

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.01, copies=self.copies)


def run(copies: int, load: Any, *given: Fault, replicas: int = 1, start_s: float = 0.0, **more: Any) -> Run:
    """Fast and step by step, every invariant checked after each event."""
    pool = Pool(MODEL, DEVICE, replicas, tensor=4, start_s=start_s, engine=ps.Engine(kv_blocks=1000))
    cluster = Cluster((pool,), link_bw=1e7, link_latency_s=0.001, faults=given, fault_rates=more.pop("rates", ()))
    runs = [
        simulate(
            cluster,
            load,
            cost=Surviving(copies),
            one_step=one_step,
            belief=ps.Belief(0.1, 0.0),
            **more,
            saving=Saving(blame=True),
            watching=Watching(after_event=check_world),
        )
        for one_step in (True, False)
    ]
    assert_equal(*runs)
    return runs[1]


ONE = a_load((0.0, 16, 15))


def test_a_replica_that_survives_is_slower_until_the_device_is_back() -> None:
    """Six steps of 10 ms, seven of 15 that begin at 60 to 150, two of 10."""
    some = run(2, ONE, Fault(0.055, "device_lost", 0, for_s=0.1))
    assert ends(some) == [0.185]
    assert [(each.kind, each.until) for each in some.faults] == [("device_lost", SECOND * 155 // 1000)]
    assert some.blame is not None
    assert seconds(some.blame.rest[SLOW][0]) == pytest.approx(0.1 / 3)


def test_losses_at_once_add_up_and_a_slow_device_multiplies() -> None:
    two = [Fault(0.0, "device_lost", 0), Fault(0.0, "device_lost", 0)]
    assert ends(run(3, ONE, *two)) == ends(run(3, ONE, Fault(0.0, "device_lost", 0, devices=2))) == [0.3]
    assert ends(run(2, ONE, two[0], Fault(0.0, "slow", 0, factor=2))) == [0.45]


def test_one_device_too_many_takes_the_replica_until_all_are_back() -> None:
    """Of two copies the second loss is the end; the later one is back at 2 s, a start takes 1 s, then 15 steps."""
    lost = Fault(0.055, "device_lost", 0, for_s=1.945), Fault(0.11, "device_lost", 0, for_s=0.5)
    some = run(2, ONE, *lost, start_s=1.0)
    assert [each.kind for each in some.faults] == ["device_lost", "device_lost", "join"]
    assert list(some.records.retries) == [1]
    assert ends(some) == [pytest.approx(3.0 + 0.01 * (15 - 9))]  # nine tokens were made by 110 ms


def test_a_replica_whose_devices_work_together_goes_with_the_first() -> None:
    load = a_load((0.0, 16, 400), (1.0, 16, 5))
    back = run(1, load, Fault(0.5, "device_lost", 0, for_s=2.0))
    assert list(back.records.status) == [FINISHED] * 2
    assert back.records.dispatched_at[1] == SECOND * 5 // 2  # held, for the device comes back
    assert FINISHED not in run(1, load, Fault(0.5, "device_lost", 0)).records.status


@pytest.mark.parametrize("router", [LeastRequests, PrefixCache])
@pytest.mark.parametrize("recovery", [Migrate, Restart])
@given(st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=8)
def test_no_request_is_lost_with_devices(router: Any, recovery: Any, copies: int, seed: int) -> None:
    load = a_load(*((0.1 * at, 50, 40) for at in range(30)))
    rates = (FaultRate("device_lost", 3000.0, for_s=0.7), FaultRate("reclaimed", 900.0, notice_s=0.1, back_s=0.2))
    some = run(
        copies, load, replicas=3, rates=rates, seed=seed, policies=ps.Policies(router=router(), recovery=recovery())
    )
    assert set(some.records.status) == {FINISHED}
    assert set(some.records.output_tokens) == {40}


def test_devices_are_lost_while_others_are_away() -> None:
    """Ten losses an hour that last an hour each: ten are away in the mean."""
    found = drawn((FaultRate("device_lost", 10.0, for_s=3600.0, devices=2),), 1, 3, 100 * 3600.0)
    assert len(found) == pytest.approx(1000, abs=100)
    assert {(each.kind, each.devices, each.for_s) for each in found} == {("device_lost", 2, 3600.0)}
