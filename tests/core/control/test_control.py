"""Control: events in, actions out; the order of the held, clients that leave and engines that refuse."""

from __future__ import annotations

import pytest

from poise.core.action import Abort, Dispatch, Hold, Refuse, Reject, Route, Wake
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.event import (
    Cancelled,
    Draining,
    Finished,
    FirstToken,
    Refused,
    ReplicaJoined,
    Reported,
    Tick,
)
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from poise.policies import Policies
from tests.core.scripted import a_control, arrive, at_most, held

# The common way -------------------------------------------------------------------------------------------------------


def test_a_request_is_sent_counted_and_forgotten() -> None:
    control = a_control(replicas=2)
    assert arrive(control, 0, 1) == [Dispatch(0, 0, 0, True), Dispatch(1, 0, 0, True)]
    assert list(control.state.requests) == [2, 0]
    assert control.handle(FirstToken(1, 0, 0)) == ()
    assert control.handle(Finished(2, 0, 5)) == ()
    assert list(control.state.requests) == [1, 0]
    assert set(control.flights) == {1}


def test_a_rejected_request_is_refused_with_the_routers_reason() -> None:
    control = a_control(lambda request, cluster: Reject("over quota"))
    assert arrive(control, 4) == [Refuse(4, "over quota")]
    assert not control.flights and not control.held


def test_a_request_that_no_replica_can_ever_take_is_refused_without_the_router() -> None:
    control = a_control(lambda request, cluster: pytest.fail("routed"), [ReplicaSpec(capacity_tokens=10)])
    (action,) = arrive(control, 0)
    assert isinstance(action, Refuse)
    assert "10 tokens" in action.reason


def test_chance_is_keyed_by_the_request() -> None:
    """What the router draws does not depend on who came before."""

    class Drawing:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            return Route(chance.pick(cluster.able(request)))

    controls = [Control(Policies(router=Drawing()), [ReplicaSpec()] * 7, seed=3) for _ in range(2)]
    forward = {action.request: action.replica for action in arrive(controls[0], *range(20))}
    backward = {action.request: action.replica for action in arrive(controls[1], *reversed(range(20)))}
    assert forward == backward
    assert len(set(forward.values())) > 1


# The held -------------------------------------------------------------------------------------------------------------


def test_no_request_overtakes_a_held_one() -> None:
    control = a_control(at_most(1))
    assert arrive(control, 0, 1, 2, 3) == [Dispatch(0, 0, 0, True)]
    assert held(control) == [1, 2, 3]
    assert control.handle(Finished(1, 0, 1)) == [Dispatch(1, 0, 0, True)]
    assert held(control) == [2, 3], "the scan stops at the first Hold"
    assert control.handle(Finished(2, 1, 1)) == [Dispatch(2, 0, 0, True)]


def test_one_that_could_go_waits_behind_one_that_is_held() -> None:
    control = a_control(lambda request, cluster: Hold("not yet") if request.id == 0 else Route(0))
    assert arrive(control, 0, 1) == []
    assert held(control) == [0, 1]


def test_held_requests_are_routed_again_when_a_report_comes() -> None:
    answers = {"route": False}
    control = a_control(lambda request, cluster: Route(0) if answers["route"] else Hold("wait"))
    arrive(control, 0)
    assert control.handle(Reported(1, 0, {})) == []
    answers["route"] = True
    assert control.handle(Reported(2, 1, {})) == [Dispatch(0, 0, 0, True)]


def test_a_request_waits_for_a_replica_that_is_not_up_yet() -> None:
    control = a_control(replicas=[ReplicaSpec(up=False)])
    assert arrive(control, 0) == []
    assert control.handle(ReplicaJoined(5, 0)) == [Dispatch(0, 0, 0, True)]


def test_a_hold_may_ask_to_be_woken() -> None:
    control = a_control(lambda request, cluster: Route(0) if cluster.now >= 9 else Hold("early", wake_at=9))
    assert arrive(control, 0, 1) == [Wake(9)]
    assert control.handle(Tick(4)) == [Wake(9)], "asked again, and held again"
    assert control.handle(Tick(9)) == [Dispatch(0, 0, 0, True), Dispatch(1, 0, 0, True)]


def test_a_wake_that_is_not_later_is_no_wake() -> None:
    control = a_control(lambda request, cluster: Hold("now", wake_at=cluster.now))
    assert arrive(control, 0, at=5) == []
    assert held(control) == [0]


def test_a_held_request_may_be_rejected_later() -> None:
    control = a_control(lambda request, cluster: Hold("wait") if cluster.now < 5 else Reject("too late"))
    arrive(control, 0, 1)
    assert control.handle(Tick(5)) == [Refuse(0, "too late"), Refuse(1, "too late")]
    assert not control.held


# Clients that leave, engines that refuse ------------------------------------------------------------------------------


def test_who_leaves_is_aborted_and_makes_room() -> None:
    control = a_control(at_most(1))
    arrive(control, 0, 1)
    assert control.handle(Cancelled(3, 0, "left")) == (Abort(0, 0), Dispatch(1, 0, 0, True))


def test_who_leaves_while_held_is_forgotten() -> None:
    control = a_control(at_most(1))
    arrive(control, 0, 1, 2)
    assert not control.handle(Cancelled(3, 1, "left"))
    assert held(control) == [2]


def test_a_refused_request_goes_to_its_fallbacks_in_order() -> None:
    control = a_control(lambda request, cluster: Route(0, fallback=(3, 2, 1)), 4)
    arrive(control, 0)
    control.handle(Draining(1, 2))
    assert control.handle(Refused(2, 0, 0, "full")) == (Dispatch(0, 3, 3, True),)
    assert list(control.state.requests) == [0, 0, 0, 1]
    assert control.handle(Refused(3, 0, 3, "full")) == (Dispatch(0, 1, 1, True),), "2 takes no new requests"
    assert control.handle(Refused(4, 0, 1, "full too")) == (Refuse(0, "full too"),)
    assert list(control.state.requests) == [0, 0, 0, 0]
    assert not control.flights


def test_a_refusal_makes_room_for_the_held() -> None:
    control = a_control(at_most(1))
    arrive(control, 0, 1)
    assert control.handle(Refused(2, 0, 0, "full")) == (Refuse(0, "full"), Dispatch(1, 0, 0, True))
