"""Adapters of requests: popular ones first, one for a session, ranks by turns."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.errors import ScenarioError
from poise.workload import adapters, poisson, sessions


def test_popularity_follows_zipf_and_a_share_names_none() -> None:
    made = adapters(poisson(5.0, requests=30_000), count=4, zipf=1.0, share=0.6).check()
    assert made.lora is not None
    shares = np.bincount(made.lora + 1) / 30_000
    expected = 1 / np.arange(1, 5)
    assert shares == pytest.approx([0.4, *(0.6 * expected / expected.sum())], rel=0.05)


def test_requests_of_a_session_have_one_adapter() -> None:
    base = sessions(poisson(5.0, requests=200), turns=3)
    made = adapters(base, count=9).check()
    assert made.lora is not None and made.session is not None
    assert all(len(set(made.lora[made.session == each])) == 1 for each in set(made.session))
    assert len(set(made.lora)) > 5


def test_ranks_are_had_by_turns_also_by_adapters_of_a_trace() -> None:
    made = adapters(poisson(5.0, requests=20), count=5, rank=[8, 64])
    assert made.adapter_ranks == (8, 64, 8, 64, 8)
    again = adapters(made, rank=32)
    assert (again.lora is made.lora, again.adapter_ranks) == (True, (32,) * (int(np.max(made.lora)) + 1))  # type: ignore[arg-type]


def test_other_columns_stay_and_arrivals_without_an_end_get_adapters_later() -> None:
    base = poisson(5.0, requests=50, seed=3)
    made = adapters(base, count=3, seed=3)
    assert all((getattr(base, name) == getattr(made, name)).all() for name in ("arrival", "prompt", "output"))
    endless = adapters(poisson(5.0), count=3).endless
    assert endless is not None and endless(9.0).lora is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "count is missing"),
        ({"count": 3, "share": 0.0}, "share 0"),
        ({"count": 3, "rank": []}, "rank is an empty list"),
        ({"count": 3, "rank": 0}, "rank is 0"),
        ({"count": 0.5}, "count is 0.5"),
    ],
)
def test_mistakes(given: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        adapters(poisson(5.0, requests=9), **given)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="the requests name adapters already"):
        adapters(adapters(poisson(5.0, requests=9), count=2), count=2)
