"""Ladders: every rung has a little more than the one below, and the floor is never above the first rung."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from poise.plan.fleet import Fleet
from poise.plan.fleet_template import Same, Split
from poise.plan.local_search import fewer, neighbours, variants
from poise.plan.mix import RUNGS, histogram, mixes
from poise.plan.space import least, space

from .cases import COST, a_bench, a_demand, a_goal, pools


@given(st.floats(0.05, 40), st.floats(0.05, 40))
def test_a_split_gains_one_replica_a_rung_in_the_wanted_ratio(prefill: float, decode: float) -> None:
    pool = pools(1)[0]
    kind = Split(pool, pool, (prefill, decode))
    assert 1 <= kind.floor <= kind.first
    rungs = [kind.fleet(rung) for rung in range(1, kind.first + 3)]
    assert [fleet.replicas for fleet in rungs] == list(range(2, len(rungs) + 2))
    assert {pool.role for pool in rungs[0].pools} == {"prefill", "decode"}
    enough = kind.fleet(kind.first)
    assert enough.pools[0].replicas >= prefill and enough.pools[1].replicas >= decode
    if kind.first > 1:
        before = kind.fleet(kind.first - 1)
        assert before.pools[0].replicas < prefill or before.pools[1].replicas < decode


def test_the_space_is_in_the_order_of_its_floors() -> None:
    demand, goal = a_demand(), a_goal()
    where = space(pools(), demand, goal, COST)
    floors = [least(kind, demand, goal) for kind in where.kinds]
    assert floors == sorted(floors) and len(floors) > 4
    assert all(kind.floor <= kind.first for kind in where.kinds)
    assert any(isinstance(kind, Same) for kind in where.kinds) and any(isinstance(kind, Split) for kind in where.kinds)


def test_a_mix_carries_more_on_every_rung_and_its_histogram_is_the_demand() -> None:
    demand, goal = a_demand(rate=200.0), a_goal()
    sizes = histogram(demand)
    assert abs(sizes.rate - demand.rate) < 1e-9 * demand.rate
    tokens = sum(bucket.rate * bucket.prompt_tokens for bucket in sizes.buckets)
    assert abs(tokens / (demand.rate * demand.prompt) - 1) < 0.01
    bounds = space(pools(), demand, goal, COST).bounds
    for mix in mixes(bounds, demand, goal, COST, {"H100-SXM-80GB": 1}):
        fleets = [mix.fleet(rung) for rung in range(1, RUNGS + 1)]
        prices = [fleet.price_per_hour for fleet in fleets]
        assert prices == sorted(prices)
        assert all(fleet.by_device.get("H100-SXM-80GB", 0) <= 1 for fleet in fleets)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_neighbours_keep_a_replica_of_each_and_have_at_most_as_many(counts: list[int]) -> None:
    for found in neighbours(counts):
        assert min(found) >= 1 and sum(counts) - 1 <= sum(found) <= sum(counts) and found != tuple(counts)


def test_variants_change_one_thing() -> None:
    bench = a_bench(a_demand(rate=60.0))
    kind = next(each for each in space(pools(), bench.demand, bench.goal, COST).kinds if isinstance(each, Split))
    best = replace(bench.trial(kind.fleet(3)), attainment=0.97)
    base = kind.fleet(3)

    def limits(fleet: Fleet) -> set[tuple[int, int]]:
        return {(pool.engine.token_budget, pool.engine.max_sequences) for pool in fleet.pools}

    found = list(variants(kind, best, [], bench.demand))
    assert found
    for variant in found:
        fleet = variant.fleet(variant.first)
        assert variant.first == variant.floor == 3, "there is no hope below"
        assert (fleet.router != base.router) + (limits(fleet) != limits(base)) == 1
        assert [pool.replicas for pool in fleet.pools] == [pool.replicas for pool in base.pools]
    hopeful = replace(best, fleet=kind.fleet(2), attainment=0.9)
    assert all(each.first == 2 for each in variants(kind, best, [hopeful], bench.demand))
    assert not list(variants(kind, replace(best, attainment=1.0), [], bench.demand)), "nothing to gain"
    assert all(fleet.fleet(1).replicas <= base.replicas for fleet in fewer(base))
