"""Tries: how often a request is sent at most, and what becomes of one whose replicas cannot be reached."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Dispatch, Refuse, Wake
from poise.core.control.attempts import FIRST_WAIT, LONGEST_WAIT, Attempts
from poise.core.control.control import Control
from poise.core.event import Arrived, Draining, Refused, ReplicaJoined, Tick
from poise.core.spec import ReplicaSpec
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from tests.core.control.test_control_gate import gate, request


def unreached(at: int, replica: int) -> Refused:
    return Refused(at, 0, replica, "no connection", True, same=True, sent=False)


def test_who_cannot_reach_any_replica_is_held_and_asks_again_ever_more_rarely() -> None:
    control = gate(2, tries=1)
    control.handle(Arrived(0, request(0)))
    now, waits = 0, []
    for _ in range(8):
        assert [type(each) for each in control.handle(unreached(now, 0))] == [Dispatch]
        (wake,) = control.handle(unreached(now, 1))
        assert isinstance(wake, Wake) and list(control.held) and not control.flights
        assert control.handle(Tick(wake.at - 1)) == [wake], "not before"
        waits.append(wake.at - now)
        now = wake.at
        assert control.handle(Tick(now)) == [Dispatch(0, 0, 0, True)]
    assert waits == [min(FIRST_WAIT << number, LONGEST_WAIT) for number in range(8)]


def test_a_replica_that_joins_ends_the_wait() -> None:
    control = gate(1)
    control.handle(Arrived(0, request(0)))
    control.handle(unreached(1, 0))
    assert control.handle(ReplicaJoined(2, 0)) == [Dispatch(0, 0, 0, True)]


def test_a_connection_that_was_closed_is_a_try_and_excludes_no_engine() -> None:
    control = gate(1, tries=2)
    control.handle(Arrived(0, request(0)))
    assert control.handle(Refused(1, 0, 0, "closed", True, same=True)) == [Dispatch(0, 0, 0, True)]
    assert control.handle(Refused(2, 0, 0, "closed", True, same=True)) == (Refuse(0, "closed"),)
    assert not control.tried and not control.held


def test_who_has_no_replica_left_but_tries_is_not_held_for_good() -> None:
    """Replica 0 broke it off, 1 goes away: it begins anew with 0, as long as it has tries."""
    control = gate(2, tries=3)
    control.handle(Arrived(0, request(0)))
    assert control.handle(Refused(1, 0, 0, "cut", True)) == [Dispatch(0, 1, 1, True)]
    control.handle(Draining(2, 1))
    (wake,) = control.handle(unreached(3, 1))
    assert wake == Wake(3 + FIRST_WAIT)
    assert control.handle(Tick(wake.at)) == [Dispatch(0, 0, 0, True)]
    assert control.handle(Refused(9, 0, 0, "cut", True)) == (Refuse(0, "cut"),)


def test_one_that_is_refused_while_none_is_up_waits_for_one() -> None:
    control = gate(1, tries=2)
    control.handle(Arrived(0, request(0)))
    control.handle(Draining(1, 0))
    assert control.handle(Refused(2, 0, 0, "reset", True)) == [] and list(control.held)
    assert control.handle(ReplicaJoined(3, 0)) == [Wake(3 + FIRST_WAIT)]


ENDS = st.sampled_from(["unreached", "closed", "cut", "drain", "join", "tick"])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.lists(st.tuples(ENDS, st.integers(0, 2)), max_size=60))
def test_no_request_is_read_more_often_than_allowed(replicas: int, tries: int, ends: list[tuple[str, int]]) -> None:
    control = Control(Policies(router=LeastRequests()), [ReplicaSpec()] * replicas, tries=tries)
    actions = list(control.handle(Arrived(0, request(0))))
    read = refusals = now = 0
    for end, replica in ends:
        now += FIRST_WAIT
        flight = control.flights.get(0)
        if end in ("drain", "join") and replica < replicas:
            actions += control.handle((Draining if end == "drain" else ReplicaJoined)(now, replica))
        elif flight is not None and end in ("unreached", "closed", "cut"):
            read += end != "unreached"
            actions += control.handle(
                Refused(now, 0, flight.replica, end, True, same=end != "cut", sent=end != "unreached")
            )
        else:
            actions += control.handle(Tick(now))
        refusals = sum(type(each) is Refuse for each in actions)
        assert bool(control.flights) + bool(control.held) + refusals == 1, "sent, held, or told"
        assert read <= tries and (not control.tried or control.tried[0].sent == read < tries)


@pytest.mark.parametrize("same", [False, True])
def test_who_is_left(same: bool) -> None:
    tried = Attempts()
    tried.refused(Refused(0, 0, 1, "", True, same=same, sent=False))
    assert tried.left([0, 1, 2]) == [0, 2] and tried.unreached is same and not tried.sent
    tried.wait(0)
    assert tried.left([0, 1, 2]) == [0, 1, 2] and not tried.unreached
