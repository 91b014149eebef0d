"""E2 by the paper's words against the router, and its parts on hand-made clusters."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.event import Cancelled, Finished, FirstToken, Moved, Refused
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.policies.find import build
from poise.policies.route.preble import Preble
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


class Given(NamedTuple):
    """A request that was routed."""

    at: int
    replica: int
    prompt: int
    ids: tuple[int, ...]
    ends: tuple[int, ...]


class Side:
    """A router and the whole past, from which the paper's costs are added up anew each time."""

    def __init__(self, router: Preble, replicas: int) -> None:
        self.router = router
        self.replicas = replicas
        self.now = 0
        self.given: list[Given] = []
        self.ended: list[tuple[int, int, int]] = []

    def send(
        self,
        request: RequestView,
        *,
        cached: tuple[int, ...] = (),
        requests: tuple[int, ...] = (),
        able: tuple[int, ...] = (),
        at_s: float = 0.0,
    ) -> int:
        self.now = round(at_s * SECOND)
        columns = [
            a_replica(
                cached_tokens=cached[number] if cached else 0,
                requests=requests[number] if requests else 0,
                able=number in able or not able,
            )
            for number in range(self.replicas)
        ]
        route = self.router.route(request, a_cluster(*columns, now=self.now), a_chance(key=request.id))
        missed = request.prompt_tokens - (min(cached[route.replica], request.prompt_tokens) if cached else 0)
        self.given.append(Given(self.now, route.replica, missed, request.ids, request.ends))
        return route.replica

    def end(self, request: RequestView, replica: int, output_tokens: int) -> None:
        self.router.observe(Finished(self.now, request.id, output_tokens))
        self.ended.append((self.now, replica, output_tokens))

    def recent(self, replica: int) -> list[Given]:
        since = self.now - round(self.router.window_s * SECOND)
        return [each for each in self.given if each.replica == replica and each.at >= since]

    def load(self, replica: int, requests: int) -> float:
        since = self.now - round(self.router.window_s * SECOND)
        known, mean = [each for each in self.ended if each[1] == replica], 45.0
        fresh = [each for each in known if each[0] >= since]
        if fresh:
            mean = fmean(each[2] for each in fresh)
        assert fresh or not known, "ends that all grew old are tested apart"
        prompts = sum(each.prompt for each in self.recent(replica))
        return prompts + requests * mean * self.router.decode_cost

    def eviction(self, replica: int, tokens: int) -> float:
        """Oldest extents of what was sent there, by the last prompt that had them and then from its end."""
        kept: list[tuple[int, int]] = []
        for each in self.given:
            if each.replica == replica:
                sizes = [end - start for start, end in zip((0, *each.ends), each.ends, strict=False)]
                again = list(zip(each.ids, sizes, strict=True))[::-1]
                kept = [pair for pair in kept if pair[0] not in each.ids] + again
                while sum(size for _, size in kept) > self.router.cache_tokens:
                    kept.pop(0)
        excess, cost = sum(size for _, size in kept) + tokens - self.router.cache_tokens, 0.0
        recent = self.recent(replica)
        for extent, size in kept:
            if excess <= 0:
                break
            cost += size * sum(extent in each.ids for each in recent) / max(len(recent), 1)
            excess -= size
        return cost

    def may_be_chosen(
        self, request: RequestView, cached: tuple[int, ...], requests: tuple[int, ...], able: tuple[int, ...]
    ) -> set[int]:
        """What the paper allows, balancing included; growing times to first token are tested apart."""
        loads = {number: self.load(number, requests[number]) for number in able}
        lightest = {number for number in able if loads[number] == min(loads.values())}
        longest = max(cached[number] for number in able)
        if 2 * longest > request.prompt_tokens:
            holders = [number for number in able if cached[number] == longest]
            least = min(loads[number] for number in holders)
            warm = len(self.given) >= self.router.warmup * len(able)
            if warm and self.router.balance and least > self.router.balance * min(loads.values()):
                return lightest
            return {number for number in holders if loads[number] == least}
        costs = {
            number: loads[number]
            + self.eviction(number, request.prompt_tokens - cached[number])
            + request.prompt_tokens
            - cached[number]
            for number in able
        }
        return {number for number in able if costs[number] <= min(costs.values()) + 1e-6}


requests = st.tuples(
    st.integers(0, 60),  # seconds since the last
    st.lists(st.sampled_from((1, 2, 3)), max_size=3, unique=True),  # its extents, of 50 tokens
    st.integers(1, 60),  # further tokens
    st.tuples(*[st.sampled_from((0, 0, 50, 100, 150))] * 3),  # what is cached of it
    st.tuples(*[st.integers(0, 2)] * 3),  # requests in flight
    st.sets(st.integers(0, 2), min_size=1),  # who is able
    st.integers(-1, 90),  # its output at once, or none
)


@given(
    st.lists(requests, max_size=20),
    st.sampled_from((0.0, 1.0, 1.5)),
    st.sampled_from((0, 1)),
    st.sampled_from((0.0, 2.0)),
    st.sampled_from((0, 120, 300, 10_000)),
)
def test_the_choice_is_that_of_the_paper(
    stream: list[tuple[int, list[int], int, tuple[int, ...], tuple[int, ...], set[int], int]],
    balance: float,
    warmup: int,
    decode_cost: float,
    cache_tokens: int,
) -> None:
    router = Preble(100.0, balance, warmup, decode_cost, 0.0, cache_tokens)
    side, now = Side(router, 3), 0
    for id, (gap, ids, more, held, requests, who, output) in enumerate(stream):
        now = min(now + gap, 100)  # within one window where outputs are concerned
        ends = tuple(50 * (place + 1) for place in range(len(ids)))
        request = a_request(id=id, prompt_tokens=50 * len(ids) + more, ids=tuple(ids), ends=ends)
        cached = tuple(min(tokens, 50 * len(ids)) for tokens in held)
        able = tuple(sorted(who))
        side.now = now * SECOND
        allowed = side.may_be_chosen(request, cached, requests, able)
        chosen = side.send(request, cached=cached, requests=requests, able=able, at_s=now)
        assert chosen in allowed
        if output >= 0:
            side.end(request, chosen, output)


@pytest.mark.parametrize(("cached", "exploits"), [(500, False), (501, True)])
def test_more_than_half_of_the_prompt_must_be_cached_to_exploit_it(cached: int, exploits: bool) -> None:
    side = Side(Preble(warmup=0, balance=0.0), 2)
    request = a_request(prompt_tokens=1000, ids=(1, 2), ends=(500, 501))
    assert side.send(request, cached=(cached, 0), requests=(1, 0)) == (0 if exploits else 1)


def test_what_was_given_counts_until_the_window_has_passed() -> None:
    side = Side(Preble(window_s=60.0), 2)
    first = side.send(a_request(prompt_tokens=900, ids=()))
    assert side.send(a_request(id=1, prompt_tokens=100, ids=()), at_s=30) == 1 - first
    assert side.send(a_request(id=2, prompt_tokens=100, ids=()), at_s=60) == 1 - first  # 100 against 900
    assert side.send(a_request(id=3, prompt_tokens=100, ids=()), at_s=61) == first  # nothing against 200


def test_decoding_is_weighed_by_the_outputs_seen_on_a_replica() -> None:
    """3 requests that make 10 tokens each cost less than 1 that makes 100."""
    side = Side(Preble(decode_cost=1.0), 2)
    for replica, output in ((0, 100), (1, 10)):
        request = a_request(id=replica, prompt_tokens=50, ids=())
        side.send(request, able=(replica,))
        side.end(request, replica, output)
    assert side.send(a_request(id=9, prompt_tokens=5, ids=()), requests=(1, 3)) == 1
    assert side.send(a_request(id=10, prompt_tokens=5, ids=()), requests=(0, 3)) == 0


@pytest.mark.parametrize(("tokens", "chosen"), [(200, {1}), (100, {0, 1})])
def test_a_popular_prefix_is_dear_to_evict(tokens: int, chosen: set[int]) -> None:
    """Both replicas computed 300 tokens and are full with 200; on 0 two of three requests had the extent 1.

    For 100 tokens each drops one extent that a third of its requests had; for 200 replica 0 would drop the extent 1.
    """
    seen = set()
    for key in range(20):
        side = Side(Preble(decode_cost=0.0, cache_tokens=200), 2)
        for id, (replica, extent) in enumerate(((0, 1), (0, 2), (0, 1), (1, 3), (1, 4), (1, 5))):
            side.send(a_request(id=id, prompt_tokens=100, ids=(extent,)), able=(replica,))
        assert side.eviction(0, 200) == 100 * 1 / 3 + 100 * 2 / 3
        assert side.eviction(1, 200) == 100 * 1 / 3 + 100 * 1 / 3
        seen.add(side.send(a_request(id=100 + key, prompt_tokens=tokens, ids=(9,))))
    assert seen == chosen


@pytest.mark.parametrize("able", [(), (0, 2)])
def test_what_is_cached_need_not_be_computed(able: tuple[int, ...]) -> None:
    """Explored, for less than half is cached; 0 has 40 tokens more to do, and 50 more of the prompt cached."""
    side = Side(Preble(decode_cost=0.0), 3)
    for replica, tokens in enumerate((140, 300, 100)):
        side.send(a_request(id=replica, prompt_tokens=tokens, ids=()), able=(replica,))
    request = a_request(id=9, prompt_tokens=200, ids=(1,), ends=(90,))
    assert side.send(request, cached=(90, 0, 40), able=able) == 0


@pytest.mark.parametrize(
    ("balance", "warmup", "spreads"), [(1.5, 1, True), (0.0, 1, False), (3.0, 1, False), (1.5, 2, False)]
)
def test_a_prefix_on_a_busy_replica_is_not_exploited(balance: float, warmup: int, spreads: bool) -> None:
    """L is 250 and 100; two requests were routed to two replicas."""
    side = Side(Preble(decode_cost=0.0, balance=balance, warmup=warmup), 2)
    side.send(a_request(id=0, prompt_tokens=250, ids=(1,)), able=(0,))
    side.send(a_request(id=1, prompt_tokens=100, ids=()), able=(1,))
    assert side.send(a_request(id=2, prompt_tokens=260, ids=(1,), ends=(250,)), cached=(250, 0)) == (
        1 if spreads else 0
    )


def waits(*seconds: float) -> Side:
    """A prefix on replica 0 whose requests, 20 s apart, waited so long for their first tokens."""
    side = Side(Preble(decode_cost=1.0, balance=0.0, window_s=100.0), 3)
    for id, wait in enumerate(seconds):
        side.send(a_request(id=id, prompt_tokens=110, ids=(1,), ends=(100,)), cached=(100, 0, 0), at_s=20 * id)
        side.router.observe(FirstToken(side.now + round(wait * SECOND), id, 0))
    return side


@pytest.mark.parametrize(
    ("seconds", "spreads"),
    [((1, 1, 1, 2, 2), True), ((1, 1, 1, 2, 1), False), ((1, 1, 1, 1, 2), False), ((2, 2, 1, 1, 1), False)],
)
def test_a_prefix_whose_first_tokens_come_ever_later_spreads_once(seconds: tuple[float, ...], spreads: bool) -> None:
    """Asked at second 95 with 100 s of history: the halves part at 45, so three waits are old and two new."""
    side = waits(*seconds)
    again = [a_request(id=10 + n, prompt_tokens=110, ids=(1,), ends=(100,)) for n in range(2)]
    first = side.send(again[0], cached=(100, 0, 0), requests=(5, 3, 1), at_s=95)
    assert first == (2 if spreads else 0)
    assert side.send(again[1], cached=(100, 0, 0), requests=(5, 3, 1), at_s=95) == 0


def test_a_prefix_does_not_leave_the_replica_with_the_least_to_do() -> None:
    side = waits(1, 1, 1, 2, 2)
    first, second = (a_request(id=10 + n, prompt_tokens=110, ids=(1,), ends=(100,)) for n in range(2))
    assert {side.send(first, cached=(100, 0, 0), able=able, at_s=95) for able in ((0,), (0,))} == {0}
    assert side.send(second, cached=(100, 0, 0), requests=(5, 3, 1), at_s=95) == 2


def test_a_spread_prefix_is_exploited_where_less_is_to_do() -> None:
    side = Side(Preble(), 3)
    request = a_request(prompt_tokens=110, ids=(1,), ends=(100,))
    assert side.send(request, cached=(100, 100, 0), requests=(5, 3, 0)) == 1


def test_replicas_heavy_with_decoding_are_explored_first_where_that_is_set() -> None:
    """1 computed the least and decodes the most: by cost the last choice, by ratio the first."""
    for ratio, chosen in ((0.0, 2), (2.0, 1)):
        side = Side(Preble(decode_cost=1.0, decode_ratio=ratio), 3)
        for replica, tokens in enumerate((400, 100, 400)):
            side.send(a_request(id=replica, prompt_tokens=tokens, ids=()), able=(replica,))
        assert side.send(a_request(id=9, prompt_tokens=50, ids=()), requests=(3, 20, 2)) == chosen


def test_the_decode_half_of_a_pair_goes_where_least_is_decoded() -> None:
    pair = [a_replica(role="prefill", requests=9), a_replica(role="decode", requests=2), a_replica(role="decode")]
    router, request = Preble(), a_request()
    assert router.route(request, a_cluster(*pair), a_chance()).replica == 0
    assert router.route(request, a_cluster(*pair, stage="decode"), a_chance()).replica == 2


def test_equals_share_alike() -> None:
    counts: Counter[int] = Counter()
    for key in range(3000):
        cluster = a_cluster(a_replica(requests=9), *[a_replica(requests=2) for _ in range(3)])
        counts[Preble().route(a_request(id=key), cluster, a_chance(key=key)).replica] += 1
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 850


def test_nothing_is_kept_of_requests_that_are_over() -> None:
    side = Side(Preble(window_s=10.0), 2)
    for id in range(4):
        side.send(a_request(id=id, prompt_tokens=110, ids=(1,), ends=(100,)), cached=(100, 0))
    router = side.router
    for event in (Finished(5, 0, 3), Cancelled(5, 1, "left"), Refused(5, 2, 0, "full"), FirstToken(5, 3, 0)):
        router.observe(event)
    assert set(router._flights) == {3}
    router.observe(Finished(6, 77, 3))  # of a request that it never saw
    side.send(a_request(id=9, prompt_tokens=1, ids=()), at_s=30)
    window = router._window
    assert len(window._given) == 1 and not window._ended and not any(window._hits)
    assert sum(window.prompts) == 1


def test_outputs_are_learned_where_requests_ended() -> None:
    side = Side(Preble(), 2)
    chosen = side.send(a_request(id=0, prompt_tokens=100, ids=()))
    side.router.observe(Moved(5, 0, chosen, 1 - chosen))
    side.router.observe(Finished(9, 0, 7))
    assert side.router._window.decodes[1 - chosen] == 7 * 200
    assert side.router._window.decodes[chosen] == 45 * 200


def test_is_a_router_whatever_its_parameters() -> None:
    check_router(lambda: Preble(1e-3, 1.0, 0, 5.0, 1.5, 700))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window_s": -1.0}, "window_s -1.0 is negative; give 0 or more"),
        ({"balance": 0.5}, "balance 0.5 is below 1; give 0 for never"),
    ],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("router", "preble", parameters)
