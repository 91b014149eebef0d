"""Engines that start without warming up: the first step of each lane takes longer, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.records.records import Run
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND, ps
from poise.policies import Policies
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL


class Cost:
    """Steps of a second, each token of a prompt a millisecond."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=1.0, prompt_s=0.001)


def run(cold_s: float, arrivals_s: list[float], *, split: bool = False, one_step: bool = False) -> Run:
    engine = Engine(token_budget=100, max_sequences=4, kv_blocks=1000, cold_s=cold_s)
    roles = ("prefill", "decode") if split else ("mixed",)
    pools = tuple(Pool(MODEL, DEVICE, role=role, engine=engine) for role in roles)  # type: ignore[arg-type]
    stamps = np.array([ps(at) for at in arrivals_s], "i8")
    load = Workload(stamps, np.full(len(stamps), 10, "i4"), np.full(len(stamps), 5, "i4"))
    watching = Watching(after_event=check_world)
    cluster = Cluster(pools, link_bw=1e9)
    return simulate(cluster, load, Policies(), cost=Cost(), watching=watching, one_step=one_step)


def first_tokens(found: Run) -> list[float]:
    return [at / SECOND for at in found.records.first_token_at]


def test_the_first_wave_waits_and_later_requests_do_not() -> None:
    warm, cold = (first_tokens(run(each, [0.0, 0.0, 100.0])) for each in (0.0, 30.0))
    assert [later - soon for soon, later in zip(warm, cold, strict=True)] == pytest.approx([30.0, 30.0, 0.0])


def test_a_request_that_comes_late_meets_a_cold_engine_all_the_same() -> None:
    warm, cold = (first_tokens(run(each, [50.0])) for each in (0.0, 30.0))
    assert cold[0] - warm[0] == pytest.approx(30.0)


def test_both_sides_of_a_pair_start_cold() -> None:
    warm, cold = (first_tokens(run(each, [0.0, 200.0], split=True)) for each in (0.0, 30.0))
    assert [later - soon for soon, later in zip(warm, cold, strict=True)] == pytest.approx([60.0, 0.0])


@given(st.floats(0.001, 40), st.lists(st.floats(0, 60), min_size=1, max_size=8).map(sorted), st.booleans())
@settings(max_examples=40, deadline=None)
def test_batches_are_held_as_long_as_steps_one_by_one(cold_s: float, arrivals_s: list[float], split: bool) -> None:
    held, stepwise = (run(cold_s, arrivals_s, split=split, one_step=each).records for each in (False, True))
    assert list(held.first_token_at) == list(stepwise.first_token_at)
    assert list(held.ended_at) == list(stepwise.ended_at)
