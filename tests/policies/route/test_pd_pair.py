"""AIBrix's scores for both halves, written out one by one, against the router."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.policies.route.pd_pair import PdPair
from poise.testing import a_chance, a_cluster, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_exact import compare

REQUEST = a_request(prompt_tokens=200, ids=(1, 2), ends=(50, 100))
replicas = st.lists(
    st.builds(
        lambda requests, cached, free, able: a_replica(
            requests=requests, cached_tokens=cached, free_blocks=free, able=able
        ),
        st.integers(0, 24),
        st.sampled_from([0, 0, 50, 100]),
        st.sampled_from([0, 100, 900, 1000]),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
).filter(lambda each: any(replica.able for replica in each))


Rule = Callable[[list[ReplicaColumns]], list[float]]


def scaled(scores: list[float]) -> list[float]:
    greatest = max(score for score in scores if score < inf)
    return [score / greatest for score in scores]


def fewest(loads: list[int]) -> list[float]:
    return [0.0 if load == min(loads) else inf for load in loads]


def prefill_scores(able: list[ReplicaColumns], spread: int, deviations: float) -> list[float]:
    """Lower is better; infinite where a replica is passed over."""
    loads = [replica.requests for replica in able]
    if max(loads) - min(loads) > spread:
        return fewest(loads)
    limit = fmean(loads) + deviations * pstdev(loads) + 1e-9
    most = max(1, *loads)
    return scaled(
        [
            (100 - replica.cached_tokens / 2) * 0.1 + replica.requests / most if replica.requests <= limit else inf
            for replica in able
        ]
    )


def decode_scores(able: list[ReplicaColumns], spread: int) -> list[float]:
    loads = [replica.requests for replica in able]
    if max(loads) - min(loads) >= spread:
        return fewest(loads)
    free = [max(replica.free_blocks / 10, 0.1) for replica in able]
    most = max(1, *loads)
    return scaled([(load / most + 1) / (each / max(free)) for load, each in zip(loads, free, strict=True)])


def scored(replicas: list[ReplicaColumns], rule: Rule, offset: int = 0) -> dict[int, float]:
    """Scores of the able replicas by their ids, which begin at `offset`."""
    able = [number for number, replica in enumerate(replicas) if replica.able]
    scores = rule([replicas[number] for number in able])
    return {offset + number: score for number, score in zip(able, scores, strict=True)}


class Racks(ClusterColumns):
    """Even replicas share a rack, and so do odd ones; the way to the other rack takes four times as long."""

    def kv_seconds(self, tokens: int, source: int, target: int) -> float:
        return tokens * (1e-5 if (source - target) % 2 == 0 else 4e-5)


@given(replicas, st.integers(0, 24), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 9))
def test_without_pairs_the_prefill_score_decides(
    replicas: list[ReplicaColumns], spread: int, deviations: float, key: int
) -> None:
    route = PdPair(spread, deviations).route(REQUEST, a_cluster(*replicas), a_chance(key=key))
    scores = scored(replicas, lambda able: prefill_scores(able, spread, deviations))
    assert route.decode is None
    assert scores[route.replica] == pytest.approx(min(scores.values()))


@given(replicas, replicas, st.integers(0, 24), st.sampled_from([0.0, 0.3, 1.0]), st.booleans(), st.integers(0, 9))
@settings(max_examples=300)
def test_no_pair_has_a_lesser_sum(
    serving: list[ReplicaColumns],
    decoding: list[ReplicaColumns],
    spread: int,
    transfer: float,
    racks: bool,
    key: int,
) -> None:
    columns = [each._replace(role="prefill") for each in serving] + [each._replace(role="decode") for each in decoding]
    cluster = Racks(columns) if racks else a_cluster(*columns)
    route = PdPair(spread, transfer=transfer).route(REQUEST, cluster, a_chance(key=key))
    assert route.decode is not None
    first = scored(serving, lambda able: prefill_scores(able, spread, 1.0))
    second = scored(decoding, lambda able: decode_scores(able, spread), len(serving))
    longest = max(cluster.kv_seconds(1, one, two) for one in first for two in second)
    sums = {
        (one, two): first[one] + second[two] + transfer * cluster.kv_seconds(1, one, two) / longest
        for one in first
        for two in second
    }
    assert sums[route.replica, route.decode] == pytest.approx(min(sums.values()))


@given(replicas, st.integers(0, 24), st.integers(0, 9))
def test_a_request_for_the_decode_half_alone_has_the_least_score(
    replicas: list[ReplicaColumns], spread: int, key: int
) -> None:
    decodes = [replica._replace(role="decode") for replica in replicas]
    chosen = PdPair(spread).route(REQUEST, a_cluster(*decodes, stage="decode"), a_chance(key=key)).replica
    scores = scored(replicas, lambda able: decode_scores(able, spread))
    assert scores[chosen] == pytest.approx(min(scores.values()))


def paired(router: PdPair, *columns: ReplicaColumns) -> tuple[int, int | None]:
    return router.route(REQUEST, Racks(columns), a_chance())[:2]


def test_a_full_rack_draws_the_prompt_away_from_a_cached_prefix() -> None:
    """The pair is chosen as one: a short way and free decodes outweigh a prefill that alone would be the better."""
    better, other = a_replica(role="prefill", cached_tokens=50), a_replica(role="prefill")
    full, free = a_replica(role="decode", free_blocks=100), a_replica(role="decode")
    assert paired(PdPair(), better, other, full, free) == (1, 3)
    assert paired(PdPair(), better, other, free, full) == (0, 2)
    assert paired(PdPair(transfer=0.0), better, other, full, free) == (0, 3)


def test_who_joins_is_paired_and_who_left_is_not() -> None:
    router, prefill = PdPair(), a_replica(role="prefill")
    decode, gone = a_replica(role="decode"), a_replica(role="decode", able=False)
    assert paired(router, prefill, gone, gone, decode) == (0, 3)
    assert paired(router, prefill, gone, decode, decode) == (0, 2)
    assert paired(router, prefill, gone, gone, decode) == (0, 3)


def test_ties_of_both_halves_are_drawn_each_for_itself() -> None:
    counts: Counter[tuple[int, int | None]] = Counter()
    columns = [a_replica(role="prefill")] * 2 + [a_replica(role="decode")] * 2
    for view in (a_cluster(*columns), Racks(columns)):
        counts.clear()
        for key in range(1000):
            counts[PdPair().route(REQUEST, view, a_chance(key=key))[:2]] += 1
        assert min(counts.values()) > 800 / len(counts)
        assert len(counts) == (2 if isinstance(view, Racks) else 4)


def test_without_identity_the_fewest_requests_win_and_nothing_is_looked_up() -> None:
    cluster = a_cluster(a_replica(requests=2), a_replica(requests=1), needs=["requests"])
    assert PdPair().route(a_request(ids=()), cluster, a_chance()).replica == 1


@pytest.mark.deep
@given(cases())
@settings(max_examples=examples(25))
def test_fast_path_equals_reference(case: Case) -> None:
    compare(replace(case, router=PdPair))
