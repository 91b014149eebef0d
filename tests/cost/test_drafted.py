"""Speculative decoding: limits, closed forms, and nothing changed where nothing is decoded."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.drafted import Drafted, accepted, attention_grows

POOL = Pool(model("llama-3.1-8b"), device("H100"))
INNER = Roofline().build(POOL)


def drafted(drafts: int, acceptance: float = 0.8) -> Drafted:
    return Drafted(INNER, POOL, drafts, acceptance)


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
    least = (1 + 3 / POOL.model.layers) / accepted(3)
    assert least <= with_drafts.base / single.base < 1.1 * least
    assert with_drafts.per_kv == round(single.per_kv / accepted(3))


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


def test_it_says_what_it_is() -> None:
    description = drafted(1).describe()
    assert (description["drafts"], description["tokens_a_step"]) == (1, 1.8)
    assert (drafted(1).kv_bytes(7), drafted(1).window) == (INNER.kv_bytes(7), INNER.window)
    assert drafted(1).swap(1 << 20) == INNER.swap(1 << 20)


def test_attention_of_several_queries_is_bound_by_reading_or_by_arithmetic() -> None:
    """Grouped heads read once for all queries; latent attention computes for each, unless its heads are split."""
    r1 = model("deepseek-r1")
    whole = Pool(r1, device("B200"), data=8, expert=8, weights="fp8", kv="fp8")
    split = Pool(r1, device("B200"), tensor=8, weights="fp8", kv="fp8")
    assert attention_grows(POOL, 3) == 1
    assert attention_grows(whole, 3) == 4
    assert attention_grows(split, 1) == 1 <= attention_grows(split, 7) < 8
    assert attention_grows(whole, 0) == 1
