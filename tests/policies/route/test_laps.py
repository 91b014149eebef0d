"""Pools of short and of long prompts: who goes where, and when a replica changes its pool."""

from __future__ import annotations

import pytest

from poise.core.units import ps
from poise.policies.route.laps import Laps
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


def cluster(*queued: int, at: float = 0.0):  # type: ignore[no-untyped-def]
    return a_cluster(*[a_replica(queued_tokens=each, prefill_rate=10_000.0) for each in queued], now=ps(at))


def sent(router: Laps, tokens: int, *queued: int, at: float = 0.0) -> int:
    return router.route(a_request(prompt_tokens=tokens), cluster(*queued, at=at), a_chance()).replica


def split(router: Laps) -> Laps:
    """A period in which a quarter of the tokens was of short prompts, on four replicas."""
    for tokens in (200, 200, 1200):
        sent(router, tokens, 0, 0, 0, 0)
    return router


def test_all_serve_both_in_the_first_period() -> None:
    assert sent(Laps(), 100, 9, 9, 0, 9) == sent(Laps(), 5000, 9, 9, 0, 9) == 2


def test_pools_are_by_the_tokens_seen_and_the_least_loaded_of_one_is_taken() -> None:
    router = split(Laps(gamma=0.0))
    assert sent(router, 200, 50, 0, 0, 0, at=1.0) == 0, "the only short one, though others are idle"
    assert sent(router, 1200, 0, 70, 60, 80, at=1.0) == 2


def test_a_pool_in_need_gets_the_least_loaded_of_the_other_and_then_none_for_a_while() -> None:
    router = split(Laps(gamma=0.0))
    sent(router, 200, 0, 0, 0, 0, at=1.0)
    loads = (30_000, 5, 3, 9)
    assert sent(router, 200, *loads, at=2.0) == 2, "joined the short pool"
    sent(router, 200, *loads, at=3.0)
    assert router._short == {0, 2}, "the next move waits two seconds"
    sent(router, 200, *loads, at=4.0)
    assert router._short == {0, 1, 2}
    sent(router, 200, *loads, at=9.0)
    assert router._short == {0, 1, 2}, "each pool keeps a replica"


def test_pressure_is_of_waits_of_those_beyond_the_limit_and_of_idle_ones() -> None:
    router = Laps(ttft_s=0.5)
    assert router.pressure([0, 1, 2, 3], cluster(0, 0, 10_000, 20_000)) == pytest.approx(2.0 / 0.5 + 0.5 - 0.5)


def test_what_it_reads_is_what_it_needs() -> None:
    check_router(Laps)


@pytest.mark.parametrize("given", [{"short_tokens": 0}, {"ttft_s": 0.0}, {"margin": -1.0}])
def test_what_cannot_be(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="correct them"):
        Laps(**given)  # type: ignore[arg-type]
