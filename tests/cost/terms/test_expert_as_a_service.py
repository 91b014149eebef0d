"""Clients and servers: between what either side must do and both after one another, and what losses cost at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Cluster, Engine, Fault, Pool
from poise.core.units import seconds
from poise.cost import Measured, Roofline, kv_blocks
from poise.cost.expert_as_a_service import Outage, Pools, served
from poise.cost.term import Termed, held
from poise.cost.terms.expert_as_a_service import ExpertAsAService, Served
from poise.scenario.simulate import simulate
from poise.sim.terms import Stopping
from poise.workload import constant
from tests.cost.pools import DEEPSEEK_V3, H100, LLAMA_8B, PCIE, models

POOL = Pool(model("qwen3-30b-a3b"), device("H100"), data=8, expert=8)


@st.composite
def mixtures(draw: st.DrawFn, least: int = 3) -> tuple[Pool, ExpertAsAService]:
    """Pools of small mixtures of experts, with servers enough for two copies."""
    made = draw(models().filter(lambda each: each.moe is not None))
    data = draw(st.integers(least, 9))
    pool = Pool(made, draw(st.sampled_from((H100, PCIE))), data=data, engine=Engine(max_sequences=8, token_budget=64))
    return pool, ExpertAsAService(draw(st.integers(2, data - 1)), 2, draw(st.integers(1, 4)))


shapes = st.builds(
    lambda n, new, before: StepShape(n, (Chunk(new, before),) if new else ()),
    st.integers(1, 900), st.integers(0, 5000), st.integers(0, 3000),
)  # fmt: skip


def time(estimator: Served, shape: StepShape, kv: int) -> int:
    piece = estimator.step(shape).at(kv)
    return piece.base + piece.per_kv * kv


@given(mixtures(), shapes, st.integers(0, 2000))
def test_no_side_does_less_than_its_part(case: tuple[Pool, ExpertAsAService], shape: StepShape, context: int) -> None:
    pool, term = case
    found, kv = Served(Roofline().build(pool), pool, term), shape.decodes * context
    own = found.clients.step(shape)
    sides = found._share(1.0)
    tokens = float(shape.decodes + sum(each.tokens for each in shape.chunks))
    computed = pool.model.layers * sides.computed(tokens)
    sent = pool.model.layers * sides.hops(tokens)
    slack = kv + 2  # slopes are rounded to a picosecond
    assert time(found, shape, kv) >= max(own.base + own.per_kv * kv, computed, sent) * (1 - 1e-9) - slack
    assert time(found, shape, kv) <= own.base + own.per_kv * kv + computed + sent + slack


def test_experts_by_hand() -> None:
    """A layer of 2,048 tokens of which each has 8 of 128 experts: all are read, by four servers a quarter each."""
    found = Served(Roofline().build(POOL), POOL, ExpertAsAService(4))
    sides, use = found._share(1.0), found.use
    weights = 3 * 2048 * 768
    read = 128 * weights * 2 / 4 / (POOL.device.memory_bw * use.moe_stream)
    math = 2048 * 8 * 2 * weights / 4 / (POOL.device.bf16_flops * use.moe_gemm)
    assert sides.computed(2048) == pytest.approx((max(read, math) + use.moe_s) * 1e12)
    bandwidth = POOL.device.scaleup_bw * use.link
    sent = 2 * (use.collective_s + 2048 * 8 * 2048 * 2 / 4 / bandwidth)
    assert sides.hops(2048) == pytest.approx(sent * 1e12)


def test_taking_turns_pays_for_large_steps_alone() -> None:
    whole, turns = (Served(Roofline().build(POOL), POOL, ExpertAsAService(4, batches=n)) for n in (1, 2))
    assert time(whole, StepShape(4), 4000) == time(turns, StepShape(4), 4000)
    large = StepShape(0, (Chunk(4096, 0),) * 4)
    assert time(turns, large, 0) < time(whole, large, 0)


@given(mixtures(4), shapes, st.integers(0, 2000))
def test_a_loss_costs_no_more_than_it_says(case: tuple[Pool, ExpertAsAService], shape: StepShape, context: int) -> None:
    """A pool with a server fewer from the beginning is no slower than one that has lost it."""
    pool, term = case[0], replace(case[1], servers=max(case[1].servers, 3))
    kv = shape.decodes * context
    found = Served(Roofline().build(pool), pool, term)
    fewer = replace(pool, data=pool.data - 1)
    less = Served(Roofline().build(fewer), fewer, replace(term, servers=term.servers - 1))
    factor = found.after_loss(1)
    assert factor is not None and factor == term.servers / (term.servers - 1)
    assert time(less, shape, kv) <= factor * time(found, shape, kv) * (1 + 1e-9) + 2 * kv + 2
    assert found.after_loss(2) is None


def test_other_costs_and_terms_around_it() -> None:
    usual, term = Measured().build(POOL), ExpertAsAService()
    step, inner = term.around(usual, POOL).step(StepShape(64)), usual.step(StepShape(64))
    ratio = (
        term.around(Roofline().build(POOL), POOL).step(StepShape(64)).base
        / Roofline().build(POOL).step(StepShape(64)).base
    )
    assert step.base / inner.base == pytest.approx(ratio, rel=1e-6)
    assert step.per_kv > inner.per_kv  # half as many devices attend


def test_clients_keep_the_kv_and_servers_the_experts() -> None:
    cost = Termed(Roofline(), (ExpertAsAService(servers=4),))
    assert kv_blocks(POOL) / 2 < held(cost, POOL).engine.kv_blocks < kv_blocks(POOL)
    more = held(Termed(Roofline(), (ExpertAsAService(servers=2),)), POOL)
    assert more.engine.kv_blocks == pytest.approx(1.5 * held(cost, POOL).engine.kv_blocks, abs=6)


LARGE = Pool(DEEPSEEK_V3, H100, data=16, weights="fp8")


@pytest.mark.parametrize(
    ("pool", "term", "message"),
    [
        (POOL, {"servers": 8}, "8 servers of 8 devices with 2 copies"),
        (POOL, {"servers": 2, "copies": 3}, "give servers from copies up to 7"),
        (replace(POOL, data=4, tensor=2), {}, "the pool has tensor 2"),
        (Pool(LLAMA_8B, H100, data=4), {}, "Llama-3.1-8B has no experts"),
        (POOL, {"copies": 0}, "nobody holds an expert"),
        (POOL, {"servers": -1}, "servers -1 is below 0"),
        (POOL, {"batches": 0}, "batches 0"),
    ],
)
def test_what_cannot_be(pool: Pool, term: dict[str, int], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        ExpertAsAService(**term).around(Roofline().build(pool), pool)


def test_copies_that_do_not_fit() -> None:
    with pytest.raises(CapacityError, match=r"2 copies of its experts on 8 servers take .* fewer copies"):
        ExpertAsAService().held(LARGE)
    assert ExpertAsAService(servers=12, copies=1).held(LARGE).engine.kv_blocks


@pytest.mark.parametrize("load", [0.8, 1.0, 1.3])
def test_through_outages_the_simulator_serves_what_the_fluid_does(load: float) -> None:
    """Servers that bind, of which one or two of three copies are away: tokens until the end are those of `served`, but
    for what is under way, at most a batch's outputs, and a step.
    """
    batch, output, until = 64, 50, 40.0
    pool = replace(POOL, engine=Engine(max_sequences=batch))
    cost = Termed(Roofline(), (ExpertAsAService(4, copies=3),))

    def tokens(rate: float, *outages: Outage) -> int:
        requests = constant(output / rate, requests=int(rate / output * until), prompt_tokens=1, output_tokens=output)
        faults = tuple(Fault(each.at_s, "device_lost", 0, for_s=each.lasts_s) for each in outages)
        some = simulate(
            Cluster((pool,), faults=faults), requests, cost=cost, stopping=Stopping(until_s=until, drain=False)
        )
        assert seconds(some.ended_at) == until
        return sum(some.records.output_tokens)

    most = tokens(10 * 4096.0) / until
    outages = [Outage(5.0, 10.0), Outage(12.0, 7.0), Outage(27.0, 3.0)]
    fluid = served(Pools(1, 4, most, most / 4, copies=3), outages, load * most, until)
    found = tokens(load * most, *outages) / (load * most * until)
    assert found == pytest.approx(fluid, abs=(batch * output + batch) / (load * most * until))
    assert fluid < 1 - 1e-9 or load < 1


def test_shares_of_devices_are_described() -> None:
    description: Any = ExpertAsAService().around(Roofline().build(POOL), POOL).describe()["expert_as_a_service"]
    assert description == {"clients": 4, "servers": 4, "copies": 2, "batches": 2}
