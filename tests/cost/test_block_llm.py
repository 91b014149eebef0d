"""Blocks that are shared: places, queues by hand, limits at nothing and all shared, and work that is conserved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.block_llm import Arrival, Zoo, arrivals, per_block, per_model, percentile

ZOO = Zoo(variants=6, shared=0.6, hop_s=0.01)


@pytest.mark.parametrize(("shared", "held"), [(0.0, 2), (0.5, 3), (0.6, 3), (0.75, 5), (0.8, 6), (1.0, 6)])
def test_what_a_device_holds(shared: float, held: int) -> None:
    """Room for two models: s + k·(1 − s) ≤ 2."""
    assert replace(ZOO, shared=shared).held() == held


def test_queues_by_hand() -> None:
    """One device each of two variants: the second request of a variant waits for the first."""
    rows = [Arrival(0.0, 0, 1.0), Arrival(0.0, 0, 1.0), Arrival(0.5, 1, 1.0)]
    zoo = Zoo(variants=2, shared=0.0, skew=0.0, room=1.0)
    assert per_model(zoo, rows, 2) == [1.0, 2.0, 1.0]


def test_a_hop_by_hand() -> None:
    """While its own device is busy for 0.7 s, 0.6 s run on the other; a hop of 10 ms, and 0.4 s follow at 0.7 s."""
    rows = [Arrival(0.0, 0, 0.7), Arrival(0.0, 0, 1.0)]
    zoo = Zoo(variants=2, shared=0.6, skew=0.0, room=1.0, hop_s=0.01)
    assert per_block(zoo, rows, 2) == [pytest.approx(0.7), pytest.approx(1.1)]
    assert per_block(replace(zoo, hop_s=0.2), rows, 2)[1] == pytest.approx(1.7)  # too late for its turn


@given(st.floats(0, 1), st.integers(4, 20), st.integers(0, 5))
def test_no_request_is_served_faster_than_its_work(shared: float, devices: int, seed: int) -> None:
    zoo = replace(ZOO, shared=shared)
    rows = arrivals(zoo, 3.0, 60, seed)
    for found in (per_model(zoo, rows, devices), per_block(zoo, rows, devices)):
        assert all(each >= row.size - 1e-9 for each, row in zip(found, rows, strict=True))


def test_nothing_shared_is_per_model_and_all_shared_is_one_queue() -> None:
    rows = arrivals(ZOO, 9.0, 2000, 1)
    assert per_block(replace(ZOO, shared=0), rows, 12) == per_model(ZOO, rows, 12)
    single = Zoo(variants=1, shared=0.0)
    one = per_model(single, [replace(row, variant=0) for row in rows], 12)
    assert per_block(replace(ZOO, shared=1), rows, 12) == one
    assert percentile(one) < percentile(per_model(ZOO, rows, 12))


def test_one_device_meets_the_formula() -> None:
    """M/M/1 at a load of 0.5: twice the work in the mean."""
    zoo = Zoo(variants=1, shared=1.0)
    found = per_block(zoo, arrivals(zoo, 0.5, 60_000, 3), 1)
    assert sum(found) / len(found) == pytest.approx(2, rel=0.06)


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="part of 1"):
        replace(ZOO, shared=1.2)
    with pytest.raises(UserError, match="holds no model"):
        replace(ZOO, room=0.5)
