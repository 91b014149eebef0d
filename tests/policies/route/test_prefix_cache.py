"""AIBrix's rule, written out step by step as its documentation has it, against the router."""

from __future__ import annotations

from statistics import fmean, pstdev

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.route.prefix_cache import PrefixCache
from poise.testing import a_chance, a_cluster, a_replica, a_request
from poise.testing.columns import ReplicaColumns

replicas = st.lists(
    st.builds(
        lambda requests, cached, able: a_replica(requests=requests, cached_tokens=cached, able=able),
        st.integers(0, 24),
        st.sampled_from([0, 0, 50, 100]),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
).filter(lambda each: any(replica.able for replica in each))


def may_be_chosen(replicas: list[ReplicaColumns], imbalance: int, deviations: float) -> set[int]:
    """Every replica that the rule allows; ties leave several."""
    able = [number for number, replica in enumerate(replicas) if replica.able]
    loads = {number: replicas[number].requests for number in able}
    idlest = {number for number in able if loads[number] == min(loads.values())}
    matches = [number for number in able if replicas[number].cached_tokens]
    if not matches or max(loads.values()) - min(loads.values()) > imbalance:
        return idlest
    limit = fmean(loads.values()) + deviations * pstdev(loads.values())
    order = sorted(matches, key=lambda number: (-replicas[number].cached_tokens, loads[number]))
    for number in order:
        if loads[number] <= limit + 1e-9:
            best = replicas[number].cached_tokens, loads[number]
            return {each for each in matches if (replicas[each].cached_tokens, loads[each]) == best}
    return idlest


@given(replicas, st.integers(0, 24), st.sampled_from([0.25, 1.0, 1.5, 2.0]), st.integers(0, 9))
def test_the_choice_is_that_of_the_documented_rule(
    replicas: list[ReplicaColumns], imbalance: int, deviations: float, key: int
) -> None:
    router = PrefixCache(imbalance, deviations)
    request = a_request(prompt_tokens=200, ids=(1, 2), ends=(50, 100))
    route = router.route(request, a_cluster(*replicas), a_chance(key=key))
    assert route.replica in may_be_chosen(replicas, imbalance, deviations)


@given(replicas, st.integers(0, 9))
def test_matches_are_not_looked_up_for_a_prompt_without_identity(replicas: list[ReplicaColumns], key: int) -> None:
    cluster = a_cluster(*replicas, needs=["requests"])  # reading `cached_tokens` would raise
    chosen = PrefixCache().route(a_request(ids=()), cluster, a_chance(key=key)).replica
    assert replicas[chosen].requests == min(replica.requests for replica in replicas if replica.able)
