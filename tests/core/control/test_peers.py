"""Requests of other gateways count in the belief, in limits and in fair orders until they end."""

from __future__ import annotations

from typing import Any

from poise.core.action import Dispatch, Refuse
from poise.core.control.control import Control
from poise.core.event import (
    Arrived,
    Event,
    Exchanged,
    Finished,
    PeerEnded,
    PeerLost,
    PeerSent,
    PrefixSent,
    ReplicaJoined,
    ReplicaLost,
)
from poise.core.spec import Belief, ReplicaSpec
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.testing import a_request


def a_gateway(*admission: Any, replicas: int = 2, **policies: Any) -> Control:
    named = {"router": LeastRequests(), **policies}
    return Control(Policies(**named, admission=admission), [ReplicaSpec()] * replicas, belief=Belief(share_s=0.0))


def sent(number: int, replica: int = -1, **fields: Any) -> PeerSent:
    return PeerSent(0, 1, a_request(id=-number, **fields), replica, replica)


def test_a_request_of_another_gateway_takes_room_until_it_ends() -> None:
    control = a_gateway(Ceiling(requests=1), replicas=1)
    control.handle(sent(2, 0))
    assert control.handle(Arrived(0, a_request(id=0))) == (), "there is no room"
    assert control.handle(PeerEnded(1, 1, -2, 5)) == [Dispatch(0, 0, 0, True)]
    assert control.state.requests == [1]


def test_a_request_that_waits_elsewhere_takes_none_and_one_sent_again_counts_once() -> None:
    control = a_gateway()
    for event in (sent(2), sent(2, 0), sent(2, 1)):
        control.handle(event)
    assert control.state.requests == [0, 1]
    control.handle(sent(2))
    assert control.state.requests == [0, 0]
    assert control.handle(PeerEnded(1, 1, -7)) == (), "unknown"


def test_all_requests_of_a_lost_gateway_end() -> None:
    control = a_gateway(Ceiling(requests=2), replicas=1)
    for event in (sent(2, 0), PeerSent(0, 2, a_request(id=-3), 0, 0), sent(4)):
        control.handle(event)
    control.handle(Arrived(0, a_request(id=0)))
    assert control.handle(PeerLost(1, 1)) == [Dispatch(0, 0, 0, True)]
    assert control.state.requests == [2] and set(control.peers.known) == {-3}


def test_what_ran_on_a_lost_replica_counts_nowhere_even_when_it_returns() -> None:
    control = a_gateway()
    control.handle(sent(2, 0))
    control.handle(ReplicaLost(1, 0))
    control.handle(ReplicaJoined(2, 0))
    control.handle(PeerEnded(3, 1, -2))
    assert control.state.requests == [0, 0]


def test_limits_count_what_another_gateway_admitted() -> None:
    control = a_gateway(TenantLimits(requests_per_minute=2, concurrency=2))
    control.handle(sent(2, 0, tenant=3))
    control.handle(sent(3, tenant=3))
    assert control.handle(Arrived(0, a_request(id=0, tenant=3))) == (Refuse(0, "over its tenant's requests at once"),)
    control.handle(PeerEnded(1, 1, -3))
    (refused,) = control.handle(Arrived(1, a_request(id=1, tenant=3)))
    assert refused == Refuse(1, "over its tenant's requests a minute", 30 * SECOND - 1)


def test_service_given_by_another_gateway_is_charged() -> None:
    """The tenant that another gateway serves goes second, although its request came first."""
    control = a_gateway(Ceiling(requests=1), replicas=1, order=VirtualTokenCounter())
    control.handle(sent(2, 0, tenant=1, prompt_tokens=900))
    control.handle(Arrived(0, a_request(id=0, tenant=1)))
    control.handle(Arrived(0, a_request(id=1, tenant=2)))
    assert control.handle(PeerEnded(1, 1, -2, 40)) == [Dispatch(1, 0, 0, True)]
    assert control.handle(Finished(2, 1, 1)) == [Dispatch(0, 0, 0, True)]


def test_a_policy_that_is_exchanged_learns_of_them() -> None:
    control = a_gateway(replicas=1)
    control.maker = lambda named: {"admission": (TenantLimits(concurrency=1),)}
    control.handle(sent(2, 0, tenant=3))
    control.handle(Exchanged(1, {"admission": []}))
    (refused,) = control.handle(Arrived(1, a_request(id=0, tenant=3)))
    assert isinstance(refused, Refuse)


def test_prefixes_sent_by_others_or_before_are_believed_cached() -> None:
    control = a_gateway(router=PrefixCache())
    prompt: dict[str, Any] = {"prompt_tokens": 100, "ids": (7, 8), "ends": (64, 96)}
    control.handle(sent(2, 1, **prompt))
    control.handle(PrefixSent(0, 0, (7,), (64,)))
    assert list(control.state.cached_tokens(a_request(id=0, **prompt))) == [64, 96]


def test_policies_that_share_observe_the_end_of_another_gateways_request_and_others_observe_its_reports() -> None:
    class Router(LeastRequests):
        def observe(self, event: Event) -> None:
            seen.append(("router", type(event)))

    class Order(VirtualTokenCounter):
        def observe(self, event: Event) -> None:
            seen.append(("order", type(event)))

    seen: list[tuple[str, type]] = []
    control = a_gateway(router=Router(), order=Order())
    control.handle(sent(2, 0))
    control.handle(PeerEnded(1, 1, -2, 5))
    assert seen == [("router", PeerSent), ("router", PeerEnded), ("order", Finished)]


def test_what_is_shared_is_each_change_of_a_request_once() -> None:
    control = a_gateway(Ceiling(requests=1), replicas=1)
    requests = [a_request(id=number) for number in range(2)]
    for request in requests:
        control.handle(Arrived(0, request))
    control.handle(Finished(5, 0, 9))
    assert control.outbox == [
        PeerSent(0, -1, requests[0], 0, 0), PeerSent(0, -1, requests[1]),
        PeerEnded(5, -1, 0, 9), PeerSent(5, -1, requests[1], 0, 0),
    ]  # fmt: skip
