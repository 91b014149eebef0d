"""The most loaded rank of experts: tables against closed forms and against drawn tokens, and what steps make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from poise.catalogue import device
from poise.core.errors import ScenarioError
from poise.core.estimate import StepShape
from poise.core.experts import BALANCED, ExpertLoad, Placement, copies
from poise.core.spec import Engine, Pool
from poise.cost import Measured, Roofline, kv_blocks
from poise.cost.expert_load import COARSE, FINE, busiest, exponent, inclusion, placed

from .pools import DEEPSEEK_V3, H100, LLAMA_8B

SPREAD = Pool(DEEPSEEK_V3, H100, tensor=1, data=32, expert=32, weights="fp8")
DRAWS = 2000


def loaded(load: ExpertLoad, pool: Pool = SPREAD, placement: Placement = ()) -> Pool:
    """The pool with a load and a placement."""
    return replace(pool, engine=Engine(expert_load=load, expert_placement=placement))


def drawn(chances: NDArray[Any], weights: NDArray[Any], tokens: int) -> tuple[float, float]:
    """Pairs of the fullest rank and its experts with any token, means over steps of `tokens` tokens drawn one by one.

    A token's experts are drawn systematically in random order: as many as it has, each with its own chance. Copies of
    an expert are drawn evenly.
    """
    random, experts = np.random.default_rng(1), chances.shape[1]
    pairs, touched = [], []
    for step in range(DRAWS // max(tokens // 4, 1)):
        row, ranks = chances[step % len(chances)], weights[step % len(chances)]
        counts = np.zeros(ranks.shape)
        for _ in range(tokens):
            order = random.permutation(experts)
            edges = np.concatenate([[0.0], np.cumsum(row[order])])
            picked = order[np.diff(np.floor(edges + random.random() + 1e-12)) > 0]
            for expert in picked:
                counts[random.choice(len(ranks), p=ranks[:, expert]), expert] += 1
        fullest = counts.sum(axis=1).argmax()
        pairs.append(counts[fullest].sum())
        touched.append((counts[fullest] > 0).sum())
    return float(np.mean(pairs)), float(np.mean(touched))


EPLB: Placement = (tuple((e % 4, (e + 1) % 4) if e < 4 else (e % 4,) for e in range(16)),)
SKEWED = ExpertLoad(shares=((*(0.1,) * 4, *(0.05,) * 12),))


@pytest.mark.parametrize("tokens", [1, 4, 32, 256])
@pytest.mark.parametrize(
    ("load", "placement"),
    [(BALANCED, ()), (ExpertLoad(zipf=0.8), ()), (SKEWED, ()), (SKEWED, EPLB)],
    ids=["balanced", "zipf", "shares", "copies"],
)
def test_the_table_is_near_drawn_tokens(load: ExpertLoad, placement: Placement, tokens: int) -> None:
    moe = replace(DEEPSEEK_V3.moe, experts=16, active=2)  # type: ignore[type-var]
    pool = loaded(load, replace(SPREAD, model=replace(DEEPSEEK_V3, moe=moe), data=4, expert=4), placement)
    chances = inclusion(load, 16, 2)
    pairs, touched = drawn(chances, placed(placement, len(chances), 16, 4), tokens)
    found = busiest(pool)
    held = copies(placement, 16) / 4
    assert found.tokens(tokens) * 2 / 4 == pytest.approx(pairs, rel=0.05)
    assert found.touched(tokens) * held == pytest.approx(touched, rel=0.1)  # the fullest rank varies


def test_one_rank_of_equal_experts_is_the_closed_form() -> None:
    found = busiest(loaded(BALANCED, Pool(DEEPSEEK_V3, H100, tensor=8, weights="fp8")))
    for tokens in (1.0, 7.5, 300.0):
        assert found.tokens(tokens) == tokens
        assert found.touched(tokens) == pytest.approx(1 - (1 - 8 / 256) ** tokens)
        assert found.fewer(tokens) == 1.0


@given(st.floats(0, 2), st.sampled_from([1, 2, 8, 64]), st.integers(1, 100_000), st.integers(1, 1000))
@settings(deadline=None, max_examples=40)
def test_more_tokens_never_lower_the_load(zipf: float, ranks: int, tokens: int, more: int) -> None:
    found = busiest(loaded(ExpertLoad(zipf=zipf), replace(SPREAD, data=ranks, expert=ranks)))
    assert found.tokens(tokens + more) >= found.tokens(tokens) >= tokens * (1 - 1e-9)
    assert 0 < found.touched(tokens) <= found.touched(tokens + more) <= 1 + 1e-9
    assert 0 < found.fewer(tokens) <= 1


def test_the_fullest_rank_of_many_tokens_has_its_recorded_share() -> None:
    shares = np.random.default_rng(2).random(256)
    load = ExpertLoad(shares=(tuple(shares / shares.sum()),))
    ranks = shares.reshape(32, 8).sum(axis=1) / shares.sum()
    assert busiest(loaded(load)).tokens(2.0**18) / 2.0**18 == pytest.approx(32 * ranks.max(), rel=0.005)


def test_an_expert_that_every_token_has_gets_no_more_than_all() -> None:
    chances = inclusion(ExpertLoad(shares=((0.9, 0.05, 0.03, 0.02),)), 4, 2)
    assert chances[0] == pytest.approx([1.0, 0.5, 0.3, 0.2])


@pytest.mark.parametrize("cost", [Roofline(), Measured()], ids=["roofline", "measured"])
def test_uneven_loads_are_slower_and_copies_make_up_for_it(cost: Roofline | Measured) -> None:
    hot = tuple(8.0 if expert < 8 else 1.0 for expert in range(256))
    load = ExpertLoad(shares=(tuple(each / sum(hot) for each in hot),))
    everywhere: Placement = (tuple(tuple(range(32)) if e < 8 else (e * 32 // 256,) for e in range(256)),)
    shape = StepShape(32 * 512)
    even, uneven, copied = (
        cost.build(loaded(each, placement=placement)).step(shape).base
        for each, placement in ((BALANCED, ()), (load, ()), (load, everywhere))
    )
    assert even < uneven
    assert copied < uneven


def test_copies_take_memory() -> None:
    twice: Placement = (tuple((e % 32, (e + 1) % 32) for e in range(256)),)
    assert copies(twice, 256) == 512
    assert kv_blocks(loaded(BALANCED, placement=twice)) < kv_blocks(loaded(BALANCED))


def test_a_model_takes_the_exponent_that_was_measured_at_about_its_experts() -> None:
    assert [exponent(ExpertLoad(), experts) for experts in (8, 16, 64, 256)] == [COARSE, COARSE, FINE, FINE]
    assert exponent(ExpertLoad(zipf=0.3), 8) == 0.3


def test_a_model_without_experts_has_no_load() -> None:
    plain, balanced = (
        Roofline().build(Pool(LLAMA_8B, H100, engine=Engine(expert_load=each))) for each in (ExpertLoad(), BALANCED)
    )
    assert plain.step(StepShape(8)) == balanced.step(StepShape(8))
    assert "expert_load" not in plain.describe()


@pytest.mark.parametrize(
    ("load", "placement", "words"),
    [
        (ExpertLoad(shares=((0.5, 0.5),)), (), "has 2 experts a layer, but the model has 256"),
        (BALANCED, (((0,),) * 3,), "must name for each of 256 experts one or more of the ranks 0 to 31"),
        (BALANCED, (((32,),) * 256,), "one or more of the ranks 0 to 31"),
        (BALANCED, (((0,),) * 256,) * 2, "has 2 layers, but the load has 8"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(load: ExpertLoad, placement: Placement, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Roofline().build(loaded(load, placement=placement))


def test_a_load_between_measured_ones_does_not_change_which_kernel_runs() -> None:
    moe = replace(DEEPSEEK_V3.moe, experts=8, active=2, ffn=14336)  # type: ignore[type-var]
    mixtral = replace(DEEPSEEK_V3, mla=None, hidden=4096, heads=32, kv_heads=8, head_dim=128, moe=moe)
    pool = Pool(mixtral, device("A100"), tensor=4)  # vLLM's kernel was measured there with uneven loads alone
    kernels = []
    for zipf in (0.1, 0.5, 2.0):
        tables = Measured().build(loaded(ExpertLoad(zipf=zipf), pool)).describe()["tables"]
        assert isinstance(tables, dict)
        kernels.append({name: each["table"] for name, each in tables.items() if name.startswith("moe")})
    assert kernels[0] == kernels[1] == kernels[2]
