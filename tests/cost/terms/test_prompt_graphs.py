"""Launches are added to steps with prompts, and graphs of short ones spare them where that is shorter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.prompt_graphs import PromptGraphs

POOL = Pool(model("qwen2.5-7b"), device("H200"))
INNER = Roofline().build(POOL)
LAUNCHES = 28 * 150 * 10**6
"""Picoseconds of 28 layers."""


def base(shape: StepShape, **given_: float) -> int:
    return PromptGraphs(**given_).around(INNER, POOL).step(shape).base  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 600), min_size=1, max_size=80), st.integers(0, 40), st.integers(0, 3000))
def test_between_the_device_alone_and_all_launches(lengths: list[int], decodes: int, context: int) -> None:
    shape = StepShape(decodes, tuple(Chunk(each, context) for each in lengths))
    bare, found = INNER.step(shape).base, base(shape)
    assert bare <= found <= bare + LAUNCHES
    assert base(shape, captured=False) == bare + LAUNCHES
    if decodes or max(lengths) > 256 or len(lengths) > 64:
        assert found == bare + LAUNCHES


def test_a_graph_computes_what_is_padded() -> None:
    """Three prompts of 30 tokens at most run as four of 32; three of 200 would take longer as four of 256."""
    shape = StepShape(0, (Chunk(30, 50), Chunk(20, 0), Chunk(9, 0)))
    padded = StepShape(0, (Chunk(32, 50), Chunk(32, 0), Chunk(32, 0), Chunk(32, 0)))
    assert base(shape) == INNER.step(padded).base < INNER.step(shape).base + LAUNCHES
    long = StepShape(0, (Chunk(200, 0), Chunk(129, 0), Chunk(129, 0)))
    assert base(long) == INNER.step(long).base + LAUNCHES


def test_decodes_alone_are_as_they_were() -> None:
    assert PromptGraphs().around(INNER, POOL).step(StepShape(17)) == INNER.step(StepShape(17))


@pytest.mark.parametrize("given_", [{"layer_us": -1.0}, {"tokens": 0}, {"prompts": 0}])
def test_what_cannot_be(given_: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match="correct them"):
        replace(PromptGraphs(), **given_)  # type: ignore[arg-type]
