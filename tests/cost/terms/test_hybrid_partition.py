"""Uneven stages as steps: even ones as the inner cost has them, a decode as the closed form, memory of the fullest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Cluster, Pool
from poise.core.units import SECOND
from poise.cost import Roofline, kv_blocks
from poise.cost.hybrid_partition import Hybrid
from poise.cost.term import Termed, held
from poise.cost.terms.hybrid_partition import HybridPartition
from poise.cost.terms.nanoflow import NanoFlow
from poise.cost.work import Works
from poise.scenario.simulate import simulate
from poise.workload import lognormal, poisson
from tests.cost.pools import cost
from tests.depth import examples

POOL = Pool(model("llama-3.1-70b"), device("H100"), tensor=4, pipeline=2)
CUTS = ("4-2-1-1", "2-6", "4-4", "1-1-1-1-4", "8")


def built(tensors: str, pool: Pool = POOL, *terms: NanoFlow) -> Estimator:
    return Termed(Roofline(), (*terms, HybridPartition(tensors))).build(pool)


def chunks(tokens: list[int]) -> tuple[Chunk, ...]:
    return tuple(Chunk(each, 0) for each in tokens)


tokens = st.lists(st.integers(1, 4000), max_size=4)
contexts = st.integers(0, 50_000)


@pytest.mark.deep
@pytest.mark.parametrize("nano", [(), (NanoFlow(),)])
@settings(max_examples=examples(100))
@given(decodes=st.integers(0, 200), new=tokens, context=contexts)
def test_even_stages_cost_what_the_inner_estimator_says(
    nano: tuple[NanoFlow, ...], decodes: int, new: list[int], context: int
) -> None:
    shape = StepShape(decodes, chunks(new))
    inner, found = Termed(Roofline(), nano).build(POOL), built("4-4", POOL, *nano)
    kv = decodes * context
    one, two = (each.step(shape).at(kv) for each in (inner, found))
    assert two.base + two.per_kv * kv == pytest.approx(one.base + one.per_kv * kv, rel=1e-6, abs=3 + kv)


@given(tensors=st.sampled_from(CUTS), decodes=st.integers(0, 200), new=tokens, context=contexts)
def test_between_even_stages_of_the_widest_and_the_narrowest_group(
    tensors: str, decodes: int, new: list[int], context: int
) -> None:
    """No step is shorter than its parts' ways, nor longer than if all groups were as slow and stages took turns."""
    sizes, shape = [int(each) for each in tensors.split("-")], StepShape(decodes, chunks(new))
    even = [
        cost(Roofline().build(_wide(size, len(sizes))), shape, context) for size in (max(sizes), min(sizes))
    ]  # fmt: skip
    found = cost(built(tensors), shape, context)
    slack = 3 + decodes * context
    assert min(even) - slack <= found <= len(sizes) * max(even) + slack


def _wide(size: int, stages: int) -> Pool:
    return replace(POOL, device=replace(POOL.device, scaleup_domain=64), tensor=size, pipeline=stages)


@given(
    tensors=st.sampled_from(CUTS),
    decodes=st.integers(0, 300),
    new=st.integers(0, 4000),
    context=contexts,
    more=st.integers(0, 300),
)
def test_more_work_takes_no_less(tensors: str, decodes: int, new: int, context: int, more: int) -> None:
    estimator = built(tensors)
    few = cost(estimator, StepShape(decodes, chunks([new] if new else [])), context)
    many = cost(estimator, StepShape(decodes + more, chunks([new] if new else [])), context)
    longer = cost(estimator, StepShape(decodes, chunks([new + more] if new + more else [])), context)
    slack = 3 + (decodes + more) * context
    assert few <= many + slack and few <= longer + slack


@pytest.mark.parametrize("tensors", CUTS[:-1])
def test_one_decode_is_the_closed_form(tensors: str) -> None:
    """The sum over stages, with host time and head, which the closed form leaves out."""
    term = HybridPartition(tensors)
    hybrid = Hybrid(replace(POOL, tensor=1, pipeline=1), (POOL.device,) * 8)
    expected = hybrid.sized([int(each) for each in tensors.split("-")])
    assert term.layers(POOL) == [stage.layers for stage in expected.stages]
    beside = 0.0
    for stage in expected.stages:
        _, k = Works(replace(POOL, tensor=stage.last - stage.first, pipeline=1)).lane(1.0)
        beside += (k.step + k.sequence + k.last(1)) * stage.layers / 80
    found = cost(built(tensors), StepShape(1), hybrid.context)
    assert found / SECOND == pytest.approx(expected.latency_s + beside / SECOND, rel=0.02)


@pytest.mark.parametrize("tensors", ["4-2-1-1", "1-1-1-1-4"])
def test_a_wider_group_has_more_layers_and_no_stage_could_give_one_away(tensors: str) -> None:
    sizes = [int(each) for each in tensors.split("-")]
    hybrid = Hybrid(replace(POOL, tensor=1, pipeline=1), (POOL.device,) * 8)
    stages = hybrid.sized(sizes).stages
    assert sum(stage.layers for stage in stages) == 80
    slowest = max(map(hybrid.stage_s, stages))
    assert all(hybrid.stage_s(stage._replace(layers=stage.layers + 1)) >= slowest * (1 - 1e-9) for stage in stages)
    assert max(stages).layers == stages[sizes.index(4)].layers


def test_memory_is_that_of_the_fullest_stage() -> None:
    """Even stages: as counted for the pool, less an embedding that each is taken to have; uneven ones: no more."""
    even = held(Termed(Roofline(), (HybridPartition("4-4"),)), POOL).engine.kv_blocks
    head = model("llama-3.1-70b").vocab * 8192 * 2 / 4
    block = 16 * model("llama-3.1-70b").kv_bytes_per_token(16) / 8
    assert kv_blocks(POOL) - even == pytest.approx(head / block, rel=0.02)
    uneven = HybridPartition("4-2-1-1")
    fewest = held(Termed(Roofline(), (uneven,)), POOL).engine.kv_blocks
    alone = [
        kv_blocks(replace(POOL, model=replace(POOL.model, layers=some), tensor=size, pipeline=1))
        for some, size in zip(uneven.layers(POOL), (4, 2, 1, 1), strict=True)
    ]
    assert fewest == min(alone)
    assert HybridPartition().held(POOL) is POOL


@pytest.mark.parametrize("tensors", ["", "4-2-1-1", "3-5"])
def test_single_steps_are_held_batches(tensors: str) -> None:
    recipe = Termed(Roofline(), (NanoFlow(), HybridPartition(tensors)))
    load = poisson(8, requests=100, prompt_tokens=lognormal(1500, 1.0), output_tokens=lognormal(150, 0.6), seed=3)
    fast, slow = (simulate(Cluster((POOL,)), load, cost=recipe, one_step=each) for each in (False, True))
    assert fast.records.ended_at == slow.records.ended_at and len(fast.records.ended_at) == 100


@pytest.mark.parametrize("tensors", ["4-2", "4-2-1-1-1", "16"])
def test_stages_have_the_devices_of_the_pool(tensors: str) -> None:
    with pytest.raises(ScenarioError, match="give stages that fit both"):
        built(tensors)


def test_pools_of_more_than_one_pipeline() -> None:
    with pytest.raises(ScenarioError, match="data 2, expert 1: give 1 of each"):
        built("4-4", replace(POOL, pipeline=1, data=2))


def test_what_does_not_fit() -> None:
    small = Pool(model("llama-3.1-70b"), device("RTX-4090"), pipeline=3)
    with pytest.raises(CapacityError, match=r"fits no cut into 2\+1"):
        built("2-1", small)


@pytest.mark.parametrize("tensors", ["4,2", "0-8", "-4", "four", "4-"])
def test_parameters(tensors: str) -> None:
    with pytest.raises(ScenarioError, match="as in 4-2-1-1"):
        HybridPartition(tensors)
