"""Tokens a pass by the published formula, limits, and gains that fall as the batch grows."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.introspective_diffusion import IntrospectiveDiffusion, tokens_a_pass
from poise.cost.terms.nanoflow import NanoFlow

POOL = Pool(model("qwen3-8b"), device("H100"))
INNER = Roofline().build(POOL)


@pytest.mark.parametrize(("stride", "published"), [(2, 1.82), (4, 2.92), (8, 4.09)])
def test_the_published_tokens_a_pass(stride: int, published: float) -> None:
    """arXiv 2604.11035: p = 0.9."""
    assert tokens_a_pass(stride, 0.9) == pytest.approx(published, abs=0.05)


def test_tokens_a_pass_at_its_ends() -> None:
    """Everything kept: N tokens. Nothing kept: one pass in two brings two."""
    assert [tokens_a_pass(stride, 1.0) for stride in (2, 4, 8)] == [2, 4, 8]
    assert [tokens_a_pass(stride, 0.0) for stride in (2, 4, 8)] == [1, 1, 1]


def test_gains_fall_as_steps_become_bound_by_arithmetic() -> None:
    term = IntrospectiveDiffusion().around(INNER, POOL)
    gains = [INNER.step(StepShape(n)).base / term.step(StepShape(n)).base for n in (1, 16, 64, 256, 1024)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 2.5 and gains[-1] < 1
    assert gains[0] <= tokens_a_pass(4, 0.9) * (1 + 0.3)  # beyond tokens a pass only what the host spares


def test_a_stationary_batch_spares_the_host() -> None:
    shape = StepShape(32)
    moving = IntrospectiveDiffusion(stationary=False).around(INNER, POOL).step(shape).base
    still = IntrospectiveDiffusion().around(INNER, POOL).step(shape).base
    spared = 3 / 4 * (0.5e-3 + 32 * 5e-6) * 1e12 / tokens_a_pass(4, 0.9)
    assert moving - still == pytest.approx(spared, abs=2)


def test_prompts_cost_what_they_did() -> None:
    term = IntrospectiveDiffusion().around(INNER, POOL)
    alone, mixed = StepShape(0, (Chunk(256, 0),)), StepShape(8, (Chunk(256, 0),))
    assert term.step(alone) == INNER.step(alone)
    added = INNER.step(mixed).base - INNER.step(StepShape(8)).base
    assert term.step(mixed).base == term.step(StepShape(8)).base + added


def test_it_goes_around_another_term() -> None:
    overlapped = NanoFlow(1.0).around(INNER, POOL)
    term = IntrospectiveDiffusion().around(overlapped, POOL)
    assert term.step(StepShape(256)).base < IntrospectiveDiffusion().around(INNER, POOL).step(StepShape(256)).base
    assert {"nanoflow", "introspective_diffusion"} < set(term.describe())


@pytest.mark.parametrize("given", [{"stride": 1}, {"acceptance": 1.5}, {"step_s": -1.0}])
def test_what_cannot_be(given: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match="give"):
        IntrospectiveDiffusion(**given)  # type: ignore[arg-type]
