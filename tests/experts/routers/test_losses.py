"""Losses of balance and coupling: gradients are those of finite differences, and a global f that of one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from poise.experts.routers.auxiliary import balance_gradient, balance_loss, frequencies
from poise.experts.routers.erc_loss import activations, bounds, erc_gradient, erc_loss, scaled
from poise.experts.routers.global_batch import add, global_gradient, global_loss, start
from poise.experts.routers.routing import loads_of, softmax, top
from tests.experts.routers.made import skewed

seeds = st.integers(0, 2**32)


def differences(loss: Callable[[NDArray[Any]], float], at: NDArray[Any], by: float = 1e-6) -> NDArray[Any]:
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = by
        found[place] = (loss(at + step) - loss(at - step)) / (2 * by)
    return found


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_the_gradient_of_balance(seed: int) -> None:
    draw = np.random.default_rng(seed)
    logits, f, weights = draw.normal(size=(5, 4)), draw.dirichlet(np.ones(4)), draw.random(4)
    expected = differences(lambda each: balance_loss(softmax(each), f, weights), logits)
    assert balance_gradient(softmax(logits), f, weights) == pytest.approx(expected, abs=1e-8)


def test_even_scores_or_even_loads_have_a_loss_of_one() -> None:
    scores, even = skewed(0, 64, 8), np.full(8, 1 / 8)
    assert balance_loss(np.full((4, 8), 1 / 8), frequencies(np.arange(8))) == pytest.approx(1)
    assert balance_loss(scores, even) == pytest.approx(1)
    assert balance_loss(scores, frequencies(loads_of(top(scores, 2), 8))) > 1


@given(seeds, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_global_balance_is_that_of_the_concatenated_batch(seed: int, ranks: int, microbatches: int) -> None:
    """Exactly: f is a ratio of the same whole numbers; the mean of losses and gradients to rounding."""
    scores = skewed(seed, ranks * microbatches * 6, 5)
    parts = scores.reshape(microbatches, ranks, 6, 5)
    state = start(5)
    for micro in parts:
        state = add(state, np.array([loads_of(top(each, 2), 5) for each in micro]))
    whole = loads_of(top(scores, 2), 5)
    assert (frequencies(state) == frequencies(whole)).all()
    rows = parts.reshape(-1, 6, 5)
    losses = [global_loss(each, state) for each in rows]
    assert np.mean(losses) == pytest.approx(balance_loss(scores, frequencies(whole)), rel=1e-12)
    gradients = np.concatenate([global_gradient(each, state) for each in rows]) / len(rows)
    assert gradients == pytest.approx(balance_gradient(scores, frequencies(whole)), abs=1e-14)


def test_two_domains_may_keep_to_their_experts() -> None:
    """Each microbatch has one domain and one half of experts: the loss by microbatch is 2, by the whole batch 1."""
    scores = np.kron(np.eye(2), np.full((3, 2), 0.5))
    parts = scores.reshape(2, 3, 4)
    loads = [each.sum(axis=0) for each in parts]
    assert [balance_loss(each, frequencies(load)) for each, load in zip(parts, loads, strict=True)] == [2.0, 2.0]
    state = add(start(4), np.array(loads))
    assert [global_loss(each, state) for each in parts] == [1.0, 1.0]


@given(seeds, st.sampled_from([0.5, 1.0]))
@settings(max_examples=20, deadline=None)
def test_the_gradient_of_coupling(seed: int, alpha: float) -> None:
    m = np.random.default_rng(seed).random((4, 4))
    assert erc_gradient(m, alpha) == pytest.approx(differences(lambda each: erc_loss(each, alpha), m), abs=1e-6)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_coupling_is_free_of_loss_where_the_diagonal_is_largest(seed: int) -> None:
    draw = np.random.default_rng(seed)
    m = draw.random((5, 5)) + 2 * np.eye(5)
    assert erc_loss(m) == 0 and erc_loss(m, 0.01) > 0
    rows, gates = draw.normal(size=(5, 7)), draw.normal(size=(5, 7, 3))
    assert activations(rows, gates)[1, 3] == pytest.approx(np.linalg.norm(rows[1] @ gates[3]))
    noisy = scaled(rows, draw)
    moved = np.linalg.norm(noisy - rows, axis=1)
    assert (moved <= bounds(rows) * np.linalg.norm(rows, axis=1) + 1e-12).all()
    nearest = np.linalg.norm(noisy[:, None] - rows[None], axis=2).argmin(axis=1)
    assert (nearest == np.arange(5)).all()  # noise never brings a row nearer to another's
