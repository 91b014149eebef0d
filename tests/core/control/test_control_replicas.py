"""Control when replicas go, when prefill and decode are apart, and what it asks of its router."""

from __future__ import annotations

import pytest

from poise.core.action import Abort, Decision, Dispatch, Hold, Move, Refuse, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Finished,
    FirstToken,
    Moved,
    Prefilled,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    ReplicaUpdated,
    Tick,
)
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import ClusterView
from poise.policies import Policies
from tests.core.scripted import Rule, a_control, a_request, arrive, at_most, first_able, held

# Replicas that go -----------------------------------------------------------------------------------------------------


def test_what_a_lost_replica_ran_is_sent_again_oldest_first_ahead_of_the_held() -> None:
    control = a_control(
        lambda request, cluster: Hold("wait") if request.id == 9 and cluster.now < 5 else first_able(request, cluster),
        2,
    )
    for number, at in ((4, 0), (2, 1), (3, 2), (9, 3)):
        control.handle(Arrived(at, a_request(number, at)))
    assert control.handle(ReplicaLost(5, 0)) == tuple(Dispatch(number, 1, 1, True) for number in (4, 2, 3, 9))
    assert list(control.state.requests) == [0, 4]


def test_a_request_whose_replica_is_lost_waits_for_one_that_starts() -> None:
    control = a_control(replicas=[ReplicaSpec(), ReplicaSpec(up=False)])
    arrive(control, 0)
    assert control.handle(ReplicaLost(1, 0)) == ()
    assert held(control) == [0]
    assert control.handle(ReplicaJoined(2, 1)) == [Dispatch(0, 1, 1, True)]


def test_a_request_that_only_lost_replicas_could_take_is_refused_and_blocks_none() -> None:
    control = a_control(replicas=[ReplicaSpec(model=0), ReplicaSpec(model=1)])
    arrive(control, 0)
    assert control.handle(ReplicaLost(1, 0)) == (Refuse(0, "no replica serves model 0"),)
    assert not held(control)


def test_who_is_held_when_the_last_replica_leaves_is_refused() -> None:
    control = a_control(at_most(0))
    arrive(control, 0)
    control.handle(Draining(1, 0))
    assert held(control) == [0]
    assert control.handle(ReplicaLeft(2, 0)) == [Refuse(0, "no replica serves model 0")]


def test_models_do_not_wait_for_one_another() -> None:
    control = a_control(at_most(1), [ReplicaSpec(model=0), ReplicaSpec(model=1)])
    for number, model in enumerate((0, 0, 0, 1, 1)):
        control.handle(Arrived(number, a_request(number, number, model=model)))
    assert sorted(control.flights) == [0, 3]
    assert held(control) == [1, 2, 4]
    assert control.handle(Finished(9, 3, 1)) == [Dispatch(4, 1, 1, True)]
    assert control.handle(Finished(9, 0, 1)) == [Dispatch(1, 0, 0, True)]


def test_a_router_may_name_the_groups() -> None:
    class Tenants:
        needs = ("requests",)

        def group(self, request: RequestView) -> int:
            return request.tenant

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold:
            return Hold("first tenant waits") if request.tenant == 0 else Route(0)

    control = Control(Policies(router=Tenants()), [ReplicaSpec()])
    actions = [control.handle(Arrived(number, a_request(number, number, tenant=number % 2))) for number in range(4)]
    assert [len(each) for each in actions] == [0, 1, 0, 1]
    assert held(control) == [0, 2]
    assert control.handle(Cancelled(9, 0, "left")) == []
    assert held(control) == [2]


def test_resuming_is_a_choice() -> None:
    control = a_control(replicas=2, resume=False)
    assert arrive(control, 0) == [Dispatch(0, 0, 0, False)]


def test_a_draining_replica_ends_its_requests_and_takes_no_new_ones() -> None:
    control = a_control(replicas=2)
    arrive(control, 0)
    assert control.handle(Draining(1, 0)) == ()
    assert arrive(control, 1, at=2) == [Dispatch(1, 1, 1, True)]
    assert control.handle(Finished(3, 0, 1)) == ()
    assert control.handle(ReplicaLeft(4, 0)) == ()
    assert list(control.state.requests) == [0, 1]


def test_what_a_lost_replica_had_counts_nowhere_when_another_takes_its_place() -> None:
    control = a_control(lambda request, cluster: Route(cluster.able(request)[0]), [ReplicaSpec(returns=True)])
    arrive(control, 0, 1)
    assert list(control.state.requests) == [2]
    assert control.handle(ReplicaLost(2, 0)) == ()  # both are held: another will come
    assert control.handle(ReplicaJoined(3, 0)) == [Dispatch(0, 0, 0, True), Dispatch(1, 0, 0, True)]
    assert list(control.state.requests) == [2]


# Prefill and decode apart ---------------------------------------------------------------------------------------------

PAIR = [ReplicaSpec(role="prefill"), ReplicaSpec(role="decode"), ReplicaSpec(role="decode")]


def least_requests(request: RequestView, cluster: ClusterView) -> Decision:
    return Route(min(cluster.able(request), key=lambda replica: cluster.requests[replica]))


def test_the_router_is_called_for_each_half_of_a_pair() -> None:
    stages: list[str] = []

    def rule(request: RequestView, cluster: ClusterView) -> Decision:
        stages.append(cluster.stage)
        return least_requests(request, cluster)

    control = a_control(rule, PAIR)
    assert arrive(control, 0, 1) == [Dispatch(0, 0, 1, True), Dispatch(1, 0, 2, True)]
    assert stages == ["serve", "decode"] * 2
    assert list(control.state.requests) == [2, 1, 1]


def test_a_route_may_name_its_decode_half() -> None:
    control = a_control(lambda request, cluster: Route(0, decode=2), PAIR)
    assert arrive(control, 0) == [Dispatch(0, 0, 2, True)]


def test_a_pair_is_freed_half_by_half() -> None:
    control = a_control(least_requests, PAIR)
    arrive(control, 0)
    control.handle(Prefilled(1, 0, 0))
    assert list(control.state.requests) == [0, 1, 0]
    control.handle(Finished(2, 0, 4))
    assert list(control.state.requests) == [0, 0, 0]


def test_without_a_decode_half_a_request_is_held() -> None:
    control = a_control(least_requests, [ReplicaSpec(role="prefill"), ReplicaSpec(role="decode", up=False)])
    assert arrive(control, 0) == []
    assert control.handle(ReplicaJoined(1, 1)) == [Dispatch(0, 0, 1, True)]


@pytest.mark.parametrize(("prefilled", "aborts"), [(False, (Abort(0, 0), Abort(0, 1))), (True, (Abort(0, 1),))])
def test_a_client_that_leaves_is_aborted_where_its_request_is(prefilled: bool, aborts: tuple[Abort, ...]) -> None:
    control = a_control(least_requests, PAIR)
    arrive(control, 0)
    if prefilled:
        control.handle(Prefilled(1, 0, 0))
    assert control.handle(Cancelled(2, 0, "left")) == aborts
    assert list(control.state.requests) == [0, 0, 0]


def test_losing_one_half_gives_up_the_other() -> None:
    control = a_control(least_requests, PAIR)
    arrive(control, 0, 1)
    assert control.handle(ReplicaLost(1, 1)) == (Abort(0, 0), Dispatch(0, 0, 2, True))
    assert list(control.state.requests) == [2, 0, 2]


def test_losing_the_prefill_half_does_not_matter_once_it_is_done() -> None:
    control = a_control(least_requests, PAIR)
    arrive(control, 0)
    control.handle(Prefilled(1, 0, 0))
    assert control.handle(ReplicaLost(2, 0)) == ()
    assert set(control.flights) == {0}


def test_a_request_that_moves_to_where_its_prompt_was_computed_counts_there_until_it_ends() -> None:
    """Replica 0 computed the prompt, became a decode replica, and takes the output over from replica 1."""

    class Mover:
        def move(self, cluster: ClusterView) -> list[Move]:
            return [Move(0, 1, 0)] if cluster.now == 5 else []

    control = a_control(least_requests, PAIR, mover=Mover())
    arrive(control, 0)
    for event in (
        Prefilled(1, 0, 0), Draining(2, 0), ReplicaLeft(3, 0), ReplicaUpdated(4, 0, ReplicaSpec(role="decode")),
        ReplicaJoined(4, 0), Tick(5),
    ):  # fmt: skip
        control.handle(event)
    assert list(control.state.requests) == [1, 1, 0]
    control.handle(Moved(6, 0, 1, 0))
    assert list(control.state.requests) == [1, 0, 0]
    control.handle(Finished(7, 0, 4))
    assert list(control.state.requests) == [0, 0, 0]


# The router as an object ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "replicas", "message"),
    [
        (lambda request, cluster: Route(7), 2, r"Scripted routed request 3 to replica 7, .*able \(0, 1\)"),
        (lambda request, cluster: 0, 2, "Scripted answered 0; it must be a Route, a Hold or a Reject"),
        (lambda request, cluster: None, 2, "Scripted answered None"),
        (
            lambda request, cluster: Route(0, decode=0),
            PAIR,
            r"Scripted paired request 3 with replica 0, .*able \(1, 2\)",
        ),
        (lambda request, cluster: Route(0), PAIR, r"Scripted paired request 3 with replica 0, .*able \(1, 2\)"),
    ],
)
def test_errors_name_the_policy_and_the_rule(rule: Rule, replicas: int | list[ReplicaSpec], message: str) -> None:
    control = a_control(rule, replicas)
    with pytest.raises(PolicyError, match=message):
        arrive(control, 3)


def test_a_router_may_observe_every_event_before_it_decides() -> None:
    class Watching:
        needs = ()

        def __init__(self) -> None:
            self.log: list[str] = []

        def observe(self, event: Event) -> None:
            self.log.append(type(event).__name__)

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            self.log.append("route")
            return Route(0)

    given = Watching()
    control = Control(Policies(router=given), [ReplicaSpec()])
    arrive(control, 0)
    control.handle(FirstToken(1, 0, 0))
    control.handle(Finished(2, 0, 3))
    assert control.router.log == ["Arrived", "route", "FirstToken", "Finished"]  # type: ignore[attr-defined]
    assert given.log == [], "the router is copied"


def test_a_clone_goes_its_own_way() -> None:
    control = a_control(at_most(1), 2, belief=Belief(0, 0, True))
    arrive(control, 0)
    clone = control.clone()
    assert arrive(clone, 1) == arrive(control, 1) == [Dispatch(1, 1, 1, True)]
    arrive(clone, 2)
    assert (held(clone), held(control)) == ([2], [])
    clone.handle(Finished(1, 0, 1))
    assert list(control.state.requests) == [1, 1]
