"""What lanes reach and how they slow one another: laws at their ends, conservation, fairness and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.estimate import Chunk, Running, StepShape
from poise.core.spec import Pool
from poise.cost import Measured, Roofline
from poise.cost.sm_share import Use, fair, reached, slowed, slower
from tests.cost.pools import DEEPSEEK_V3, H100, LLAMA_8B, cost, pools, shares

parts = st.floats(0.01, 1.0)
uses = st.lists(st.builds(Use, st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4)
frictions = st.floats(0.0, 0.3)
chunks = st.tuples(st.integers(1, 4000), st.integers(0, 8000)).map(lambda chunk: Chunk(*chunk))
shapes = st.tuples(st.integers(0, 200), st.lists(chunks, min_size=1, max_size=3)).map(
    lambda step: StepShape(step[0], tuple(step[1]))
)
"""Steps with prompt work."""


@given(parts, parts, st.floats(0.05, 5.0))
def test_a_share_reaches_at_least_itself_and_more_with_more(share: float, more: float, limit: float) -> None:
    low, high = sorted((share, more))
    assert low <= reached(low, limit) * (1 + 1e-9) <= reached(high, limit) * (1 + 2e-9) <= 1 + 3e-9
    assert reached(1.0, limit) == 1.0


def test_the_law_at_its_ends() -> None:
    assert reached(0.3, 1e6) == pytest.approx(0.3), "no limit: the SMs' part"
    assert reached(0.3, 1e-3) == pytest.approx(1.0), "a few SMs fill it"
    assert reached(0.5, 0.5) == pytest.approx(0.5 * (1.125 / 0.25) ** (1 / 3))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_fairness(demands: list[float]) -> None:
    given_ = fair(demands)
    assert sum(given_) == pytest.approx(min(1.0, sum(demands)))
    assert all(0 <= got <= demand for got, demand in zip(given_, demands, strict=True))
    short = [got for got, demand in zip(given_, demands, strict=True) if got < demand - 1e-12]
    assert all(got == pytest.approx(max(given_)) for got in short), "who lacks something has as much as anyone"


@given(uses, frictions)
def test_together_lanes_never_exceed_the_device_and_none_is_hastened(found: list[Use], friction: float) -> None:
    factors = slowed(found, friction)
    assert min(factors) >= 1.0
    for demands in zip(*found, strict=True):
        assert sum(demand / factor for demand, factor in zip(demands, factors, strict=True)) <= 1 + 1e-9


@given(st.builds(Use, st.floats(0, 1), st.floats(0, 1)), frictions)
def test_one_lane_alone_is_not_slowed(use: Use, friction: float) -> None:
    assert slowed([use], friction) == [1.0]


def test_by_hand() -> None:
    """Bandwidths of 0.8 and 0.3 do not fit: the small demand is met, the other has 0.7 of the 0.8 that it wants."""
    assert slowed([Use(0.1, 0.8), Use(0.6, 0.3)], 0.0) == pytest.approx([0.8 / 0.7, 1.0])
    assert slowed([Use(0.0, 1.0), Use(0.5, 0.0)], 0.08) == pytest.approx([1.0, 1.08])
    assert slowed([Use(0.9, 0.0), Use(0.9, 0.0)], 0.08) == pytest.approx([1.8, 1.8])


@given(pools(), shapes, shares)
@settings(max_examples=60, deadline=None)
def test_a_lane_is_never_faster_than_the_whole_device(pool: Pool, shape: StepShape, share: float) -> None:
    estimator = Roofline().build(pool)
    context = 100 * shape.decodes
    assert cost(estimator, shape._replace(share=share), context) >= cost(estimator, shape, context)
    assert cost(estimator, StepShape(200, (), share), 20_000) >= cost(estimator, StepShape(200), 20_000)


@given(pools(), st.lists(st.tuples(shapes, shares), min_size=2, max_size=3))
@settings(max_examples=40, deadline=None)
def test_steps_of_a_pool_together(pool: Pool, chosen: list[tuple[StepShape, float]]) -> None:
    """Divided SMs, then slowed: over the time that a step takes, all use no more than the device has."""
    sharing = Roofline().build(pool).sharing
    over = max(1.0, sum(share for _, share in chosen))
    running = [Running(shape._replace(share=share / over), 100 * shape.decodes, 0) for shape, share in chosen]
    factors = sharing.factors(running)
    assert min(factors) >= 1.0
    found = [sharing.use(each) for each in running]
    for demands in zip(*found, strict=True):
        assert sum(demand / factor for demand, factor in zip(demands, factors, strict=True)) <= 1 + 1e-9


@pytest.mark.parametrize("recipe", [Roofline(), Measured()])
def test_a_step_needs_what_the_slower_device_shows(recipe: Roofline | Measured) -> None:
    """Prompts are bound by arithmetic, decodes by bandwidth; with half of the SMs both use less of it in their time."""
    sharing = recipe.build(Pool(device=H100, model=LLAMA_8B)).sharing
    prompts, decodes = StepShape(0, (Chunk(4096, 0),)), StepShape(32)
    for shape, kv, bound in ((prompts, 0, 0), (decodes, 32_000, 1)):
        whole, half = (sharing.use(Running(shape._replace(share=share), kv, 0)) for share in (1.0, 0.5))
        assert whole[bound] > 0.7
        assert whole[bound] > 2 * whole[1 - bound]
        assert half < whole


def test_a_step_needs_nothing_while_its_host_works() -> None:
    """The same use while on the device, with and without host time."""
    slow = Roofline(cpu_step_s=5e-3, cpu_sequence_s=1e-4).build(Pool(device=H100, model=LLAMA_8B)).sharing
    quick = Roofline(cpu_step_s=0.0, cpu_sequence_s=0.0).build(Pool(device=H100, model=LLAMA_8B)).sharing
    for shape in (StepShape(32), StepShape(30, (Chunk(1000, 0), Chunk(50, 0)))):
        assert slow.host(shape) == pytest.approx(5e9 + 32e8)
        assert quick.host(shape) == 0
        step = Running(shape, 32_000, 0)
        assert slow.use(step) == pytest.approx(quick.use(step))


def test_a_device_with_parts_of_its_rates() -> None:
    assert slower(H100, 1.0, 1.0) is H100
    half = slower(H100, 0.5, 0.25)
    assert (half.bf16_flops, half.memory_bw) == (H100.bf16_flops / 2, H100.memory_bw / 4)


def test_the_wrapped_hand_it_on() -> None:
    from poise.cost.captured import Captured

    inner = Roofline().build(Pool(device=H100, model=DEEPSEEK_V3, tensor=8, weights="fp8"))
    assert Captured(inner, ((8, 512),)).sharing is inner.sharing
