"""The load that kernels were profiled with: whole pairs, and the rank with most as drawn from the power law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.cost.profiled_load import pairs_of, profiled


@given(st.integers(1, 100_000), st.sampled_from([(8, 2), (64, 8), (256, 8)]))
@settings(deadline=None, max_examples=50)
def test_each_token_has_as_many_pairs_as_active_experts(tokens: int, model: tuple[int, int]) -> None:
    experts, active = model
    counts = pairs_of(tokens, experts, active)
    assert counts.sum() == tokens * active
    assert (counts == np.round(counts)).all()
    assert counts.min() >= 0
    assert counts[0] == counts.max()


@pytest.mark.parametrize("ranks", [1, 4, 16])
@pytest.mark.parametrize("tokens", [4, 256, 8192])
def test_the_fullest_rank_is_near_that_of_drawn_loads(ranks: int, tokens: int) -> None:
    experts, active, random = 128, 8, np.random.default_rng(3)
    low, high = (1.0, 0.8 * tokens) if tokens * active > experts else (0.01, 2.0)
    found = []
    for _ in range(400):
        popularity = low * (high / low) ** random.random(experts)
        counts = np.round(popularity / popularity.sum() * tokens * active)
        rest = int(tokens * active - counts.sum())
        if rest > 0:
            counts[np.argsort(-popularity)[:rest]] += 1
        found.append(counts.reshape(ranks, -1).sum(axis=1).max() * ranks / active)
    assert profiled(experts, active, ranks).tokens(tokens) == pytest.approx(np.mean(found), rel=0.1)


def test_more_tokens_never_lower_the_load() -> None:
    found = profiled(256, 8, 32)
    loads = [found.tokens(1.1**at) for at in range(120)]
    assert loads == sorted(loads)
    assert all(0 < found.fewer(1.1**at) <= 1 for at in range(120))
