"""Routers of other forms: centroids, experts that do not compute, two levels, schedules, and the measurement of γ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.experts.routers.geometric_coupling import KMeansRouter, directions
from poise.experts.routers.moe_plus_plus import MoePlusPlus, constant, with_residual
from poise.experts.routers.routing import NONE, max_violation, softmax, top
from poise.experts.routers.sigma_moe_tiny import Sparsification
from poise.experts.routers.smile import Smile
from poise.experts.routers.three_phases import equilibrium, gamma_eff
from tests.experts.routers.made import skewed

seeds = st.integers(0, 2**32)


def test_centroids_find_planted_clusters() -> None:
    """Eight well-separated directions, eight experts started near them: loads become those of the clusters."""
    draw = np.random.default_rng(0)
    planted = directions(draw.normal(size=(8, 32)))
    made = KMeansRouter(1, keep=0.5, width=32)
    state = directions(planted + 0.2 * draw.normal(size=planted.shape) / np.sqrt(32))
    for _ in range(20):
        hidden = 3 * np.repeat(planted, 40, axis=0) + 0.3 * draw.normal(size=(320, 32))
        routed = made.route(hidden, state)
        state = routed.state
    assert (state * planted).sum(axis=1).min() > 0.99
    assert max_violation(routed.loads(8)) == 0
    assert np.linalg.norm(state, axis=1) == pytest.approx(np.ones(8))


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_centroid_without_tokens_stays(seed: int) -> None:
    made = KMeansRouter(2, width=5, seed=seed)
    state = made.start(9)
    routed = made.route(np.random.default_rng(seed).normal(size=(2, 5)), state)
    idle = routed.loads(9) == 0
    assert routed.state[idle] == pytest.approx(state[idle])
    assert all(len(set(row)) == 2 for row in routed.chosen) and np.allclose(routed.gates.sum(axis=1), 1)


@given(seeds, st.sampled_from([0.1, 0.5, 1.0]), st.integers(1, 80))
@settings(max_examples=30, deadline=None)
def test_experts_that_do_not_compute_take_their_part(seed: int, tau: float, tokens: int) -> None:
    made = MoePlusPlus(4, 1, 1, 2, tau=tau)
    routed = made.route(skewed(seed, tokens, 8), made.start(8))
    room = made.capacities(tokens)
    assert (routed.loads(8) <= room).all()
    assert made.part == pytest.approx(tau * 4 / (tau * 4 + 4))
    assert room[:4].sum() >= made.gamma * tokens * 2 * made.part - 1e-9  # rounded up
    assert ((routed.chosen == NONE) == (routed.gates == 0)).all()


def test_the_loss_is_even_where_computing_experts_have_tau_as_many() -> None:
    """Weights times loads are equal for all experts where loads are τ : 1, so no score gains by a move."""
    made = MoePlusPlus(4, 1, 1, 2, tau=0.5)
    loads = np.array([0.5] * 4 + [1.0] * 4)
    losses = [made.loss(np.eye(8)[[each]], loads) for each in range(8)]
    assert losses == pytest.approx([losses[0]] * 8)


def test_constants_and_residuals() -> None:
    hidden, vector = np.ones((2, 3)), np.full(3, 3.0)
    assert constant(hidden, vector, np.zeros((3, 2))) == pytest.approx(np.full((2, 3), 2.0))
    logits, before = np.arange(4.0).reshape(2, 2), np.eye(2)
    assert (with_residual(logits, before, np.zeros((2, 2))) == logits).all()
    assert with_residual(logits, before, np.eye(2)) == pytest.approx(logits + before)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_two_levels_choose_the_largest_product(seed: int) -> None:
    made, draw = Smile(3, 4), np.random.default_rng(seed)
    p, q = softmax(draw.normal(size=(20, 3))), softmax(draw.normal(size=(20, 4)))
    routed = made.route(np.hstack([p, q]), made.start(12))
    products = (p[:, :, None] * q[:, None, :]).reshape(20, 12)
    assert (routed.chosen == top(products, 1)).all()
    assert routed.gates[:, 0] == pytest.approx(products.max(axis=1))
    even = np.hstack([np.full((12, 3), 1 / 3), np.full((12, 4), 1 / 4)])
    assert made.loss(even, np.arange(12)[:, None], 0.1, 0.2) == pytest.approx(0.3)
    assert made.messages == (5, 11)


def test_first_layers_have_more_experts_until_late() -> None:
    made = Sparsification()
    assert [made.k(layer, 0.0) for layer in range(10)] == [8, 8, 6, 6, 4, 4, 2, 2, 1, 1]
    assert made.active(56, 0.0) == pytest.approx(88 / 56) and made.active(56, 0.95) == 1
    with pytest.raises(UserError, match=r"progress: 1.5 at layer 0; give"):
        made.k(0, 1.5)


@given(seeds, st.floats(0, 60))
@settings(max_examples=20, deadline=None)
def test_gamma_is_that_of_the_equilibrium(seed: int, gamma: float) -> None:
    qualities = np.random.default_rng(seed).normal(size=16)
    shares = equilibrium(qualities, gamma)
    assert shares.sum() == pytest.approx(1)
    assert softmax(qualities - gamma * shares) == pytest.approx(shares, rel=1e-9)
    assert gamma_eff(qualities, shares) == pytest.approx(gamma, abs=1e-5)


def test_what_cannot_be_measured_is_named() -> None:
    with pytest.raises(UserError, match="says nothing of γ"):
        gamma_eff(np.zeros(2), np.array([0.5, 0.5]))
    with pytest.raises(UserError, match=r"give \(tokens × 64\)"):
        KMeansRouter().route(np.ones((2, 3)), KMeansRouter().start(4))
    with pytest.raises(UserError, match="3 columns for 4 nodes and 8 devices; give 12"):
        Smile().route(np.ones((2, 3)), Smile().start(32))
