"""Variants on one replica: nothing to pay where all is shared, no more than models side by side, and their queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.catalogue import device, model
from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.request import RequestView
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import ps as picoseconds
from poise.core.units import seconds
from poise.core.view import ClusterView
from poise.cost import Roofline, kv_blocks
from poise.cost.block_llm import Arrival, Zoo, arrivals, per_block, per_model
from poise.cost.memory import footprint
from poise.cost.term import Termed, held
from poise.cost.terms.block_llm import BlockLlm
from poise.cost.variants import placed, spread
from poise.scenario.simulate import simulate
from poise.testing.cost import LinearCost
from poise.workload.table import Workload
from tests.cost.pools import LLAMA_8B, pools

POOL = Pool(model("llama-3.1-8b"), device("H100"))


@given(pools(), st.integers(0, 300), st.integers(0, 2000), st.integers(1, 9), st.floats(0, 1), st.floats(0, 2))
def test_between_one_variant_and_whole_models(
    pool: Pool, decodes: int, new: int, variants: int, shared: float, skew: float
) -> None:
    shape, inner = StepShape(decodes, (Chunk(new, 0),) if new else ()), Roofline().build(pool)
    one, some, whole = (BlockLlm(variants, part, skew).around(inner, pool).step(shape) for part in (1.0, shared, 0.0))
    assert one == inner.step(shape)
    assert one.base <= some.base <= whole.base
    assert whole[1:] == some[1:] == one[1:]
    if decodes or new:
        assert whole.base <= variants * max(one.base, 1) + variants


def test_a_batch_of_many_reads_the_own_blocks_of_each() -> None:
    """Sixty-four decodes of four variants with half shared: two and a half times the layers' weights."""
    inner = Roofline().build(POOL)
    found = BlockLlm(4, 0.5).around(inner, POOL)
    more = found.step(StepShape(64)).base - inner.step(StepShape(64)).base
    layers = inner.step(StepShape(1)).base
    assert 1.3 * layers < more < 1.6 * layers
    assert found.step(StepShape(1)) == inner.step(StepShape(1))
    popular = BlockLlm(4, 0.5, skew=2.0).around(inner, POOL)
    assert popular.step(StepShape(4)).base < found.step(StepShape(4)).base


def test_variants_take_their_own_blocks_of_memory() -> None:
    """(k − 1)(1 − s) models less for KV."""
    usual, need = kv_blocks(POOL), footprint(POOL)
    for variants, shared in ((2, 0.0), (3, 0.5), (5, 0.75)):
        left = held(Termed(Roofline(), (BlockLlm(variants, shared),)), POOL).engine.kv_blocks
        assert usual - left == pytest.approx(need.weights * (variants - 1) * (1 - shared) / need.block, abs=1.01)
    assert BlockLlm(9, 1.0).held(POOL) is POOL and BlockLlm().held(POOL) is POOL


def test_a_pool_holds_the_variants_that_it_names() -> None:
    pool = replace(POOL, tenants=(0, 3, 5))
    assert BlockLlm(shared=0.5).held(pool).engine.kv_blocks == BlockLlm(3, 0.5).held(POOL).engine.kv_blocks
    inner = Roofline().build(pool)
    assert BlockLlm().around(inner, pool).step(StepShape(9)) == BlockLlm(3).around(inner, POOL).step(StepShape(9))


@pytest.mark.parametrize(
    ("term", "message"),
    [({"variants": -1}, "variants -1"), ({"shared": 1.5}, "no part of the blocks"), ({"skew": -1.0}, "skew -1")],
)
def test_what_cannot_be(term: dict[str, float], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        BlockLlm(**term)  # type: ignore[arg-type]


def test_variants_that_do_not_fit() -> None:
    with pytest.raises(CapacityError, match=r"9 variants with 0% of their blocks shared take .* give fewer variants"):
        BlockLlm(9, 0.0).held(POOL)


class Booked:
    """Send a request to the replica of its variant that is free first, as the event model, which knows all work."""

    def __init__(self, rows: list[Arrival], where: list[list[int]], replicas: int) -> None:
        self.rows, self.where, self.free = rows, where, [0.0] * replicas

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        row = self.rows[request.id]
        own = self.where[row.variant]
        assert set(cluster.able(request)) == set(own)  # those whose pools name the tenant
        near = min(own, key=self.free.__getitem__)
        self.free[near] = max(self.free[near], row.at_s) + row.size
        return Route(near)


class Flat:
    """Ten milliseconds a step, prompts included."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.01)


@pytest.mark.parametrize("shared", [0.0, 0.6])
@given(seed=st.integers(0, 99))
@settings(max_examples=10)
def test_one_request_at_a_time_is_the_event_model(shared: float, seed: int) -> None:
    """Overlapping pools of variants, each replica a queue: the latencies of the event model without hops."""
    zoo = Zoo(6, shared, hop_s=1e9)
    rows = [replace(row, at_s=round(row.at_s, 6), size=0.01 * max(1, round(100 * row.size)))
            for row in arrivals(zoo, 4.0, 80, seed)]  # fmt: skip
    within = zoo.held() if shared else 2
    pool = Pool(LLAMA_8B, POOL.device, engine=Engine(max_sequences=1, kv_blocks=9999))
    where = placed(zoo.popularity(), 6, within)
    by_tenants = {each.tenants: replace(each, replicas=1) for each in spread(pool, zoo.popularity(), 6, within)}
    alone = tuple(by_tenants[tuple(v for v in range(6) if at in where[v])] for at in range(6))  # in the model's order
    work = Workload(
        np.array([picoseconds(row.at_s) for row in rows]), np.ones(len(rows), "i4"),
        np.array([round(100 * row.size) for row in rows], "i4"),
        tenant=np.array([row.variant for row in rows], "i4"),
    )  # fmt: skip
    cost = Termed(Flat(), (BlockLlm(shared=shared),))
    run = simulate(Cluster(alone), work, ps.Policies(router=Booked(rows, where, 6)), cost=cost)
    found = [seconds(end - at) for end, at in zip(run.records.ended_at, work.arrival, strict=True)]
    assert found == pytest.approx((per_block if shared else per_model)(zoo, rows, 6), abs=1e-9)
