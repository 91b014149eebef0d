"""SAGA's cache: how long tools take, what goes on, and which program is evicted; and Bélády's rule beside it."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from poise.core.errors import PolicyError
from poise.core.request import NO_TOOL, Sequence
from poise.core.units import NEVER, SECOND, seconds
from poise.policies.cache.belady import Belady
from poise.policies.cache.saga import LogNormal, Saga
from poise.testing import a_lane, a_request


def turn(cache: Saga | Belady, session: int, tool: int, ids: tuple[int, ...] = ()) -> Sequence:
    """A request of a session arrives and ends, at once."""
    request = a_request(id=session, session=session, ids=ids or (session,), prompt_tokens=100)
    if isinstance(cache, Saga):
        cache.returned(request, 0)
    sequence = Sequence(request, 1, tool=tool)
    cache.cache(request, sequence, a_lane())
    return sequence


def test_the_95th_percentile_is_that_of_the_durations() -> None:
    lengths = LogNormal()
    some = np.random.default_rng(1).lognormal(1.0, 0.5, 20_000)
    for each in some:
        lengths.add(float(each), 0.001)
    assert lengths.p95 == pytest.approx(float(np.quantile(some, 0.95)), rel=0.1)
    one = LogNormal()
    one.add(exp(2.0), 0.1)
    assert one.p95 == pytest.approx(exp(2.0)), "one duration has no spread"


def test_kv_is_kept_for_the_tools_95th_percentile_and_not_for_who_has_ended() -> None:
    cache = Saga(cold=2, cap_s=10.0)
    for session in range(2):
        request = a_request(id=session, session=session)
        sequence = Sequence(request, 1, tool=4)
        assert cache.cache(request, sequence, a_lane()) == 2 * SECOND, "not known yet"
        cache.returned(request, 3 * SECOND)
    again = a_request(id=9, session=9)
    assert seconds(cache.cache(again, Sequence(again, 1, tool=4), a_lane())) == pytest.approx(3.0)
    assert cache.cache(again, Sequence(again, 1, tool=NO_TOOL), a_lane()) == 0
    assert Saga(ttl=False).cache(again, Sequence(again, 1, tool=4), a_lane()) == 0


def test_programs_that_have_ended_go_first_but_not_what_others_share() -> None:
    cache = Saga()
    ended, goes_on = turn(cache, 1, NO_TOOL, (7, 8)), turn(cache, 2, 0, (7, 9))
    assert cache.rank(ended, 8, 10) < cache.rank(goes_on, 9, 10)
    assert cache.rank(ended, 7, 10) == cache.rank(goes_on, 7, 10), "the head is shared with one that goes on"
    assert cache.rank(goes_on, -1, 10) == cache.rank(ended, 8, 10), "blocks without identity are of no use"


def test_of_two_that_go_on_the_larger_and_the_older_go_first() -> None:
    cache = Saga(size=0.2, recency=0.0)
    small, large = turn(cache, 1, 0), Sequence(a_request(id=2, session=2, prompt_tokens=5000), 1, tool=0)
    cache.returned(large.request, 0)
    assert cache.rank(large, 2, 5) < cache.rank(small, 1, 5)
    aged = Saga(size=0.0)
    first = turn(aged, 1, 0)
    early = aged.rank(first, 1, 5)
    aged.returned(a_request(session=3), 60 * SECOND)
    assert aged.rank(first, 1, 5) == pytest.approx(early + 0.3)


def test_beladys_rule_evicts_the_furthest_next_use() -> None:
    cache = Belady()
    with pytest.raises(PolicyError, match="only a simulation"):
        turn(cache, 1, 0)
    cache.reveal(lambda request: {1: 50, 2: 10, 3: -1}[request])
    far, near, never = (turn(cache, session, 0) for session in (1, 2, 3))
    order = sorted((cache.rank(each, each.id, 5), each.id) for each in (far, near, never))
    assert [number for _, number in order] == [3, 1, 2]
    assert cache.rank(near, -1, 5) == -NEVER


@pytest.mark.parametrize("wrong", [{"reuse": -1.0}, {"horizon_s": 0.0}, {"cap_s": -1.0}, {"weight": 0.0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="or more"):
        Saga(**wrong)  # type: ignore[arg-type]
