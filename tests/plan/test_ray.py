"""A Ray cluster finds what processes find; without Ray, or without a cluster, the user is told."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from poise.core.errors import UserError
from poise.experiment.workers import Workers
from poise.plan.limits import Limits
from poise.plan.search import search
from poise.plan.space import space

from .cases import COST, a_bench, pools

INSTALLED = find_spec("ray") is not None


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="ray is not installed")
@pytest.mark.filterwarnings("ignore")  # Ray's own, at its start
def test_a_cluster_finds_the_same_fleet() -> None:
    bench = a_bench()
    where = space(pools(), bench.demand, bench.goal, COST, mix=False)
    here, there = (
        search(where, bench, Limits(bench.goal), workers=Workers(ray=address)).winner for address in ("", "local")
    )
    assert here == there


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_missing_cluster_is_reported_at_once(address: str) -> None:
    bench = a_bench()
    where = space(pools(1), bench.demand, bench.goal, COST, split=False, mix=False)
    expected = "no cluster answers" if INSTALLED else "-m pip install"
    with pytest.raises(UserError, match=expected):
        search(where, bench, Limits(bench.goal), workers=Workers(ray=address))
