"""Hedged requests in Control: when a copy goes out, and which of the two stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from poise.core.action import Abort, Action, Dispatch, Hedge, Hold, Move, Refuse, Wake
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import Cancelled, Failed, Finished, FirstToken, Refused, ReplicaLeft, ReplicaLost, Tick
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from tests.core.scripted import a_control, a_request, arrive, at_most


class Last:
    """A copy goes to the last that is able, after 10; `times` it says no before."""

    needs = ("requests",)

    def __init__(self, times: int = 0, choose: int | None = None) -> None:
        self.times = times
        self.choose = choose
        self.calls: list[tuple[int, tuple[int, ...]]] = []

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        return 10

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        self.calls.append((replica, tuple(able)))
        self.times -= 1
        return None if self.times >= 0 else able[-1] if self.choose is None else self.choose


def hedged(replicas: int = 3, **given: Any) -> Control:
    """Request 0 is at replica 0, with a copy at the last."""
    control = a_control(replicas=replicas, hedge=Last(), **given)
    assert arrive(control, 0) == [Dispatch(0, 0, 0, True), Wake(10)]
    assert control.handle(Tick(10)) == [Hedge(0, replicas - 1)]
    return control


def hedger_of(control: Control) -> Any:
    assert control.hedges is not None
    return control.hedges.hedger


def test_a_copy_counts_at_both_replicas_until_one_gives_a_first_token() -> None:
    control = hedged()
    assert list(control.state.requests) == [1, 0, 1]
    assert control.handle(FirstToken(11, 0, 2)) == [Abort(0, 0)]
    assert list(control.state.requests) == [0, 0, 1]
    flight = control.flights[0]
    assert (flight.replica, flight.decode, flight.target, flight.hedged) == (2, 2, -1, False)
    assert control.handle(Finished(12, 0, 3)) == []
    assert list(control.state.requests) == [0, 0, 0] and not control.flights


def test_the_first_one_may_win_too() -> None:
    control = hedged()
    assert control.handle(FirstToken(11, 0, 0)) == [Abort(0, 2)]
    assert control.flights[0].place == 0 and list(control.state.requests) == [1, 0, 0]


@pytest.mark.parametrize("gone", [0, 2])
@pytest.mark.parametrize("what", [Refused, Failed, ReplicaLost, ReplicaLeft])
def test_when_one_place_drops_out_the_other_goes_on_alone(gone: int, what: Any) -> None:
    control = hedged()
    event = what(11, gone) if what in (ReplicaLost, ReplicaLeft) else what(11, 0, gone, "broken")
    assert control.handle(event) == []
    left = 2 - gone
    assert control.flights[0].place == left and control.flights[0].target < 0
    assert control.state.requests[left] == 1 and sum(control.state.requests) == 1
    assert control.handle(FirstToken(12, 0, left)) == []


def test_both_refuse() -> None:
    control = hedged()
    control.handle(Refused(11, 0, 2, "full", True))
    assert control.handle(Refused(12, 0, 0, "full", True)) == [Refuse(0, "full")]
    assert not control.flights and not control.tried


def test_a_third_is_tried_when_both_refused_and_tries_are_left() -> None:
    control = hedged(tries=3)
    control.handle(Refused(11, 0, 0, "full", True))
    control.router.rule = lambda request, cluster: _route(cluster)
    assert control.handle(Refused(12, 0, 2, "full", True)) == [Dispatch(0, 1, 1, True), Wake(22)]


def _route(cluster: ClusterView) -> Any:
    from poise.core.action import Route

    return Route(cluster.able(a_request(0))[0])


def test_both_are_stopped_when_the_client_leaves() -> None:
    control = hedged()
    assert control.handle(Cancelled(11, 0, "left")) == [Abort(0, 0), Abort(0, 2)]
    assert not any(control.state.requests)


def test_a_request_with_a_first_token_in_time_gets_no_copy() -> None:
    control = a_control(replicas=2, hedge=Last())
    arrive(control, 0)
    control.handle(FirstToken(9, 0, 0))
    assert control.handle(Tick(10)) == [] and not hedger_of(control).calls


def test_a_request_without_a_copy_is_considered_again() -> None:
    control = a_control(replicas=2, hedge=Last(times=2))
    arrive(control, 0)
    assert control.handle(Tick(10)) == [Wake(20)]
    assert control.handle(Tick(20)) == [Wake(30)]
    assert control.handle(Tick(30)) == [Hedge(0, 1)]
    assert control.handle(Tick(40)) == [], "there is one copy, no third"


def test_one_wake_at_a_time_is_requested() -> None:
    control = a_control(replicas=2, hedge=Last())
    assert arrive(control, 0) == [Dispatch(0, 0, 0, True), Wake(10)]
    assert arrive(control, 1, at=3) == [Dispatch(1, 0, 0, True)]
    assert control.handle(Tick(10)) == [Hedge(0, 1), Wake(13)]


def test_admissions_narrow_who_may_get_a_copy() -> None:
    class Not2:
        needs = ()

        def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Hold:
            return [replica for replica in able if replica != 2] if cluster.now < 20 else Hold("no more")

    control = a_control(replicas=3, hedge=Last(times=1), admission=(Not2(),))
    arrive(control, 0)
    control.handle(Tick(10))
    assert hedger_of(control).calls == [(0, (1,))]
    assert control.handle(Tick(20)) == [Wake(30)] and len(hedger_of(control).calls) == 1


def test_a_copy_elsewhere_than_the_able_is_an_error() -> None:
    control = a_control(replicas=2, hedge=Last(choose=0))
    arrive(control, 0)
    with pytest.raises(PolicyError, match=r"copy of request 0 to replica 0, which is not among the able \(1,\)"):
        control.handle(Tick(10))


def test_pairs_and_who_has_a_home_are_left_alone() -> None:
    pair = a_control(replicas=[ReplicaSpec(role="prefill"), ReplicaSpec(role="decode")], hedge=Last())
    assert arrive(pair, 0) == [Dispatch(0, 0, 1, True)]
    control = a_control(replicas=2, hedge=Last())
    from poise.core.event import Arrived

    assert list(control.handle(Arrived(0, a_request(0, home=0)))) == [Dispatch(0, 0, 0, True)]


def test_what_moves_is_not_hedged_and_what_is_hedged_does_not_move() -> None:
    class Mover:
        needs = ("flights",)

        def __init__(self) -> None:
            self.moves: list[Move] = []

        def move(self, cluster: ClusterView) -> list[Move]:
            assert not self.moves or cluster.flights(0)[0].target == 2
            return self.moves

    control = hedged(mover=Mover())
    control.mover.moves = [Move(0, 0, 1)]  # type: ignore[union-attr]
    with pytest.raises(PolicyError, match="moving to replica 2 already"):
        control.handle(Tick(12))
    control = a_control(replicas=3, hedge=Last(), mover=Mover())
    arrive(control, 0)
    control.in_flight.move(control.flights[0], 1)
    control.mover = None
    assert control.handle(Tick(10)) == [Wake(20)] and not hedger_of(control).calls


def test_who_had_tokens_from_a_lost_replica_is_not_hedged() -> None:
    """No first token would ever settle it."""
    control = a_control(replicas=2, hedge=Last())
    arrive(control, 0)
    control.handle(FirstToken(5, 0, 0))
    assert control.handle(ReplicaLost(6, 0)) == [Dispatch(0, 1, 1, True)]
    control.handle(Finished(9, 0, 4))
    assert control.hedges is not None and not control.hedges._begun


def test_who_is_held_goes_where_a_copy_was_stopped() -> None:
    control = a_control(at_most(1), 2, hedge=Last())
    actions: list[Action] = arrive(control, 0)
    control.handle(Tick(10))
    assert arrive(control, 1, at=11) == []
    assert control.handle(Refused(12, 0, 1, "full", True)) == [Dispatch(1, 1, 1, True), Wake(22)]
    assert actions
