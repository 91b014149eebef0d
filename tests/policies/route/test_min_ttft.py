"""Mooncake's rule against its formula, and what becomes of requests that would be late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Reject, Route
from poise.core.units import SECOND
from poise.policies.route.min_ttft import MinTtft
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ReplicaColumns
from tests.sim.cases import Case, cases
from tests.sim.test_exact import compare

replicas = st.lists(
    st.builds(
        lambda queued, cached, rate, able: a_replica(
            queued_tokens=queued, cached_tokens=cached, prefill_rate=rate, able=able
        ),
        st.sampled_from([0, 0, 300, 600, 5000]),
        st.sampled_from([0, 0, 300, 900]),
        st.sampled_from([1000.0, 1000.0, 3000.0]),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
).filter(lambda each: any(replica.able for replica in each))


def ttft(replica: ReplicaColumns, best: int, balancing: float) -> float:
    """Algorithm 1 of the paper for a prompt of 1,000 tokens; links carry 2,000 KV tokens a second."""
    prefix, transfer = replica.cached_tokens, 0.0
    if balancing and best > balancing * prefix:
        prefix, transfer = best, (best - prefix) / 2000
    return transfer + (replica.queued_tokens + 1000 - prefix) / replica.prefill_rate


@given(replicas, st.sampled_from([0.0, 1.0, 2.0, 4.0]), st.integers(0, 9))
def test_the_choice_has_the_least_predicted_ttft(replicas: list[ReplicaColumns], balancing: float, key: int) -> None:
    cluster = a_cluster(*replicas, kv_rate=2000.0)
    route = MinTtft(balancing=balancing).route(a_request(prompt_tokens=1000), cluster, a_chance(key=key))
    assert isinstance(route, Route)
    best = max(replica.cached_tokens for replica in replicas)
    able = [number for number, replica in enumerate(replicas) if replica.able]
    assert route.replica in able
    least = min(ttft(replicas[number], best, balancing) for number in able)
    assert ttft(replicas[route.replica], best, balancing) == pytest.approx(least)


def test_a_prefix_elsewhere_counts_as_fetched_only_where_engines_share_a_pool() -> None:
    """900 tokens are computed in 0.9 s and carried in 0.45 s; the holder is busy for 0.6 s."""
    busy = a_replica(cached_tokens=900, queued_tokens=600, prefill_rate=1000.0)
    idle = a_replica(prefill_rate=1000.0)
    cluster = a_cluster(busy, idle, kv_rate=2000.0)
    request = a_request(prompt_tokens=1000)
    assert MinTtft().route(request, cluster, a_chance()) == Route(0)  # 0.7 s against 1.0 s
    assert MinTtft(balancing=2.0).route(request, cluster, a_chance()) == Route(1)  # 0.7 s against 0.55 s


@given(replicas, st.integers(0, 9))
def test_matches_are_not_looked_up_for_a_prompt_without_identity(replicas: list[ReplicaColumns], key: int) -> None:
    cluster = a_cluster(*replicas, needs=["queued_tokens"])  # reading `cached_tokens` would raise
    chosen = MinTtft().route(a_request(prompt_tokens=1000, ids=()), cluster, a_chance(key=key))
    assert isinstance(chosen, Route)
    bare = [replica._replace(cached_tokens=0) for replica in replicas]
    assert ttft(bare[chosen.replica], 0, 0) == min(ttft(replica, 0, 0) for replica in bare if replica.able)


@pytest.mark.parametrize(
    ("router", "deadline_s", "rejected"),
    [
        (MinTtft(), 0.1, False),
        (MinTtft(reject=True), 1.4, True),
        (MinTtft(reject=True), 1.5, False),
        (MinTtft(reject=True, ttft_s=1.4), 0, True),
        (MinTtft(reject=True, ttft_s=1.5), 0, False),
        (MinTtft(reject=True, ttft_s=1.4), 1.5, False),  # the request's own deadline goes first
    ],
)
def test_a_request_that_would_be_late_is_turned_away_if_so_configured(
    router: MinTtft, deadline_s: float, rejected: bool
) -> None:
    """1,500 tokens to compute at 1,000 tokens/s."""
    cluster = a_cluster(a_replica(queued_tokens=500, prefill_rate=1000.0), now=3 * SECOND)
    due = round((3 + deadline_s) * SECOND) if deadline_s else 0
    request = a_request(prompt_tokens=1000, arrived_at=3 * SECOND, deadline_at=due)
    assert (type(router.route(request, cluster, a_chance())) is Reject) == rejected


def test_the_decode_half_goes_to_the_fewest_requests() -> None:
    pair = [a_replica(role="prefill"), a_replica(role="decode", requests=2), a_replica(role="decode", requests=1)]
    assert MinTtft().route(a_request(), a_cluster(*pair, stage="decode"), a_chance()) == Route(2)


def test_with_books_what_waits_is_what_was_sent_less_what_was_cached() -> None:
    """Of 1,000 tokens 900 were cached: less waits there than the 200 at the other, whatever is reported."""
    router, request = MinTtft(books=True), a_request(id=1, prompt_tokens=1000, ids=(1,))
    cluster = a_cluster(a_replica(cached_tokens=900), a_replica(), needs=["cached_tokens", "flights"])
    assert router.route(request, cluster, a_chance()) == Route(0)
    sent = a_replica(queued_tokens=10**6, flights=(a_flight(request),))
    other = a_replica(flights=(a_flight(a_request(id=2, prompt_tokens=200), replica=1),))
    assert router.route(a_request(id=3, ids=()), a_cluster(sent, other), a_chance()) == Route(0)


def test_ties_are_fair() -> None:
    cluster = a_cluster(*[a_replica(queued_tokens=200) for _ in range(3)], a_replica(queued_tokens=201))
    counts: Counter[int] = Counter()
    for key in range(3000):
        route = MinTtft().route(a_request(id=key), cluster, a_chance(key=key))
        assert isinstance(route, Route)
        counts[route.replica] += 1
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 850


@pytest.mark.parametrize("parameters", [{"ttft_s": 0.0}, {"balancing": 0.5}])
def test_parameters_that_make_no_sense(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        MinTtft(**parameters)  # type: ignore[arg-type]


@given(cases())
@settings(max_examples=25)
def test_fast_path_equals_reference(case: Case) -> None:
    compare(replace(case, router=MinTtft))
