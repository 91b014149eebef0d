"""Policies are exchanged while requests wait and are in flight: nobody is lost, and a replay decides the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Dispatch, Refuse
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import (
    Arrived,
    Cancelled,
    Event,
    Exchanged,
    Finished,
    FirstToken,
    Measured,
    ReplicaJoined,
    ReplicaLost,
    Tick,
)
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.find import make_named, names
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from tests.core.scripted import bundled

REPLICAS = 3
SPEC = ReplicaSpec(capacity_tokens=10**6, blocks=1000, prefill_rate=1000.0)
CHOICES: dict[str, list[Any]] = {
    "router": [{name: {}} for name in names("router")],
    "order": [None, *({name: {}} for name in names("order"))],
    "admission": [None, [], [{"ceiling": {"requests": 2}}], [{"tenant_limits": {"concurrency": 3}}, {"ceiling": {}}]],
    "predictor": [None, {"constant": {"tokens": 7}}, {"history": {}}],
    "hedge": [None, {"tail": {}}],
}
exchanges = st.fixed_dictionaries({}, optional={slot: st.sampled_from(each) for slot, each in CHOICES.items()})


def fresh(router: Any = None, **given: Any) -> Control:
    policies = bundled(given, router=router or RoundRobin())
    control = Control(policies, [SPEC] * REPLICAS, resume=False, tries=2, **given)
    control.maker = make_named
    return control


def asks(number: int, at: int, group: int = 0, **given: Any) -> Arrived:
    ids = tuple(range(group * 10, group * 10 + 4))
    return Arrived(at, RequestView(number, at, 300, 8, ids, (64, 128, 192, 256), session=group, tenant=group, **given))


class Play:
    """A control that is told what can happen. open: requests not ended.  told: all events, with their answers."""

    def __init__(self) -> None:
        self.control = fresh(PrefixCache(), admission=(Ceiling(2),), order=VirtualTokenCounter())
        self.log: list[tuple[Event, Sequence[Any]]] = []
        self.open: list[int] = []
        self.now = 1
        self.count = 0

    def tell(self, event: Event) -> None:
        actions = list(self.control.handle(event))
        self.log.append((event, actions))
        for each in actions:
            if isinstance(each, Refuse):
                self.open.remove(each.request)

    def step(self, kind: str, pick: int, policies: Mapping[str, Any]) -> None:
        self.now += 10**9
        flights = list(self.control.flights)
        if kind == "ask":
            self.open.append(self.count)
            self.count += 1
            self.tell(asks(self.count - 1, self.now, pick % 4))
        elif kind == "leave" and self.open:
            self.tell(Cancelled(self.now, self.open.pop(pick % len(self.open)), "left"))
        elif kind == "first" and flights:
            request = flights[pick % len(flights)]
            if self.control.flights[request].first_token_at < 0:
                self.tell(FirstToken(self.now, request, self.control.flights[request].replica))
        elif kind == "end" and flights:
            request = flights[pick % len(flights)]
            self.open.remove(request)
            self.tell(Finished(self.now, request, 5 + pick))
        elif kind == "lose":
            self.tell(ReplicaLost(self.now, pick % REPLICAS))
            self.tell(ReplicaJoined(self.now, pick % REPLICAS))
        elif kind == "look":
            values = {"waiting": pick, "running": pick, "queued_tokens": 9 * pick, "tokens": 99, "free_blocks": 500}
            self.tell(Measured(self.now, self.now - 1, pick % REPLICAS, values))
        elif kind == "exchange" and policies:
            self.tell(Exchanged(self.now, dict(policies)))


STEPS = st.sampled_from(["ask", "ask", "ask", "leave", "first", "end", "look", "exchange"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 20), exchanges), max_size=40))
def test_whatever_is_exchanged_no_request_is_lost_and_a_replay_decides_the_same(
    steps: list[tuple[str, int, dict[str, Any]]],
) -> None:
    play = Play()
    for step in steps:
        play.step(*step)
        held = {request.id for request in play.control.held}
        flying = set(play.control.flights)
        assert not held & flying and held | flying == set(play.open)
    again = fresh(PrefixCache(), admission=(Ceiling(2),), order=VirtualTokenCounter())
    assert [list(again.handle(event)) for event, _ in play.log] == [actions for _, actions in play.log]
    play.now += 10**12
    while play.open:
        play.step("end" if play.control.flights else "leave", 0, {})
    assert not play.control.flights and not len(play.control.held)
    assert not any(play.control.state.requests)


def test_a_router_that_reads_prefixes_knows_at_once_what_is_in_flight() -> None:
    control = fresh()
    places = {}
    for number in range(3):
        (sent,) = control.handle(asks(number, number + 1, group=number))
        assert isinstance(sent, Dispatch)
        places[number] = sent.replica
    assert control.state.prefix is None
    control.handle(Exchanged(10, {"router": {"prefix_cache": {}}}))
    for group, replica in places.items():
        (sent,) = control.handle(asks(10 + group, 11, group=group))
        assert isinstance(sent, Dispatch) and sent.replica == replica
    control.handle(Exchanged(20, {"router": {"round_robin": {}}}))
    assert control.state.prefix is None, "what nobody reads is not kept"


def test_who_waits_is_sent_when_the_new_policies_let_them() -> None:
    control = fresh(admission=(Ceiling(1),))
    for number in range(9):
        control.handle(asks(number, number + 1))
    assert len(control.held) == 6
    sent = control.handle(Exchanged(20, {"admission": [{"ceiling": {"requests": 2}}]}))
    assert [each.request for each in sent if isinstance(each, Dispatch)] == [3, 4, 5]
    sent = control.handle(Exchanged(21, {"admission": None, "order": {"edf": {}}}))
    assert [each.request for each in sent if isinstance(each, Dispatch)] == [6, 7, 8]


def test_only_the_policies_that_are_named_begin_anew() -> None:
    control = fresh(PrefixCache(), order=VirtualTokenCounter(), admission=(Ceiling(1),))
    for number in range(6):
        control.handle(asks(number, number + 1))
    before = dict(control.own)
    index = control.state.prefix
    control.handle(Exchanged(10, {"router": {"dualmap": {}}}))
    assert control.order is before["order"] and control.admission == before["admission"]
    assert type(control.router).__name__ == "DualMap" and control.state.prefix is index
    assert control.own["router"] is control.router


class Sulks(RoundRobin):
    """Reads a column more, and will not learn of requests."""

    needs = ("requests", "cached_tokens")

    def observe(self, event: Event) -> None:
        raise RuntimeError("no")


def test_a_policy_that_fails_at_the_exchange_changes_nothing() -> None:
    control = fresh()
    control.handle(asks(0, 1))
    control.maker = lambda named: {"router": Sulks()}
    router, own = control.router, control.own
    with pytest.raises(RuntimeError):
        control.handle(Exchanged(2, {"router": {}}))
    assert control.router is router and control.own is own and control.state.prefix is None
    assert len(control.handle(asks(1, 3))) == 1


def test_what_cannot_be_exchanged_is_reported() -> None:
    control = fresh()
    control.maker = lambda named: dict(named)
    with pytest.raises(PolicyError, match=r"policies\.scaler cannot be exchanged while requests are served"):
        control.handle(Exchanged(1, {"scaler": None}))
    with pytest.raises(PolicyError, match="order cannot be exchanged here"):
        Control(Policies(router=RoundRobin()), [SPEC]).handle(Exchanged(1, {"order": None}))
    control.handle(Tick(2))
