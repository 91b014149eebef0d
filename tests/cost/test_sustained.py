"""The closed form of a sustained rate against simulation, and where it must stop."""

from __future__ import annotations

from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.catalogue import device, model
from poise.core.spec import Engine, Pool
from poise.cost import Roofline, kv_blocks
from poise.cost.sustained import found_few, sustained, sustained_share

POOL = Pool(model("llama-3.1-8b"), device("A100"), engine=Engine(prefix_caching=False))
ESTIMATOR = Roofline().build(POOL)


@pytest.mark.parametrize(("prompt", "output", "tpot_s"), [(200, 200, 0.02), (1000, 100, 0.03), (4000, 150, 0.06)])
def test_a_simulation_with_even_arrivals_has_that_tpot(prompt: int, output: int, tpot_s: float) -> None:
    rate = sustained(POOL, ESTIMATOR, prompt, output, tpot_s)
    cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b", engine=POOL.engine)
    even = ps.workload.constant(1 / rate, requests=1500, prompt_tokens=prompt, output_tokens=output)
    assert ps.simulate(cluster, even).tpot.mean == pytest.approx(tpot_s, rel=0.05)


@given(st.integers(1, 3000), st.integers(2, 400), st.floats(0.01, 0.2))
@settings(max_examples=80, deadline=None)
def test_a_looser_limit_or_a_shorter_request_never_lowers_it(prompt: int, output: int, tpot_s: float) -> None:
    rate = sustained(POOL, ESTIMATOR, prompt, output, tpot_s)
    """To within a step of the batch sizes that are tried."""
    assert sustained(POOL, ESTIMATOR, prompt, output, tpot_s * 1.5) >= 0.94 * rate
    if rate:
        assert sustained(POOL, ESTIMATOR, prompt + 500, output, tpot_s) <= rate / 0.94


def test_nothing_under_a_limit_below_one_step_or_where_the_cache_is_too_small() -> None:
    assert sustained(POOL, ESTIMATOR, 100, 100, 0.001) == 0.0
    assert sustained(POOL, ESTIMATOR, kv_blocks(POOL) * 16, 100, 1.0) == 0.0


def test_one_output_token_is_prefill_alone() -> None:
    assert 1 / sustained(POOL, ESTIMATOR, 1000, 1, 1e-9) == pytest.approx(
        ps.simulate(
            ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b"),
            ps.workload.constant(1.0, requests=1, prompt_tokens=1000, output_tokens=1),
        ).ttft.p50,
        rel=1e-6,
    )


@pytest.mark.parametrize(("prompt", "output", "tpot_s"), [(200, 200, 0.02), (1000, 100, 0.03)])
def test_a_simulation_with_chance_arrivals_has_its_share_in_time(prompt: int, output: int, tpot_s: float) -> None:
    """To within a few points: who finds few may be joined by more than usual."""
    rate = sustained_share(POOL, ESTIMATOR, prompt, output, tpot_s, 0.99)
    assert 0 < rate < sustained(POOL, ESTIMATOR, prompt, output, tpot_s)
    cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b", engine=POOL.engine)
    chance = ps.workload.poisson(rate, requests=4000, prompt_tokens=prompt, output_tokens=output, seed=1)
    assert (ps.simulate(cluster, chance).metrics(ps.Slo(tpot_s=tpot_s)).slo_attainment or 0) > 0.96


@given(st.integers(1, 3000), st.integers(2, 400), st.floats(0.01, 0.2), st.floats(0.5, 0.999))
@settings(max_examples=40, deadline=None)
def test_a_larger_share_is_a_lower_rate(prompt: int, output: int, tpot_s: float, share: float) -> None:
    most = sustained(POOL, ESTIMATOR, prompt, output, tpot_s)
    rate = sustained_share(POOL, ESTIMATOR, prompt, output, tpot_s, share)
    assert sustained_share(POOL, ESTIMATOR, prompt, output, tpot_s, (1 + share) / 2) <= rate * 1.001 <= most * 1.002


def test_the_share_that_finds_few_is_erlangs() -> None:
    """With a constant rate of leaving for each that runs, those who find n are Poisson's up to the last."""
    leaving = [float(each) for each in range(1, 5)]
    poisson = [3.0**each / factorial(each) for each in range(4)]
    beyond = 3.0**4 / factorial(4) / (1 - 3.0 / 4.0)
    assert found_few(leaving, 3.0) == pytest.approx(sum(poisson) / (sum(poisson) + beyond))
    assert found_few(leaving, 4.0) == 0.0
