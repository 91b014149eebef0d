"""A shadow decides on the same view, changes nothing, and is judged by what it would have saved."""

from __future__ import annotations

import pytest

from poise.core.action import Hold, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.control.shadow import shadowed
from poise.core.event import Arrived, Finished, Measured
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from poise.policies import Policies
from poise.policies.find import build, names
from poise.testing import check_router


class Always:
    needs = ()

    def __init__(self, replica: int) -> None:
        self.replica = replica

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        return Route(self.replica)


def test_the_gain_is_what_the_request_waits_less() -> None:
    control = Control(Policies(router=shadowed(Always(0), Always(1))), [ReplicaSpec(prefill_rate=100.0)] * 2)
    control.handle(Measured(0, 0, 0, {"queued_tokens": 500}))
    (action,) = control.handle(Arrived(1, RequestView(0, 1, 10)))
    assert action.replica == 0  # type: ignore[union-attr]
    agreement = control.router.agreement
    assert agreement == (1, 1, 0, 500.0, 5.0)


def test_equal_choices_gain_nothing_and_a_hold_is_not_compared() -> None:
    class Never:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Hold:
            return Hold("no")

    control = Control(Policies(router=shadowed(Always(0), Always(0))), [ReplicaSpec()])
    control.handle(Arrived(1, RequestView(0, 1, 10)))
    assert control.router.agreement == (1, 1, 1, 0.0, 0.0)
    control = Control(Policies(router=shadowed(Always(0), Never())), [ReplicaSpec()])
    control.handle(Arrived(1, RequestView(0, 1, 10)))
    assert control.router.agreement == (1, 0, 0, 0.0, 0.0)


@pytest.mark.parametrize("name", names("router"))
def test_a_shadow_changes_no_decision(name: str) -> None:
    """The active router's decisions are those it makes alone, whoever decides beside it."""
    specs = [ReplicaSpec(prefill_rate=1e4)] * 4
    alone = Control(Policies(router=build("router", "cache_aware")), specs, seed=5)
    watched = Control(Policies(router=shadowed(build("router", "cache_aware"), build("router", name))), specs, seed=5)
    for number in range(60):
        topic = number % 7
        event = Arrived(number * 10, RequestView(number, number * 10, 40, ids=(topic + 1,), ends=(32,), session=topic))
        assert [*alone.handle(event)] == [*watched.handle(event)]
        if number % 3 == 2:
            done = Finished(number * 10 + 1, number - 2, 5)
            assert [*alone.handle(done)] == [*watched.handle(done)]
    assert watched.router.agreement.decisions == 60


def test_it_is_a_router_itself() -> None:
    check_router(lambda: shadowed(build("router", "least_requests"), build("router", "prefix_cache")))
