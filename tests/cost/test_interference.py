"""Neighbours: a series with its moments, a prediction with its error, and steps that are as much longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.interference import MAE, Slowed, predicted, series
from tests.cost.pools import H100, LLAMA_8B


def test_a_series_remembers_and_stays_a_part() -> None:
    made = series(0.7, 0.05, 0.9, 50_000, seed=1)
    assert made.mean() == pytest.approx(0.7, abs=0.01)
    assert made.std() == pytest.approx(0.05, abs=0.005)
    assert np.corrcoef(made[1:], made[:-1])[0, 1] == pytest.approx(0.9, abs=0.02)
    wild = series(0.9, 0.5, 0.0, 1000, seed=1)
    assert wild.min() >= 0.05 and wild.max() == 1.0


def test_a_prediction_has_the_published_error() -> None:
    true = np.full(50_000, 0.6)
    assert np.abs(predicted(true, seed=2) - true).mean() == pytest.approx(MAE, rel=0.02)
    assert np.array_equal(predicted(true, seed=2, mae=0.0), true)


@given(st.floats(0.05, 1.0), st.integers(0, 64), st.integers(1, 4000))
def test_a_step_takes_so_many_times_as_long(ratio: float, decodes: int, prompt: int) -> None:
    pool = Pool(LLAMA_8B, H100, name="crowded")
    alone, among = Roofline().build(pool), Slowed(Roofline(), {"crowded": ratio}).build(pool)
    for shape in (StepShape(decodes), StepShape(decodes, (Chunk(prompt, 0),))):
        one, two = alone.step(shape), among.step(shape)
        assert two.base == pytest.approx(one.base / ratio, abs=1)
        assert two.per_kv == pytest.approx(one.per_kv / ratio, abs=1)
    assert among.kv_bytes(100) == alone.kv_bytes(100) and among.swap(100) == alone.swap(100)


def test_only_the_named_pool_is_slower_in_a_simulation() -> None:
    cluster = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
    pool = cluster.pools[0]
    both = replace(cluster, pools=(replace(pool, replicas=1, name="alone"), replace(pool, replicas=1, name="crowded")))
    load = ps.workload.constant(1.0, requests=40)
    fair = ps.simulate(both, load, cost=Slowed(Roofline()))
    assert fair.e2e == ps.simulate(both, load).e2e
    slow = ps.simulate(both, load, cost=Slowed(Roofline(), {"crowded": 0.5}))
    times = np.array(slow.run.records.ended_at) - np.array(slow.run.records.arrived_at)
    assert max(times) == pytest.approx(2 * min(times), rel=0.01)
    assert (
        Slowed(Roofline(), {"x": 0.5}).build(replace(pool, name="x")).describe()["performance_among_neighbours"] == 0.5
    )


def test_ratios_are_parts() -> None:
    with pytest.raises(UserError, match=r"pool 'x': performance 1\.2 is no part"):
        Slowed(Roofline(), {"x": 1.2})
    with pytest.raises(UserError, match="give a part of 1"):
        series(1.5, 0.1, 0.0, 10, 0)
