"""DualMap's two candidates, the gate between them, and who is moved when both are over the SLO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Move, Route
from poise.core.event import FirstToken, MoveFailed
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.policies.kit.hash_ring import HashRing, spot
from poise.policies.route.dualmap import DualMap
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_exact import compare

RATE = 1000.0
IDLE = a_replica(prefill_rate=RATE)
BUSY = a_replica(prefill_rate=RATE, queued_tokens=10**6)


def candidates(key: int, able: Sequence[int]) -> tuple[int, int]:
    """The pair as the paper has it, for the chance that tests are given."""
    ring = HashRing(a_chance().seed)
    first = ring.successor(spot(key), able)
    return first, ring.successor(spot(key, 1), able, besides=first)


def chosen(router: DualMap, request: RequestView, replicas: Sequence[ReplicaColumns]) -> int:
    return router.route(request, a_cluster(*replicas), a_chance(key=request.id)).replica


# Candidates -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 60), st.sets(st.integers(0, 9), min_size=1))
def test_only_the_two_candidates_of_a_prefix_are_ever_chosen(prefix: int, able: set[int]) -> None:
    pair = candidates(prefix, sorted(able))
    assert (pair[0] == pair[1]) == (len(able) == 1)
    request = a_request(ids=(prefix,))
    for number in able:  # whoever alone is idle is taken just if it is a candidate
        replicas = [(IDLE if each == number else BUSY)._replace(able=each in able) for each in range(10)]
        assert chosen(DualMap(), request, replicas) in pair
        assert (chosen(DualMap(), request, replicas) == number) == (number in pair)


@given(st.sets(st.integers(0, 9), min_size=3), st.integers(0, 1000))
def test_a_replica_that_leaves_or_joins_changes_its_own_pairs_alone(able: set[int], prefix: int) -> None:
    gone = min(able)
    with_it, without = candidates(prefix, sorted(able)), candidates(prefix, sorted(able - {gone}))
    assert set(with_it) - {gone} <= set(without)
    if gone not in with_it:
        assert without == with_it


def test_a_hot_prefix_is_distinguished_by_its_longer_prefixes() -> None:
    """Eight replicas: a prefix of two blocks that everybody has is shared by two of them, then by all."""
    router, replicas = DualMap(window=100), [IDLE] * 8
    ends = (512, 1024, 1536)
    early, late = set(), set()
    for number in range(300):
        where = chosen(
            router, a_request(id=number, prompt_tokens=1536, ids=(1, 12, 1000 + number), ends=ends), replicas
        )
        (early if number < 2 else late).add(where)
    assert early <= set(candidates(12, range(8))) and late == set(range(8))


def test_where_a_hot_prefix_is_all_that_is_shared_the_rest_of_each_prompt_tells_them_apart() -> None:
    router, replicas = DualMap(window=100), [IDLE] * 8
    for prompt, everywhere in ((300, False), (301, True)):
        requests = [a_request(id=number, prompt_tokens=prompt, ids=(1,), ends=(300,)) for number in range(300)]
        where = {chosen(router, request, replicas) for request in requests[3:]}
        assert where == (set(range(8)) if everywhere else set(candidates(1, range(8))))


def test_a_prefix_that_is_not_hot_keeps_its_pair() -> None:
    router, replicas = DualMap(window=100), [IDLE] * 8
    for number in range(300):
        prefix = number % 10 + 1  # a tenth of the requests, less than 1/8
        request = a_request(
            id=number, prompt_tokens=1536, ids=(prefix, prefix * 10, 1000 + number), ends=(512, 1024, 1536)
        )
        assert chosen(router, request, replicas) in candidates(prefix * 10, range(8))


def test_without_identity_a_request_has_two_candidates_by_chance() -> None:
    """The idler of two drawn ones: the busiest of four is never taken, the idlest half of the time."""
    replicas = [IDLE._replace(queued_tokens=100 * number) for number in range(4)]
    cluster = a_cluster(*replicas, needs=["queued_tokens"])  # reading `cached_tokens` would raise
    counts = Counter(
        DualMap().route(a_request(id=key, ids=()), cluster, a_chance(key=key)).replica for key in range(2000)
    )
    assert counts[3] == 0
    assert counts[0] > counts[1] > counts[2] > 0
    assert 800 < counts[0] < 1200


# The gate -------------------------------------------------------------------------------------------------------------

GATED, MIN_TTFT = DualMap(), DualMap(slo_gate=False)
LEAST_LOADED = DualMap(slo_gate=False, within="least_loaded")


@pytest.mark.parametrize(
    ("router", "queued", "cached", "expected"),
    [
        (GATED, (4000, 0), (500, 0), 0),  # reuse goes first
        (GATED, (5000, 0), (500, 0), 0),
        (GATED, (5001, 0), (500, 0), 1),  # unless it takes longer than 5 s
        (GATED, (5001, 4999), (500, 0), 1),
        (GATED, (100, 0), (500, 500), 1),  # equal reuse: the less loaded
        (GATED, (100, 0), (0, 0), 1),
        (GATED, (6300, 6000), (900, 0), 0),  # both over: 6.4 s against 7 s
        (GATED, (7000, 6000), (900, 0), 1),
        (DualMap(within="least_loaded"), (6300, 6000), (900, 0), 1),
        (MIN_TTFT, (400, 0), (500, 0), 0),
        (MIN_TTFT, (600, 0), (500, 0), 1),
        (LEAST_LOADED, (400, 0), (500, 0), 1),
        (LEAST_LOADED, (400, 500), (0, 900), 0),
    ],
)
def test_the_rule_within_the_pair(
    router: DualMap, queued: tuple[int, int], cached: tuple[int, int], expected: int
) -> None:
    """A prompt of 1,000 tokens at 1,000 tokens/s; the third replica is idle and has it all."""
    pair = candidates(7, range(3))
    replicas = [IDLE._replace(cached_tokens=1000)] * 3
    for replica, tokens, hit in zip(pair, queued, cached, strict=True):
        replicas[replica] = IDLE._replace(queued_tokens=tokens, cached_tokens=hit)
    assert chosen(router, a_request(prompt_tokens=1000, ids=(7,)), replicas) == pair[expected]


def test_a_deadline_of_the_request_is_its_slo() -> None:
    first, second = candidates(7, range(2))
    replicas = [IDLE] * 2
    replicas[first] = IDLE._replace(queued_tokens=1500, cached_tokens=50)
    assert chosen(DualMap(), a_request(ids=(7,)), replicas) == first
    assert chosen(DualMap(), a_request(ids=(7,), deadline_at=SECOND), replicas) == second
    waited = a_cluster(*replicas, now=4 * SECOND)  # only a second of its five is left
    assert DualMap().route(a_request(ids=(7,)), waited, a_chance()) == Route(second)


def test_the_faster_of_two_counts_by_time_not_by_tokens() -> None:
    first, second = candidates(7, range(2))
    replicas = [IDLE] * 2
    replicas[first] = a_replica(queued_tokens=900, prefill_rate=10 * RATE)
    replicas[second] = a_replica(queued_tokens=100, prefill_rate=RATE)
    assert chosen(DualMap(), a_request(ids=(7,)), replicas) == first


def test_ties_within_the_pair_are_fair() -> None:
    pair = candidates(7, range(4))
    counts = Counter(chosen(DualMap(), a_request(id=key, ids=(7,)), [IDLE] * 4) for key in range(2000))
    assert set(counts) == set(pair) and min(counts.values()) > 850


def test_the_decode_half_goes_to_the_fewest_requests() -> None:
    pair = [a_replica(role="prefill"), a_replica(role="decode", requests=2), a_replica(role="decode", requests=1)]
    assert DualMap().route(a_request(), a_cluster(*pair, stage="decode"), a_chance()) == Route(2)


@pytest.mark.parametrize("parameters", [{"within": "best"}, {"ttft_s": 0.0}, {"window": 0}])
def test_parameters_that_make_no_sense(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        DualMap(**parameters)


# Rebalancing ----------------------------------------------------------------------------------------------------------


class Desk:
    """A router and what it has sent, on replicas that are all believed far over the SLO; 1,024 tokens take a second.

    cached: tokens of any prompt that each replica holds.  work: tokens to compute where each request was sent.
    """

    def __init__(self, cached: Sequence[int], **parameters: Any) -> None:
        self.router = DualMap(**parameters)
        self.cached = cached
        self.at: list[list[RequestView]] = [[] for _ in cached]
        self.work: dict[int, int] = {}
        self.begun: set[int] = set()

    def view(self, now: int = 0, idle: int = -1, gone: int = -1) -> ClusterColumns:
        replicas = []
        for number, sent in enumerate(self.at):
            flights = tuple(a_flight(each, first_token_at=0 if each.id in self.begun else -1) for each in sent)
            columns = (IDLE if number == idle else BUSY)._replace(prefill_rate=1024.0)
            replicas.append(columns._replace(cached_tokens=self.cached[number], flights=flights, able=number != gone))
        return a_cluster(*replicas, now=now)

    def send(self, request: RequestView, replica: int = -1, now: int = 0) -> int:
        """Let the router send a request: to `replica` if that, alone idle, is a candidate and holds no less."""
        where = self.router.route(request, self.view(now, idle=replica), a_chance(key=request.id)).replica
        self.at[where].append(request)
        self.work[request.id] = request.prompt_tokens - self.cached[where]
        return where

    def begin(self, request: int) -> None:
        self.begun.add(request)
        self.router.observe(FirstToken(0, request, 0))

    def moves(self, now: int = 0, gone: int = -1) -> list[Move]:
        return self.router.move(self.view(now, gone=gone))


def by_the_rule(desk: Desk, pair: tuple[int, int], slack_s: float, now: int) -> list[Move]:
    """One round of the paper's rebalancing, everything counted afresh from lists of (request, seconds of work)."""
    queues = [[(each, desk.work[each.id] / 1024) for each in sent if each.id not in desk.begun] for sent in desk.at]

    def waits(replica: int) -> float:
        return sum(seconds for _, seconds in queues[replica])

    moves = []
    for source in sorted(pair, key=lambda replica: (-waits(replica), replica)):
        found = []
        for place, (request, seconds) in enumerate(queues[source]):
            (other,) = set(candidates(request.ids[0], range(len(queues)))) - {source}
            here = sum(seconds for _, seconds in queues[source][: place + 1])
            work = (request.prompt_tokens - desk.cached[other]) / 1024
            due_s = (request.arrived_at - now) / SECOND + 5.0
            if waits(other) + work < min(here, due_s):
                found.append((waits(other) + work - here, request.id, request, seconds, here, due_s, other, work))
        for _, number, request, seconds, here, due_s, other, work in sorted(found):
            if waits(source) > slack_s and waits(other) + work < min(here, due_s):
                moves.append(Move(number, source, other))
                queues[source].remove((request, seconds))
                queues[other].append((request, work))
    return moves


requests = st.lists(
    st.tuples(
        st.integers(0, 30), st.sampled_from([128, 1024, 2048]), st.booleans(), st.integers(1, 8), st.integers(0, 3)
    ),
    min_size=8,
    max_size=40,
)


@given(requests, st.lists(st.sampled_from([0, 0, 64, 128]), min_size=2, max_size=6), st.integers(0, 3))
@settings(max_examples=300)
def test_a_round_of_moves_is_that_of_the_rule(
    sent: list[tuple[int, int, bool, int, int]], cached: list[int], now_s: int
) -> None:
    """Powers of two keep all seconds exact, so that both see the same ties."""
    desk, now, count = Desk(cached), now_s * SECOND, len(cached)
    pair = candidates(3, range(count))
    for number, (key, tokens, first, begun, arrived_s) in enumerate(sent):
        arrived_at = min(arrived_s, now_s) * SECOND
        desk.send(a_request(id=number, prompt_tokens=tokens, arrived_at=arrived_at, ids=(key,)), pair[first], now)
        if begun == 1:
            desk.begin(number)
    desk.send(a_request(id=len(sent), prompt_tokens=512, arrived_at=now - now % SECOND, ids=(3,)), now=now)
    assert desk.moves(now) == by_the_rule(desk, pair, 5.0, now)
    assert desk.moves(now) == []  # one round, not again until another arrival finds its pair over


def test_the_greatest_benefit_goes_first_until_the_rest_fits() -> None:
    """Six prompts of 2 s wait on one replica, each with an idle other candidate of its own: 5 s of them may stay."""
    source, _ = candidates(7, range(8))
    keys, partners = [], []
    for key in range(100, 1000):
        first, second = candidates(key, range(8))
        if first == source and second not in (*partners, candidates(7, range(8))[1]) and len(keys) < 6:
            keys.append(key)
            partners.append(second)
    desk = Desk([0] * 8)
    for number, key in enumerate(keys):
        assert desk.send(a_request(id=number, prompt_tokens=2048, ids=(key,)), source) == source
    desk.send(a_request(id=9, prompt_tokens=100, ids=(7,)), candidates(7, range(8))[1])
    desk.router.route(a_request(id=10, prompt_tokens=100, ids=(7,)), desk.view(), a_chance())
    moves = [Move(number, source, partners[number]) for number in (5, 4, 3, 2)]
    assert desk.moves() == moves  # the last in the queue gain most; 4 s are left


def test_who_has_begun_or_is_moving_stays_and_so_does_whose_move_came_to_nothing() -> None:
    source, other = candidates(7, range(2))
    for tell in (FirstToken(0, 3, source), MoveFailed(0, 3, source, other, "it has begun"), None):
        desk = Desk([0, 0])
        for number in range(4):
            desk.send(a_request(id=number, prompt_tokens=2048, ids=(7,)), source)
        desk.send(a_request(id=9, ids=(7,)))
        view = desk.view()
        if tell is None:
            (flight,) = [each for each in view.flights(source) if each.request.id == 3]
            flight.target = other  # type: ignore[misc]
        else:
            desk.router.observe(tell)
        moved = {move.request for move in desk.router.move(view)}
        assert moved and 3 not in moved  # though it would gain most


def test_a_request_that_was_moved_goes_back_to_where_it_came_from_if_at_all() -> None:
    source, other = candidates(7, range(2))
    desk = Desk([0, 0])
    for number in range(4):
        desk.send(a_request(id=number, prompt_tokens=2048, ids=(7,)), source)
    desk.send(a_request(id=9, ids=(7,)), now=0)
    moved = [move.request for move in desk.moves()]
    assert moved
    there = [each for each in desk.at[source] if each.id in moved]
    desk.at[source] = []  # the others are done
    for number in range(20, 24):
        desk.send(a_request(id=number, prompt_tokens=2048, ids=(7,)), other)
    desk.at[other] += there  # last in the queue, where most is to gain
    desk.send(a_request(id=30, ids=(7,)))
    back = desk.moves()
    assert {(move.source, move.target) for move in back} == {(other, source)}
    assert {move.request for move in back} & set(moved)


@pytest.mark.parametrize("side", [0, 1])
def test_nothing_is_moved_while_one_side_is_within_the_slo_or_when_it_is_switched_off(side: int) -> None:
    source = candidates(7, range(2))[side]
    for parameters in ({}, {"rebalancing": False}):
        desk = Desk([0, 0], **parameters)
        for number in range(9):
            desk.send(a_request(id=number, prompt_tokens=2048, ids=(7,)), source)
            assert desk.moves() == []
    desk.send(a_request(id=9, ids=(7,)))
    assert desk.moves() == []


def test_nothing_moves_to_a_replica_that_takes_no_request() -> None:
    source, other = candidates(7, range(3))
    for gone in (-1, other):
        desk = Desk([0, 0, 0])
        for number in range(6):
            desk.send(a_request(id=number, prompt_tokens=2048, ids=(7,)), source)
        desk.send(a_request(id=9, ids=(7,)))
        assert bool(desk.moves(gone=gone)) == (gone == -1)


# Its own book, and stalls ---------------------------------------------------------------------------------------------


def test_with_books_a_replica_is_as_loaded_as_what_was_sent_there_and_not_as_reported() -> None:
    first, second = candidates(7, range(2))
    old = a_request(id=1, prompt_tokens=9000, ids=())
    replicas = [IDLE, IDLE]
    replicas[first] = IDLE._replace(flights=(a_flight(old, replica=first),))
    replicas[second] = BUSY  # as reported: nothing of that was sent by this router
    assert chosen(DualMap(books=True), a_request(id=2, ids=(7,)), replicas) == second
    assert chosen(DualMap(), a_request(id=2, ids=(7,)), replicas) == first


@pytest.mark.parametrize(("waited_s", "stalls"), [(2.0, False), (4.0, True)])
def test_a_replica_that_computes_no_prompt_for_a_while_is_behind_by_that_time(waited_s: float, stalls: bool) -> None:
    first, second = candidates(7, range(2))
    old = a_request(id=1, prompt_tokens=10, ids=())
    replicas = [IDLE._replace(queued_tokens=500)] * 2
    replicas[first] = IDLE._replace(queued_tokens=10, flights=(a_flight(old, replica=first),))
    cluster = a_cluster(*replicas, now=round(waited_s * SECOND))
    request = a_request(id=2, ids=(7,), arrived_at=cluster.now)
    router = DualMap(stall_s=3.0)
    assert router.route(request, cluster, a_chance(key=2)) == Route(second if stalls else first)
    router.observe(FirstToken(round((waited_s - 1) * SECOND), 9, first))  # it has just computed another one
    assert router.route(request, cluster, a_chance(key=2)) == Route(first)


# In a world -----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@given(cases(), st.booleans(), st.sampled_from([3, 30]))
@settings(max_examples=examples(60))
def test_fast_path_equals_reference(case: Case, gate: bool, steps: int) -> None:
    compare(replace(case, router=lambda: DualMap(steps * case.cost.step_s, slo_gate=gate, key_tokens=4, window=9)))


@pytest.mark.deep
@given(cases(), st.sampled_from([3, 30]))
@settings(max_examples=examples(40))
def test_fast_path_equals_reference_with_its_book_and_stalls(case: Case, steps: int) -> None:
    seconds = steps * case.cost.step_s
    compare(replace(case, router=lambda: DualMap(seconds, key_tokens=4, window=9, books=True, stall_s=seconds)))
