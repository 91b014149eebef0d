"""A prefix is followed where it is more than a share of the prompt, and else the least queued work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Route
from poise.policies.route.prefix_affinity import PrefixAffinity
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_exact import compare

replicas = st.lists(st.tuples(st.booleans(), st.integers(0, 100), st.integers(0, 3)), min_size=1, max_size=6)


@given(replicas, st.integers(0, 4))
def test_the_rule_on_any_cluster(columns: list[tuple[bool, int, int]], quarters: int) -> None:
    """Prompts of 100 tokens; a prefix of exactly the share is not followed."""
    able = [number for number, column in enumerate(columns) if column[0]] or [0]
    view = a_cluster(
        *[
            a_replica(able=number in able, cached_tokens=cached, queued_tokens=queued)
            for number, (_, cached, queued) in enumerate(columns)
        ]
    )
    chosen = PrefixAffinity(quarters / 4).route(a_request(prompt_tokens=100, ids=(1,)), view, a_chance()).replica
    longest = max(columns[each][1] for each in able)
    rivals = [each for each in able if columns[each][1] == longest] if longest > 25 * quarters else able
    assert chosen in rivals and columns[chosen][2] == min(columns[each][2] for each in rivals)


def test_without_identity_only_load_counts_and_a_decode_half_goes_to_the_fewest_requests() -> None:
    busy, idle = a_replica(cached_tokens=100, queued_tokens=9), a_replica()
    cluster = a_cluster(busy, idle, needs=["requests", "queued_tokens"])  # reading `cached_tokens` would raise
    assert PrefixAffinity(0).route(a_request(prompt_tokens=100, ids=()), cluster, a_chance()) == Route(1)
    pair = [a_replica(role="prefill"), a_replica(role="decode", requests=2), a_replica(role="decode", requests=1)]
    assert PrefixAffinity().route(a_request(), a_cluster(*pair, stage="decode"), a_chance()) == Route(2)


def test_with_books_load_is_what_was_sent_and_not_as_reported() -> None:
    waiting = (a_flight(a_request(id=1, prompt_tokens=50)),)
    cluster = a_cluster(a_replica(flights=waiting), a_replica(queued_tokens=10**6), needs=["flights", "requests"])
    assert PrefixAffinity(books=True).route(a_request(id=2, ids=()), cluster, a_chance()) == Route(1)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_makes_no_sense(share: float) -> None:
    with pytest.raises(ValueError, match="give 0 to 1"):
        PrefixAffinity(share)


@pytest.mark.deep
@given(cases(), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=examples(40))
def test_fast_path_equals_reference(case: Case, share: float) -> None:
    compare(replace(case, router=lambda: PrefixAffinity(share, books=share > 0)))
