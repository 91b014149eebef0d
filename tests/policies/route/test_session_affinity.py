"""Session affinity: one replica a session, whose loss moves its own sessions alone; what a request without one does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.request import RequestView
from poise.policies.find import build
from poise.policies.route.session_affinity import SessionAffinity
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


def home(
    request: RequestView, loads: list[int], able: tuple[int, ...] = (), router: SessionAffinity | None = None
) -> int:
    cluster = a_cluster(*[a_replica(requests=load, able=n in able or not able) for n, load in enumerate(loads)])
    return (router or SessionAffinity()).route(request, cluster, a_chance(key=request.id)).replica


@given(st.lists(st.integers(0, 50), min_size=8, max_size=8), st.integers(0, 100), st.integers(0, 100))
def test_a_session_stays_whatever_the_load_and_the_request(loads: list[int], session: int, id: int) -> None:
    first = a_request(session=session, ids=())
    later = a_request(id=id, session=session, tenant=id % 3, prompt_tokens=900)
    assert home(later, loads) == home(first, [0] * 8)


def test_sessions_are_spread() -> None:
    router = SessionAffinity()
    counts = Counter(home(a_request(session=session), [0] * 4, router=router) for session in range(2000))
    assert all(350 < counts[replica] < 650 for replica in range(4))


def test_a_request_without_session_sticks_to_its_tenant_then_to_its_head_then_to_none() -> None:
    loads = [9, 9, 9, 0]
    by_tenant = {home(a_request(id=id, tenant=5), loads) for id in range(40)}
    assert by_tenant == {home(a_request(session=5), loads)}
    assert {home(a_request(id=id), loads) for id in range(40)} == {3}  # the least busy
    sticky = SessionAffinity(prefix_tokens=100)
    alike = [a_request(id=id, ids=(7, 100 + id), ends=(100, 200), prompt_tokens=250) for id in range(40)]
    assert len({home(each, loads, router=sticky) for each in alike}) == 1
    assert {home(a_request(id=id, ids=()), loads, router=sticky) for id in range(40)} == {3}


def test_equally_busy_replicas_share_the_sessions_that_stick_to_none() -> None:
    counts = Counter(home(a_request(id=id), [2, 2, 2, 9]) for id in range(3000))
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 850


def test_only_the_sessions_of_a_replica_that_goes_move() -> None:
    sessions = [a_request(session=session) for session in range(300)]
    router = SessionAffinity()
    before = [home(each, [0] * 6, router=router) for each in sessions]
    after = [home(each, [0] * 6, able=(0, 1, 2, 4, 5), router=router) for each in sessions]
    moved = {old for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {3}
    assert len({new for old, new in zip(before, after, strict=True) if old == 3}) == 5  # not all to one neighbour


def test_a_replica_that_joins_takes_its_share_of_the_sessions() -> None:
    sessions = [a_request(session=session) for session in range(1000)]
    router = SessionAffinity()
    before = [home(each, [0] * 4, router=router) for each in sessions]
    after = [home(each, [0] * 5, router=router) for each in sessions]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {4}
    assert 120 < len(moved) < 280


@pytest.mark.parametrize(
    ("overload", "load", "stays"), [(1.0, 5, True), (1.0, 6, False), (1.5, 9, True), (1.5, 10, False), (0.0, 99, True)]
)
def test_overload_lets_a_session_pass_on(overload: float, load: int, stays: bool) -> None:
    """Three others with 5 each: the bound is ⌈overload · (15 + load + 1) / 4⌉, so 6 for 6 at 1.0, 10 for 10 at 1.5."""
    request = a_request(session=1)
    first = home(request, [0] * 4)
    second = home(request, [0] * 4, able=tuple(number for number in range(4) if number != first))
    loads = [5] * 4
    loads[first] = load
    assert home(request, loads, router=SessionAffinity(overload)) == (first if stays else second)


def test_is_a_router_whatever_its_parameters() -> None:
    check_router(lambda: SessionAffinity(1.5, 100, 200))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"overload": 0.5}, "overload 0.5 is below 1; give 0 for none"),
        ({"prefix_tokens": -1}, "prefix_tokens -1 is negative"),
        ({"points": 0}, "points 0 is below 1"),
    ],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("router", "session_affinity", parameters)
