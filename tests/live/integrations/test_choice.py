"""Second choices and subsets: policies like any other."""

from __future__ import annotations

import copy

import pytest

from poise.core.action import Dispatch, Hold, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.event import Arrived, Refused, Restricted
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from poise.live.integrations.choice import Fallback, Subset
from poise.policies import Policies
from poise.policies.route.dualmap import DualMap
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.pull import Pull
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


@pytest.mark.parametrize("router", [LeastRequests, PrefixCache, Pull])
def test_with_second_choices_it_is_still_a_router(router: type) -> None:
    check_router(lambda: Fallback(router(), 2))


def test_the_least_loaded_others_follow_the_choice() -> None:
    cluster = a_cluster(*(a_replica(requests=load) for load in (3, 0, 1, 2)), needs=("requests",))
    assert Fallback(LeastRequests(), 2).route(a_request(), cluster, a_chance()) == Route(1, fallback=(2, 3))
    assert Fallback(LeastRequests(), 9).route(a_request(), cluster, a_chance()) == Route(1, fallback=(2, 3, 0))


class Says:
    needs: tuple[str, ...] = ()

    def __init__(self, decision: Route | Hold) -> None:
        self.decision = decision

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold:
        return self.decision


@pytest.mark.parametrize("decision", [Hold("full"), Route(1, fallback=(0,)), Route(0, decode=1)])
def test_what_the_router_settles_itself_stays(decision: Route | Hold) -> None:
    cluster = a_cluster(a_replica(), a_replica(), a_replica())
    assert Fallback(Says(decision)).route(a_request(), cluster, a_chance()) == decision


def test_it_has_what_its_router_has_and_nothing_else() -> None:
    plain, pulls, moves = Fallback(LeastRequests()), Fallback(Pull()), Fallback(DualMap())
    assert [hasattr(each, "group") for each in (plain, pulls)] == [False, True]
    assert [hasattr(each, "move") for each in (plain, moves)] == [False, True]
    assert copy.deepcopy(moves).router is not moves.router
    assert Control(Policies(router=moves), [ReplicaSpec()] * 2).mover is not None


def test_control_sends_to_the_second_choice_when_the_first_refuses() -> None:
    control = Control(Policies(router=Fallback(LeastRequests())), [ReplicaSpec()] * 3)
    (sent,) = control.handle(Arrived(1, a_request(id=0, arrived_at=1)))
    assert isinstance(sent, Dispatch)
    (second,) = control.flights[0].fallback
    assert control.handle(Refused(2, 0, sent.replica, "down", True)) == (Dispatch(0, second, second, True),)


def test_a_request_stays_within_its_proxys_reach() -> None:
    subset = Subset()
    subset.observe(Restricted(1, 7, (2, 0, 9)))
    cluster = a_cluster(*[a_replica()] * 3)
    assert subset.admit(a_request(id=7), (0, 1, 2), cluster) == [0, 2]
    assert subset.admit(a_request(id=8), (0, 1, 2), cluster) == (0, 1, 2)
    subset.ended(a_request(id=7))
    assert subset.admit(a_request(id=7), (0, 1, 2), cluster) == (0, 1, 2)
