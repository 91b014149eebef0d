"""Planted differences: what is there is found at the stated length, what is not no oftener than 5 % of the time.

The stated length for 3 %: 30,000 requests in one recording, or 10 seeds of 3,000.
"""

from __future__ import annotations

import pytest

from ...report.queues import band
from .planted import comparison

CASES = [pytest.param(30_000, 1, id="recording"), pytest.param(3_000, 10, id="seeds")]


def found(trials: int, requests: int, seeds: int, slower: float) -> list[str | None]:
    """The winner of each of so many comparisons."""
    return [comparison(key, requests, slower, seeds=seeds).best().winner for key in range(trials)]


@pytest.mark.parametrize(("requests", "seeds"), CASES)
def test_3_percent_are_found_at_the_stated_length(requests: int, seeds: int) -> None:
    assert found(5, requests, seeds, 1.03).count("A") == 5


@pytest.mark.parametrize(
    ("requests", "seeds"), [pytest.param(3_000, 1, id="recording"), pytest.param(600, 5, id="seeds")]
)
def test_no_difference_is_not_found(requests: int, seeds: int) -> None:
    winners = found(40, requests, seeds, 1.0)
    assert 40 - winners.count(None) in band(40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("requests", "seeds"), CASES)
def test_3_percent_are_found_nine_times_in_ten(requests: int, seeds: int) -> None:
    winners = found(100, requests, seeds, 1.03)
    assert winners.count("A") >= 90 and winners.count("B") == 0


@pytest.mark.slow
@pytest.mark.parametrize(("requests", "seeds"), [*CASES, pytest.param(3_000, 1, id="short recording")])
def test_no_difference_is_found_no_oftener_than_nominal(requests: int, seeds: int) -> None:
    winners = found(300, requests, seeds, 1.0)
    assert 300 - winners.count(None) <= band(300, 0.05)[-1]


def test_a_verdict_names_the_length_at_which_it_would_be_clear() -> None:
    """At twice the length that the verdict on a short run asks for, nearly all comparisons are clear."""
    short = comparison(1, 2_000, 1.05)
    (gap,) = short.best().differences.values()
    assert short.best().winner is None and gap.longer is not None
    longer = found(6, round(2_000 * gap.longer * 2), 1, 1.05)
    assert longer.count("A") >= 5


def test_twins_are_indistinguishable() -> None:
    verdict = comparison(1, 1_000, 1.0, others=0.0).best()
    assert (verdict.winner, verdict.tied) == (None, ("B",))
    assert verdict.differences["B"].value == 0 == verdict.differences["B"].half


def test_pairs_are_sharper_than_the_runs_alone() -> None:
    found = comparison(1, 3_000, 1.0)
    gap = found.interval("B", "e2e_s.mean", against="A").half
    alone = [found.interval(name, "e2e_s.mean").half for name in ("A", "B")]
    assert gap is not None and all(half is not None and gap < 0.8 * half for half in alone)
