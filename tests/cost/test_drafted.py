"""Speculative decoding: limits, closed forms, and nothing changed where nothing is decoded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.errors import UserError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.drafted import Drafted, Drafting, accepted, attention_grows

POOL = Pool(model("llama-3.1-8b"), device("H100"))
INNER = Roofline().build(POOL)


def drafted(drafts: int, acceptance: float = 0.8, **more: float) -> Drafted:
    return Drafted(INNER, POOL, Drafting(drafts, accepted(drafts, acceptance), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("drafts", "chance", "tokens"), [(0, 0.8, 1.0), (1, 0.8, 1.8), (3, 0.5, 1.875), (2, 0.0, 1.0)])
def test_tokens_a_step(drafts: int, chance: float, tokens: float) -> None:
    assert accepted(drafts, chance) == pytest.approx(tokens)
    if chance:
        assert tokens == pytest.approx((1 - chance ** (drafts + 1)) / (1 - chance))


def test_no_drafts_are_the_inner_steps() -> None:
    for shape in (StepShape(8), StepShape(4, (Chunk(100, 0),)), StepShape(0, (Chunk(100, 50),))):
        assert drafted(0).step(shape) == INNER.step(shape)


def test_prompts_alone_are_not_touched() -> None:
    shape = StepShape(0, (Chunk(512, 0),))
    assert drafted(3).step(shape) == INNER.step(shape)


def test_a_few_decodes_gain_almost_what_is_accepted() -> None:
    """One decode waits for the weights, which a pass over four tokens reads once too; the head adds its layers."""
    single, with_drafts = INNER.step(StepShape(1)), drafted(3).step(StepShape(1))
    least = (1 + 3 / POOL.model.layers) / accepted(3, 0.8)
    assert least <= with_drafts.base / single.base < 1.1 * least
    assert with_drafts.per_kv == round(single.per_kv / accepted(3, 0.8))


def test_drafts_that_are_never_kept_only_cost() -> None:
    for decodes in (1, 64, 512):
        assert drafted(3, 0.0).step(StepShape(decodes)).base > INNER.step(StepShape(decodes)).base


def test_many_decodes_lose_by_the_arithmetic_of_verifying() -> None:
    gains = [INNER.step(StepShape(n)).base / drafted(3).step(StepShape(n)).base for n in (1, 64, 1024)]
    assert gains == sorted(gains, reverse=True) and gains[0] > 2 and gains[-1] < 1


def test_prompts_beside_decodes_cost_what_they_did() -> None:
    mixed, alone = StepShape(16, (Chunk(256, 0),)), StepShape(16)
    added = INNER.step(mixed).base - INNER.step(alone).base
    estimator = drafted(2)
    assert estimator.step(mixed) == Piece(estimator.step(alone).base + added, *estimator.step(alone)[1:])


def test_proposals_from_the_text_run_no_head() -> None:
    for decodes in (1, 100):
        verified = INNER.step(StepShape(4 * decodes)).base
        assert drafted(3, layers=0.0).step(StepShape(decodes)).base == round(verified / accepted(3, 0.8))


def test_a_draft_model_decodes_once_for_each_proposal() -> None:
    small = Roofline().build(replace(POOL, model=model("llama-3.2-1b")))
    how = Drafting(3, 2.0, layers=0.0)
    with_model, without = Drafted(INNER, POOL, how, small), Drafted(INNER, POOL, how)
    for decodes in (1, 32):
        shape = StepShape(decodes)
        added, run = with_model.step(shape), small.step(shape)
        assert added.base - without.step(shape).base == pytest.approx(3 * run.base / 2, abs=1)
        assert added.per_kv - without.step(shape).per_kv == pytest.approx(3 * run.per_kv / 2, abs=1)


def test_a_tree_costs_more_than_a_chain_that_brings_as_many() -> None:
    chain, tree = drafted(3), drafted(3, verified=16)
    assert tree.step(StepShape(64)).base > chain.step(StepShape(64)).base
    assert drafted(3, verified=4).step(StepShape(64)) == chain.step(StepShape(64))


@pytest.mark.parametrize("how", [(3, 0.9), (3, 4.1), (3, 2.0, 3)])
def test_what_no_pass_can_bring_is_refused(how: tuple[int, float]) -> None:
    with pytest.raises(UserError):
        Drafting(*how)


def test_attention_is_read_once_and_computed_for_each() -> None:
    grouped = attention_grows(POOL, 3)
    latent = attention_grows(Pool(model("deepseek-v3"), device("H100")), 3)
    assert 1 <= grouped < latent <= 4
