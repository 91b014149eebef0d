"""How right the prefix index is, request by request, against what engines say was cached."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.prefix_index import PrefixIndex
from poise.core.policy import Router
from poise.live.gateway.stats import Stats
from poise.live.http import Server
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.gateway.fakes import Bench

IDS = (11, 12, 13)
ENDS = (4, 8, 10)


class Counted:
    """A bench whose ended requests are counted."""

    def __init__(self, router: Router | None = None) -> None:
        self.bench = Bench(2, router or PrefixCache())
        self.stats = Stats(self.bench.world, Server(lambda exchange: None))
        self.bench.world._watcher = self.stats.ended

    def ask(self, ids: int, cached: int | None, prompt: int = 10) -> None:
        """A prompt of so many extents, its length as the engine counts it, and what that says was cached."""
        self.bench.ask(stream=False, ids=IDS[:ids], ends=ENDS[:ids])
        usage = {"prompt_tokens": prompt, "completion_tokens": 1}
        details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
        (call,) = self.bench.calls
        call.answer(json.dumps({"choices": [], "usage": usage | details}).encode())

    @property
    def counters(self) -> dict[str, float]:
        """Each counter's sum over engines."""
        lines = [
            line.split()
            for line in b"".join(self.stats.page()).decode().splitlines()
            if line.startswith("poise_prefix")
        ]
        sums: dict[str, float] = {}
        for name, value in lines:
            name = name.partition("{")[0].removeprefix("poise_prefix_").removesuffix("_tokens_total")
            sums[name] = sums.get(name, 0.0) + float(value)
        return {name: value for name, value in sums.items() if "created" not in name}


def test_a_request_is_not_believed_to_find_itself() -> None:
    counted = Counted()
    counted.ask(3, 0)
    assert counted.counters == {"predicted": 0, "hit": 0, "agreed": 0}
    counted.ask(3, 8)
    assert counted.counters == {"predicted": 10, "hit": 8, "agreed": 8}
    counted.ask(2, 10)
    assert counted.counters == {"predicted": 18, "hit": 18, "agreed": 16}


def test_guessed_tokens_are_counted_as_the_engine_counts_them() -> None:
    counted = Counted()
    counted.ask(2, 0, prompt=100)
    counted.ask(2, 50, prompt=100)
    assert counted.counters == {"predicted": 80, "hit": 50, "agreed": 50}


def test_an_engine_that_tells_nothing_is_not_judged() -> None:
    counted = Counted()
    counted.ask(3, None)
    counted.ask(3, None)
    assert set(counted.counters.values()) == {0.0}


def test_nothing_is_noted_where_prefixes_are_not_known() -> None:
    counted = Counted(LeastRequests())
    counted.ask(3, 5)
    assert counted.bench.control.state.hits is None and counted.counters == {}


def test_nothing_is_kept_of_requests_that_are_over() -> None:
    counted = Counted()
    for _ in range(3):
        counted.ask(3, 1)
    _, exchange, _ = counted.bench.ask(ids=IDS, ends=ENDS)
    exchange.leave()
    _, _, proxied = counted.bench.ask(ids=IDS, ends=ENDS)
    counted.bench.calls[0].fail()
    assert list(counted.bench.control.state.hits or ()) == [proxied.view.id]
    counted.bench.calls[0].fail()
    assert counted.bench.control.state.hits == {}


CHAINS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=30)


@given(CHAINS, st.lists(st.integers(0, 5), unique=True, max_size=6))
def test_one_replicas_prefix_is_its_part_of_the_match(changes: list[tuple[int, int, bool]], ids: list[int]) -> None:
    index = PrefixIndex(3)
    for replica, extent, entered in changes:
        (index.add if entered else index.remove)(replica, extent)
    ends = [7 * place for place in range(1, len(ids) + 1)]
    assert [index.held(replica, ids, ends) for replica in range(3)] == index.match(ids, ends)
