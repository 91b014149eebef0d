"""How fast replicas are believed to be where that is known of some, of none, of all."""

from __future__ import annotations

import pytest

from poise.core.action import Route
from poise.policies.find import build
from poise.policies.kit.loads import prefill_rates
from poise.testing import a_chance, a_cluster, a_replica, a_request


def test_an_unknown_rate_is_the_mean_of_those_known() -> None:
    rates = [a_replica(prefill_rate=rate) for rate in (1000.0, 0.0, 3000.0, 0.0)]
    assert list(prefill_rates(a_cluster(*rates))) == [1000.0, 2000.0, 3000.0, 2000.0]


def test_where_all_are_known_nothing_is_copied() -> None:
    cluster = a_cluster(a_replica(), a_replica())
    assert prefill_rates(cluster) is cluster.prefill_rate


def test_where_none_is_known_all_are_alike_and_above_0() -> None:
    first, second = prefill_rates(a_cluster(*[a_replica(prefill_rate=0.0)] * 2))
    assert first == second > 0


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("min_ttft", {"reject": True, "ttft_s": 0.001}), ("pull", {"ttft_s": 0.001}), ("dualmap", {"ttft_s": 0.001})],
)
def test_no_request_is_turned_away_for_want_of_a_rate(name: str, parameters: dict[str, object]) -> None:
    """And the one with less to do is still told from the other."""
    busy = a_replica(prefill_rate=0.0, queued_tokens=90_000)
    cluster = a_cluster(busy, a_replica(prefill_rate=0.0))
    answer = build("router", name, parameters).route(a_request(prompt_tokens=5000), cluster, a_chance())
    assert isinstance(answer, Route)
    if name == "min_ttft":
        assert answer == Route(1)
