"""Speculative MoE: planted topics are found, tokens stay balanced, and exchanges are those of the slow rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.experts import ExpertView
from poise.policies.kit.token_homes import homes, shuffled
from poise.policies.rebalance.speculative_moe import SpeculativeMoe, _others


def test_ids_and_experts_of_a_topic_share_a_rank_and_nothing_is_exchanged() -> None:
    draw = np.random.default_rng(0)
    expert, word = draw.permutation(np.arange(16) % 4), draw.permutation(np.arange(400) % 4)
    words = np.where(word[:, None] == expert[None, :], 2.0, 0.0)[None]
    found = SpeculativeMoe().group(ExpertView(words.sum(axis=1), 4, 4, words=words))
    local = (words[0] * found.placement.weights[0][found.home[0]]).sum()
    assert local == pytest.approx(words.sum())
    assert np.bincount(found.home[0]).tolist() == [100] * 4


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=20)
def test_each_rank_has_equally_many_experts_and_ids_fit_their_room(seed: int, ranks: int) -> None:
    draw = np.random.default_rng(seed)
    words = draw.poisson(draw.lognormal(0, 1, (2, 60, 8))).astype(float)
    view = ExpertView(words.sum(axis=1), ranks, 8 // ranks, words=words)
    found = SpeculativeMoe().group(view)
    assert (found.placement.holds.sum(axis=2) == 8 // ranks).all()
    for layer in range(2):
        tokens = words[layer].sum(axis=1)
        load = np.bincount(found.home[layer], weights=tokens, minlength=ranks)
        assert load.sum() == tokens.sum()
        assert load.max() <= tokens.sum() / ranks * 1.05 + tokens.max()


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=20)
def test_the_largest_of_other_ranks_is_that_of_the_slow_rule(seed: int, ranks: int) -> None:
    draw = np.random.default_rng(seed)
    load, where = draw.integers(0, 5, ranks).astype(float), draw.integers(0, ranks, 7)
    found = _others(load, where)
    for one in range(7):
        for other in range(7):
            rest = [load[each] for each in range(ranks) if each not in (where[one], where[other])]
            assert found[one, other] == max(rest, default=0.0)


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 8))
@settings(max_examples=20)
def test_a_shuffled_batch_has_equal_parts(seed: int, tokens: int, ranks: int) -> None:
    home = np.random.default_rng(seed).integers(0, ranks, tokens)
    size = np.bincount(shuffled(home, ranks), minlength=ranks)
    assert size.max() - size.min() <= 1
    if tokens % ranks == 0 and len(set(np.bincount(home, minlength=ranks))) == 1:
        assert (shuffled(home, ranks) == home).all()


def test_the_most_frequent_ids_choose_first() -> None:
    score = np.array([[1.0, 0.0], [9.0, 2.0], [1.0, 0.0]])
    assert homes(score, np.array([1.0, 10.0, 9.0])).tolist() == [1, 0, 1]


def test_words_of_another_model_are_refused() -> None:
    with pytest.raises(UserError, match="give both of the same model"):
        ExpertView(np.ones((1, 8)), 2, 4, words=np.ones((1, 3, 9)))
