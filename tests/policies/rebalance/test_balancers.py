"""Balancers of experts: the published figures, their own rules, and the contract of the slot."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.experts import ExpertView, in_order, least_busiest
from poise.experts.packing import pack
from poise.policies.find import names
from poise.policies.kit.expert_assignment import assigned
from poise.policies.rebalance.eplb import Eplb
from poise.policies.rebalance.exflow import ExFlow
from poise.policies.rebalance.few_moves import FewMoves
from poise.policies.rebalance.floating_copies import FloatingCopies
from poise.policies.rebalance.llep import Llep
from poise.policies.rebalance.moetuner import MoeTuner
from poise.testing import check_policy


def drawn(kind: str, layers: int = 61, experts: int = 256, seed: int = 0) -> NDArray[Any]:
    """Loads as the benchmark of balancers has them."""
    draw = np.random.default_rng(seed)
    if kind == "zipf":
        return np.stack([draw.permutation(1 / np.arange(1, experts + 1)) for _ in range(layers)])
    return draw.lognormal(0, 1, (layers, experts))


def test_all_of_them_fill_the_slot() -> None:
    found = names("expert_balancer")
    assert {"eplb", "llep", "moetuner", "exflow", "floating_copies", "few_moves", "in_order"} <= set(found)


@pytest.mark.parametrize("kind", [Eplb, Llep, MoeTuner, ExFlow, FloatingCopies, FewMoves])
def test_the_contract(kind: type) -> None:
    check_policy("expert_balancer", kind)


def slow_eplb(weights: NDArray[Any], slots: int, groups: int, nodes: int, ranks: int) -> list[list[int]]:
    """The ranks' experts of one layer, by the rule's words: one item after another."""
    each = len(weights) // groups

    def packed(items: list[tuple[float, int]], packs: int) -> list[list[int]]:
        found: list[list[tuple[float, int]]] = [[] for _ in range(packs)]
        for load, name in sorted(items, key=lambda item: -item[0]):
            open_ = [each for each in found if len(each) < len(items) // packs]
            min(open_, key=lambda each: sum(x for x, _ in each)).append((load, name))
        return [[name for _, name in each] for each in found]

    sums = [(float(weights[g * each : (g + 1) * each].sum()), g) for g in range(groups)]
    result: list[list[int]] = []
    for node in packed(sums, nodes):
        experts = [g * each + at for g in sorted(node) for at in range(each)]
        copies = dict.fromkeys(experts, 1)
        while sum(copies.values()) < slots // nodes:
            copies[max(experts, key=lambda e: weights[e] / copies[e])] += 1
        result += packed([(float(weights[e] / n), e) for e, n in copies.items() for _ in range(n)], ranks // nodes)
    return [sorted(rank) for rank in result]


@given(st.integers(0, 2**32), st.sampled_from([(1, 1), (4, 2), (2, 2), (4, 1)]))
@settings(max_examples=20)
def test_eplb_of_all_layers_equals_the_rule_layer_by_layer(seed: int, spread: tuple[int, int]) -> None:
    groups, nodes = spread
    counts = np.random.default_rng(seed).lognormal(0, 1, (3, 16))
    found = Eplb().rebalance(ExpertView(counts, 4, 5, nodes, groups)).physical()
    for layer, row in enumerate(found):
        expected = slow_eplb(counts[layer], 20, groups, nodes, 4)
        assert [sorted(row[at : at + 5]) for at in range(0, 20, 5)] == expected


def test_floating_copies_are_above_eplb_and_near_the_bound() -> None:
    """EPLB's published rule has .93 and .69 to .72 here (61 layers, 256 experts, 288 slots, 32 ranks, 4 nodes)."""
    for kind, least in (("lognormal", 0.98), ("zipf", 0.97)):
        counts = drawn(kind)
        view = ExpertView(counts, 32, 9, 4, 8)
        ours, theirs = (each.rebalance(view).balance(counts).mean() for each in (FloatingCopies(), Eplb()))
        assert theirs < 0.95 and ours >= least
        anywhere = FloatingCopies().rebalance(ExpertView(counts, 32, 9))
        assert (anywhere.loads(counts).max(axis=1) / least_busiest(counts, 32, 9)).max() <= 1.03


def test_first_copies_stay_in_the_node_of_their_group() -> None:
    counts = drawn("zipf", 5, 32)
    found = FloatingCopies().rebalance(ExpertView(counts, 8, 5, 4, 8))
    for layer in range(5):
        nodes = [{int(e) for e in np.flatnonzero(found.holds[layer, 2 * n : 2 * n + 2].sum(axis=0))} for n in range(4)]
        whole = [sum(set(range(4 * g, 4 * g + 4)) <= node for g in range(8)) for node in nodes]
        assert all(each >= 2 for each in whole)


@pytest.mark.parametrize(("part", "before"), [(0.3, 2.94), (0.5, 4.39), (0.8, 6.55), (0.95, 7.64)])
def test_llep_has_its_published_figures(part: float, before: float) -> None:
    """128 experts on 8 ranks, a part of all tokens to 4 experts of one rank: even by ten transfers of weights."""
    pairs = 524_288
    counts = np.full((1, 128), pairs * (1 - part) / 124)
    counts[0, :4] = pairs * part / 4
    view = ExpertView(counts, 8, 16)
    assert 1 / view.standing().balance(counts)[0] == pytest.approx(before, abs=0.01)
    found = Llep(alpha=1.0).rebalance(view)
    assert 1 / found.balance(counts)[0] <= 1.05
    assert found.fetched(view.standing()).sum() <= 10


def test_llep_leaves_a_balanced_layer_alone() -> None:
    view = ExpertView(np.ones((2, 16)), 4, 4)
    assert not Llep().rebalance(view).fetched(view.standing()).any()


def test_an_assignment_is_the_best_of_all() -> None:
    draw = np.random.default_rng(0)
    for _ in range(10):
        gain = draw.random((4, 2))
        best = max(sum(gain[e, r] for e, r in enumerate(each)) for each in set(permutations((0, 0, 1, 1))))
        assert gain[np.arange(4), assigned(gain)].sum() == pytest.approx(best)


def test_exflow_keeps_planted_paths_on_their_rank() -> None:
    draw = np.random.default_rng(1)
    follow = np.stack([draw.permutation(16) for _ in range(3)])
    flows = np.full((3, 16, 16), 1.0)
    flows[np.arange(3)[:, None], np.arange(16)[None, :], follow] += 64.0
    view = ExpertView(np.full((4, 16), 80.0), 4, 4, flows=flows)
    assert ExFlow().rebalance(view).crossings(flows) < 0.5 * view.standing().crossings(flows)


def test_moetuner_balances_no_worse_than_packing_and_relieves_the_busiest_link() -> None:
    draw = np.random.default_rng(0)
    flows = draw.lognormal(0, 1.5, (5, 8, 8))
    counts = np.concatenate([flows.sum(axis=2), flows[-1:].sum(axis=1)])
    view = ExpertView(counts, 4, 2, flows=flows)
    tuned, packed = MoeTuner().rebalance(view), Eplb().rebalance(view)
    assert (tuned.balance(counts) >= packed.balance(counts) - 1e-9).all()

    def busiest(placement: Any) -> float:
        sent = np.einsum("lra,lab,lsb->rs", placement.weights[:-1], flows, placement.weights[1:])
        np.fill_diagonal(sent, 0.0)
        return float(sent.max())

    assert busiest(tuned) < busiest(packed)


@given(st.integers(0, 2**32), st.integers(0, 40))
@settings(max_examples=25)
def test_few_moves_keeps_its_budget_and_never_makes_the_load_it_saw_worse(seed: int, moves: int) -> None:
    counts = np.random.default_rng(seed).lognormal(0, 1, (3, 16))
    view = ExpertView(counts, 4, 5, moves=moves)
    found = FewMoves(windows=1).rebalance(view)
    assert found.fetched(view.standing()).sum() <= moves
    assert found.holds.sum(axis=2).max() <= 5
    assert found.balance(counts).sum() >= view.standing().balance(counts).sum() - 1e-9


def test_what_was_hot_only_once_moves_nothing() -> None:
    balancer, steady = FewMoves(), np.ones((1, 16)) * 100
    once = steady.copy()
    once[0, :2] = 2000
    view = ExpertView(steady, 4, 4)
    balancer.rebalance(view)
    assert not balancer.rebalance(ExpertView(once, 4, 4)).fetched(view.standing()).any()
    assert balancer.rebalance(ExpertView(once, 4, 4)).fetched(view.standing()).any()


def test_late_loads_that_drift_are_served_better_than_by_leaving_things() -> None:
    """Popularity walks; each plan sees the load before last. Ten fetches a plan; over all windows it gains."""
    draw = np.random.default_rng(0)
    level = draw.normal(0, 1, (4, 32))
    loads = []
    for _ in range(24):
        level = 0.9 * level + 0.436 * draw.normal(0, 1, (4, 32))
        loads.append(np.exp(level))
    balancer, placed = FewMoves(), in_order(4, 32, 8, 5)
    still, ours = [], []
    for seen, now in pairwise(loads):
        placed = balancer.rebalance(ExpertView(seen, 8, 5, placed=placed, moves=10))
        still.append(in_order(4, 32, 8, 5).balance(now).mean())
        ours.append(placed.balance(now).mean())
    assert np.mean(ours) > np.mean(still)
    assert min(np.array(ours) / np.array(still)) > 0.9


def test_packing_is_largest_first_into_the_lightest_with_room() -> None:
    assert pack(np.array([[5.0, 4.0, 3.0, 3.0]]), 2).tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize(("make", "expected"), [(ExFlow, "give flows"), (MoeTuner, "give a divisor")])
def test_refusals_name_the_cure(make: type, expected: str) -> None:
    view = ExpertView(np.ones((2, 10)), 5, 2) if make is ExFlow else ExpertView(np.ones((1, 10)), 4, 3)
    with pytest.raises(UserError, match=expected):
        make().rebalance(view)
