"""A power cap slows what arithmetic bounds: nothing at the TDP, more the lower it is, and decodes less than prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.power import POWER
from poise.core.spec import Pool
from poise.cost import Fitted, Measured, Roofline
from poise.scenario.engine_cost import EngineCost
from tests.depth import examples

RECIPES = {"roofline": Roofline(), "measured": Measured(), "engine": EngineCost("vllm")}
POOL = Pool(model("llama-3.1-8b"), device("H100"))
SHARES = (1.0, 0.8, 0.65, 0.5, 0.35)
CAPPED: dict[str, list[Estimator]] = {
    name: [recipe.build(replace(POOL, power_cap_w=700.0 * share)) for share in SHARES]
    for name, recipe in RECIPES.items()
}
SHAPES = st.builds(
    lambda decodes, tokens: StepShape(decodes, (Chunk(tokens, 100),) if tokens else ()),
    st.integers(1, 512),
    st.sampled_from([0, 16, 500, 2048, 8000]),
)


def duration(estimator: Estimator, shape: StepShape, context: int = 1000) -> float:
    piece = estimator.step(shape)
    return piece.base + shape.decodes * piece.per_kv * context


@pytest.mark.deep
@pytest.mark.parametrize("name", RECIPES)
@settings(max_examples=examples(100))
@given(shape=SHAPES)
def test_the_tdp_caps_nothing_and_less_is_never_faster(name: str, shape: StepShape) -> None:
    assert CAPPED[name][0].step(shape) == RECIPES[name].build(POOL).step(shape)
    taken = [duration(each, shape) for each in CAPPED[name]]
    assert taken == sorted(taken)


@pytest.mark.deep
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("at", range(1, len(SHARES)))
@settings(max_examples=examples(100))
@given(decodes=st.integers(1, 256), tokens=st.integers(1000, 8192))
def test_decodes_lose_less_than_prompts(name: str, at: int, decodes: int, tokens: int) -> None:
    full, slow = CAPPED[name][0], CAPPED[name][at]
    prompt, decode = StepShape(0, (Chunk(tokens, 0),)), StepShape(decodes)
    assert duration(slow, decode) / duration(full, decode) <= duration(slow, prompt) / duration(full, prompt) + 1e-9


def test_a_prompt_bound_by_arithmetic_takes_longer_by_one_over_the_clock() -> None:
    """Host time and light kernels stay: T(f) = A + B / f."""
    long = StepShape(0, (Chunk(8000, 0),))
    full = duration(CAPPED["roofline"][0], long)
    slopes = [
        (duration(estimator, long) - full) / (1 / POWER.clock(share, POWER.prefill) - 1)
        for share, estimator in zip(SHARES[1:], CAPPED["roofline"][1:], strict=True)
    ]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=1e-3)
    assert 0.85 * full < slopes[0] < full, "most of it is arithmetic"


def test_decodes_bound_by_memory_lose_nothing_until_the_cap_reaches_them() -> None:
    for name, estimators in CAPPED.items():
        for share, estimator in zip(SHARES, estimators, strict=True):
            if share >= POWER.decode:
                assert estimator.step(StepShape(8)) == estimators[0].step(StepShape(8)), name
    roofline = CAPPED["roofline"]
    assert duration(roofline[-1], StepShape(8)) / duration(roofline[0], StepShape(8)) == pytest.approx(1, rel=0.03)


def test_provenance_says_which_clocks() -> None:
    assert "clocks" not in CAPPED["measured"][0].describe()
    description = CAPPED["measured"][2].describe()
    assert description["power_cap_w"] == 455.0 and description["clocks"] == (POWER.clock(0.65, POWER.prefill), 1.0)


def test_caps_that_cannot_be() -> None:
    with pytest.raises(ScenarioError, match="draws 140 W idle"):
        Roofline().build(replace(POOL, power_cap_w=140.0))
    with pytest.raises(ScenarioError, match="the TDP of H100-SXM-80GB is not known"):
        Roofline().build(replace(POOL, power_cap_w=300.0, device=replace(POOL.device, tdp_w=0.0)))
    with pytest.raises(ScenarioError, match="knows the clocks of its recording alone"):
        Fitted(0.01, 1e-5).build(replace(POOL, power_cap_w=300.0))
    assert Fitted(0.01, 1e-5).build(replace(POOL, power_cap_w=900.0)), "more than the TDP slows nothing"
