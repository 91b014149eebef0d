"""Thinning and superposing keep what a session is; the rate follows the factor."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.workload import Workload, all_at_once, closed, gamma, geometric, poisson, sessions, shared_prefixes, uniform
from poise.workload.reuse import shared_tokens
from poise.workload.scale import session_of
from tests.workload.trees import Tokenized, extents, joined, predecessors, prefix_trees

FRACTIONS = st.floats(0.01, 1.0)
SEEDS = st.integers(0, 100)


def some_sessions(seed: int = 0) -> Workload:
    starts = shared_prefixes(poisson(5.0, requests=60, seed=seed), groups=5, prefix_tokens=300, depth=2, seed=seed)
    return sessions(starts, turns=geometric(3), think_s=4, seed=seed)


def by_prompt(workload: Workload) -> Counter[tuple[int, int, int]]:
    return Counter(zip(workload.arrival.tolist(), workload.prompt.tolist(), workload.output.tolist(), strict=True))


@given(FRACTIONS, SEEDS)
def test_thinning_keeps_sessions_whole(fraction: float, seed: int) -> None:
    whole = some_sessions(seed % 3)
    assert whole.session is not None
    thinned = whole.thin(fraction, seed).check()
    assert thinned.session is not None
    sizes = Counter(whole.session.tolist())
    assert all(sizes[session] == rows for session, rows in Counter(thinned.session.tolist()).items())
    assert by_prompt(thinned) <= by_prompt(whole)
    assert abs(len(thinned) - fraction * len(whole)) <= max(max(sizes.values()), 1)


@given(joined(), FRACTIONS, SEEDS)
def test_thinning_keeps_joined_rows_together(workload: Workload, fraction: float, seed: int) -> None:
    thinned = workload.thin(fraction, seed).check()
    # Prompts are unique here, so they name the rows.
    kept = set(thinned.prompt.tolist())
    for row in range(len(workload)):
        for earlier in predecessors(workload, row):
            assert (row + 1 in kept) == (earlier + 1 in kept)
    for row in range(len(thinned)):
        original = predecessors(workload, int(thinned.prompt[row]) - 1)
        assert [int(thinned.prompt[earlier]) - 1 for earlier in predecessors(thinned, row)] == original


@given(prefix_trees(), FRACTIONS, SEEDS)
def test_thinned_rows_keep_their_extents(tree: Tokenized, fraction: float, seed: int) -> None:
    whole = tree.workload
    thinned = whole.thin(fraction, seed).check()
    all_rows = Counter((int(whole.prompt[row]), *extents(whole, row)) for row in range(len(whole)))
    kept = Counter((int(thinned.prompt[row]), *extents(thinned, row)) for row in range(len(thinned)))
    assert kept <= all_rows


def test_rows_that_share_a_rare_prefix_are_one_session() -> None:
    starts = shared_prefixes(poisson(5.0, requests=60), groups=2, prefix_tokens=300, zipf=0.0)
    workload = sessions(starts, turns=uniform(1, 5))
    workload.after_offsets = workload.after_ids = workload.delay = None
    true, workload.session = workload.session, None
    found = session_of(workload)
    assert true is not None
    # System prompts are shared by more than √rows rows, the turns of a session by fewer: identity alone shows both.
    pairs = set(zip(true.tolist(), found.tolist(), strict=True))
    assert len(pairs) == len(set(found.tolist())) == len(set(true.tolist()))


@given(SEEDS)
def test_a_smaller_share_is_part_of_a_larger_one(seed: int) -> None:
    whole = gamma(10.0, 2.0, requests=200)
    assert by_prompt(whole.thin(0.2, seed)) <= by_prompt(whole.thin(0.5, seed))
    assert len(whole.thin(0.2, seed)) == 40


@given(st.lists(st.floats(0.05, 4.0), min_size=2, max_size=4), SEEDS)
def test_a_smaller_load_is_part_of_every_larger_one(factors: list[float], seed: int) -> None:
    whole = some_sessions(seed % 3)
    loads = [by_prompt(whole.scaled(factor, seed=seed).check()) for factor in sorted(factors)]
    assert all(smaller <= larger for smaller, larger in pairwise(loads))


@given(st.floats(0.1, 4.0), SEEDS)
def test_scaling_keeps_sessions_whole(factor: float, seed: int) -> None:
    whole = some_sessions(seed % 3)
    many = whole.scaled(factor, seed=seed).check()
    assert whole.session is not None and many.session is not None
    largest = max(Counter(whole.session.tolist()).values())
    assert abs(len(many) - factor * len(whole)) <= largest
    turns = Counter(Counter(many.session.tolist()).values())
    assert turns <= Counter({size: 5 * n for size, n in Counter(Counter(whole.session.tolist()).values()).items()})
    for row in range(len(many)):
        assert all(many.session[earlier] == many.session[row] for earlier in predecessors(many, row))


def test_copies_share_no_session_and_no_prefix_but_their_tenants() -> None:
    whole = some_sessions()
    whole.tenant = np.arange(len(whole), dtype=np.int32) % 3
    many = whole.scaled(2.5, seed=3).check()
    assert whole.prefixes is not None and many.prefixes is not None and many.session is not None
    step, ids = whole.prefixes.next_id, many.prefixes.ids
    copy_of_row = many.session // (int(many.session.max()) // 3 + 1)
    pairs = set(zip((ids // step).tolist(), copy_of_row[many.prefixes.rows].tolist(), strict=True))
    assert pairs == {(0, 0), (1, 1), (2, 2)}
    assert many.tenant is not None and set(many.tenant.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("rate", [3.0, 20.0, 55.0])
def test_a_rate_may_be_requested(rate: float) -> None:
    whole = poisson(20.0, requests=5000, seed=3)
    assert whole.at_rate(rate, seed=1).rate == pytest.approx(rate, rel=0.05)
    assert whole.at_rate(rate, squeeze=True).rate == pytest.approx(rate)
    with pytest.raises(ScenarioError, match="all begin at one instant"):
        all_at_once(5).at_rate(rate)
    with pytest.raises(ScenarioError, match="closed load has none"):
        closed(2, 5).at_rate(rate)


def test_another_seed_keeps_other_rows() -> None:
    whole = poisson(10.0, requests=200)
    assert whole.thin(0.5, 1).arrival.tolist() != whole.thin(0.5, 2).arrival.tolist()


@given(st.integers(1, 4), SEEDS)
def test_superposing_repeats_every_session(copies: int, seed: int) -> None:
    whole = some_sessions()
    many = whole.superpose(copies, seed).check()
    assert whole.session is not None and many.session is not None
    assert len(many) == copies * len(whole)
    once = Counter(Counter(whole.session.tolist()).values())
    assert Counter(Counter(many.session.tolist()).values()) == {size: copies * n for size, n in once.items()}
    for row in range(len(many)):
        assert all(many.session[earlier] == many.session[row] for earlier in predecessors(many, row))


@given(prefix_trees(), st.integers(1, 4), SEEDS)
def test_superposing_keeps_the_reachable_hit_rate(tree: Tokenized, copies: int, seed: int) -> None:
    many = tree.workload.superpose(copies, seed).check()
    # What is shared is all tokens less the distinct ones, in any order of rows.
    assert many.prefixes is not None and tree.workload.prefixes is not None
    assert shared_tokens(many.prefixes).sum() == copies * shared_tokens(tree.workload.prefixes).sum()


def test_superposing_keeps_the_first_copy_and_the_span() -> None:
    whole = gamma(10.0, 3.0, requests=500, seed=2)
    many = whole.superpose(3, seed=5)
    assert by_prompt(whole) <= by_prompt(many)
    period = int(whole.arrival[-1] - whole.arrival[0])
    assert many.arrival[-1] - many.arrival[0] <= period + period // 499


def test_a_bounded_shift_moves_no_row_further() -> None:
    whole = poisson(1.0, requests=50, prompt_tokens=7)
    many = whole.superpose(2, seed=1, within_s=0.5)
    second = many.arrival[np.isin(many.arrival, whole.arrival, invert=True)]
    nearest = np.abs(second[:, None] - whole.arrival[None, :]).min(axis=1)
    # Rows that come in again at the start may lie further from any original row; all but the last cannot.
    assert (nearest <= 5 * 10**11).sum() >= 48


@pytest.mark.parametrize("factor", [0.25, 0.5, 1.5, 2.0, 3.2])
def test_the_rate_follows_the_factor(factor: float) -> None:
    whole = poisson(20.0, requests=5000, seed=3)
    assert whole.scaled(factor, seed=1).summary()["rate"] == pytest.approx(20.0 * factor, rel=0.05)
    assert whole.scaled(factor, squeeze=True).summary()["rate"] == pytest.approx(20.0 * factor, rel=0.05)


def test_squeezing_keeps_every_request_and_its_burstiness() -> None:
    whole = gamma(5.0, 3.0, requests=400)
    tight = whole.scaled(2.0, squeeze=True).check()
    assert tight.prompt.tolist() == whole.prompt.tolist()
    assert tight.summary()["cv"] == pytest.approx(whole.summary()["cv"])
    assert tight.source["changes"] == [{"squeeze": 2.0}]
    assert "changes" not in whole.source


def test_what_was_done_is_recorded() -> None:
    changed = poisson(1.0, requests=100).head(50).thin(0.5, seed=4).superpose(2, seed=5)
    first, second, third = changed.source["changes"]
    assert first == {"head": 50}
    assert (second["thin"], second["share"], second["seed"]) == (0.5, 0.5, 4)
    assert (third["superpose"], third["seed"]) == (2, 5)


@given(prefix_trees(), st.integers(1, 20))
def test_the_head_is_the_first_rows(tree: Tokenized, rows: int) -> None:
    whole = tree.workload
    first = whole.head(rows).check()
    assert len(first) == min(rows, len(whole))
    assert [extents(first, row) for row in range(len(first))] == [extents(whole, row) for row in range(len(first))]


def test_more_users_of_a_closed_load() -> None:
    assert closed(8, 100).superpose(3).concurrency == 24
    with pytest.raises(ScenarioError, match="closed load has no rate"):
        closed(8, 100).scaled(2.0)


def test_an_offline_batch_grows_in_place() -> None:
    twice = all_at_once(10).superpose(2).check()
    assert len(twice) == 20 and not twice.arrival.any()


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, float("nan")])
def test_impossible_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(ScenarioError, match="fraction is"):
        poisson(1.0, requests=5).thin(fraction)


def test_impossible_copies_and_factors_are_refused() -> None:
    workload = poisson(1.0, requests=5)
    with pytest.raises(ScenarioError, match=r"copies is 1\.5"):
        workload.superpose(1.5)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="factor is 0"):
        workload.scaled(0)
    with pytest.raises(ScenarioError, match="rows is 0"):
        workload.head(0)
    with pytest.raises(ScenarioError, match="within_s is -1"):
        workload.superpose(2, within_s=-1)
