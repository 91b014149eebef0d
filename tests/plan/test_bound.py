"""The closed form is what a replica reaches at best: simulation stays below it, and comes near."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.plan.bound import bound
from poise.plan.demand import demand_of
from poise.plan.fleet_template import DOUBT
from poise.plan.goal import Goal
from poise.scenario.simulate import simulate
from poise.workload import all_at_once, poisson

from .cases import COST, a_goal, pools


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(("prompt", "output"), [(200, 200), (2000, 50), (64, 400)])
def test_no_replica_carries_more_than_its_closed_form(at: int, prompt: int, output: int) -> None:
    """All requests at once: what is finished per second in the middle of the run is the most that there can be."""
    pool = pools()[at]
    load = poisson(rate=10.0, requests=200, prompt_tokens=prompt, output_tokens=output, seed=0)
    demand = demand_of([load], name="load")
    goal = Goal(replace(a_goal().slo, ttft_s=None, tpot_s=None))
    most = bound(pool, COST.build(pool), demand, goal).rate
    crowd = all_at_once(requests=600, prompt_tokens=prompt, output_tokens=output, seed=0)
    from poise.core.spec import Cluster

    run = simulate(Cluster((pool,)), crowd, cost=COST)
    ended = np.sort(np.asarray(run.records.ended_at)) / SECOND
    middle = ended[len(ended) // 4 : 3 * len(ended) // 4]
    reached = (len(middle) - 1) / (middle[-1] - middle[0])
    assert reached <= most * DOUBT
    assert 600 / ended[-1] >= most * 0.4, "and it is no fantasy"


@settings(max_examples=25, deadline=None)
@given(st.integers(16, 3000), st.integers(2, 600), st.sampled_from([0.01, 0.02, 0.05, 0.2]), st.integers(0, 3))
def test_a_looser_slo_never_carries_less(prompt: int, output: int, tpot_s: float, at: int) -> None:
    pool = pools()[at]
    load = poisson(rate=5.0, requests=20, prompt_tokens=prompt, output_tokens=output, seed=1)
    demand = demand_of([load], name="load")
    estimator = COST.build(pool)
    tight, loose = (bound(pool, estimator, demand, a_goal(tpot_s=limit)) for limit in (tpot_s, 2 * tpot_s))
    assert tight.batch <= loose.batch and tight.tpot_s == loose.tpot_s
    assert tight.rate <= loose.rate * 1.05, "a larger batch shares its weights among more"
    assert tight.rate > 0 and tight.prefill_s > 0 and tight.decode_s > 0
