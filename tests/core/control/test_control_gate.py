"""Control before and after the router: admissions that narrow its choice, orders of the held, further tries."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Abort, Dispatch, Hold, Refuse, Reject, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import (
    Arrived,
    CacheChanged,
    Cancelled,
    Failed,
    Finished,
    Measured,
    Refused,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    ReplicaUpdated,
)
from poise.core.policy import Admission, Order
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import ClusterView
from poise.policies import Policies
from tests.core.scripted import a_control, held


class First:
    """The first replica that may be chosen; remembers which ones they were."""

    needs: tuple[str, ...] = ("requests", "waiting", "cached_tokens")

    def __init__(self) -> None:
        self.able: list[tuple[int, ...]] = []

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        self.able.append(tuple(cluster.able(request)))
        return Route(self.able[-1][0])


class Ceiling:
    """At most so many requests on each replica."""

    needs = ("requests",)

    def __init__(self, most: int) -> None:
        self.most = most

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        return [replica for replica in able if cluster.requests[replica] < self.most]


class ByTenant:
    """The tenant that was sent least goes first; within a tenant by priority."""

    def __init__(self) -> None:
        self.sent: dict[Hashable, int] = {}

    def flow(self, request: RequestView) -> Hashable:
        return request.tenant

    def key(self, request: RequestView) -> int:
        return request.priority

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        return self.sent.get(flow, 0)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        self.sent[request.tenant] = self.sent.get(request.tenant, 0) + 1


def gate(
    replicas: int = 1, *, order: Order | None = None, admission: Sequence[Admission] = (), tries: int = 1
) -> Control:
    return Control(Policies(router=First(), order=order, admission=admission), [ReplicaSpec()] * replicas, tries=tries)


def request(id: int, *, tenant: int = -1, priority: int = 0, prompt: int = 10) -> RequestView:
    return RequestView(id, id, prompt, tenant=tenant, priority=priority)


# Admission ------------------------------------------------------------------------------------------------------------


def test_the_router_chooses_among_those_that_admissions_leave() -> None:
    control = gate(3, admission=[Ceiling(1)])
    for number in range(3):
        assert control.handle(Arrived(number, request(number))) == (Dispatch(number, number, number, True),)
    assert control.router.able == [(0, 1, 2), (1, 2), (2,)]
    assert control.state.able(request(9)) == (0, 1, 2), "what one decision is shown stays with it"


def test_who_is_not_admitted_waits_and_is_sent_when_there_is_room() -> None:
    control = gate(1, admission=[Ceiling(1)])
    control.handle(Arrived(0, request(0)))
    assert control.handle(Arrived(1, request(1))) == ()
    assert held(control) == [1]
    assert control.handle(Finished(2, 0, 5)) == [Dispatch(1, 0, 0, True)]


def test_admissions_narrow_one_another() -> None:
    class Not:
        needs = ()

        def __init__(self, replica: int) -> None:
            self.replica = replica

        def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
            return [replica for replica in able if replica != self.replica]

    control = gate(3, admission=[Not(0), Not(1)])
    assert control.handle(Arrived(0, request(0))) == (Dispatch(0, 2, 2, True),)


def test_an_admission_may_turn_away_with_a_time_to_come_back() -> None:
    class Full:
        needs = ()

        def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Reject:
            return Reject("full", 7)

    control = gate(admission=[Full()])
    assert control.handle(Arrived(0, request(0))) == (Refuse(0, "full", 7),)
    assert not control.held and not control.flights


def test_a_router_that_ignores_what_admissions_leave_is_caught() -> None:
    class Stubborn:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            return Route(0)

    control = Control(Policies(router=Stubborn(), admission=[Ceiling(0)]), [ReplicaSpec()] * 2)
    assert control.handle(Arrived(0, request(0))) == (), "not even asked"
    control = Control(Policies(router=Stubborn(), admission=[Ceiling(1)]), [ReplicaSpec()] * 2)
    control.handle(Arrived(0, request(0)))
    with pytest.raises(PolicyError, match="not among the able"):
        control.handle(Arrived(1, request(1)))


# Order ----------------------------------------------------------------------------------------------------------------


def test_the_least_rank_goes_first_and_within_a_flow_the_least_key() -> None:
    control = gate(order=ByTenant(), admission=[Ceiling(1)])
    control.handle(Arrived(0, request(0, tenant=1)))
    for number, tenant, priority in [(1, 1, 0), (2, 1, -1), (3, 2, 0), (4, 2, 0)]:
        control.handle(Arrived(number, request(number, tenant=tenant, priority=priority)))
    sent = []
    for number in range(4):
        (action,) = control.handle(Finished(10 + number, ([0, *sent])[-1], 1))
        assert isinstance(action, Dispatch)
        sent.append(action.request)
    assert sent == [3, 2, 4, 1]


def test_a_newcomer_that_leads_is_decided_at_once() -> None:
    """The head waits for something that the newcomer does not need."""

    class Small:
        needs = ()

        def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Hold:
            return able if request.prompt_tokens < 100 else Hold("large")

    control = gate(order=ByTenant(), admission=[Small()])
    assert control.handle(Arrived(0, request(0, prompt=500))) == ()
    assert control.handle(Arrived(1, request(1))) == (), "behind it"
    assert control.handle(Arrived(2, request(2, priority=-1))) == [Dispatch(2, 0, 0, True)]
    assert held(control) == [0, 1]


def test_a_client_that_leaves_is_taken_out_of_its_flow() -> None:
    control = gate(order=ByTenant(), admission=[Ceiling(1)])
    for number in range(4):
        control.handle(Arrived(number, request(number, tenant=number % 2)))
    control.handle(Cancelled(9, 1, "gone"))
    assert held(control) == [2, 3]
    control.handle(Cancelled(9, 3, "gone"))
    assert held(control) == [2]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), min_size=1, max_size=30), st.integers(1, 3))
def test_no_request_is_lost_or_sent_twice_in_any_order(crowd: list[tuple[int, int]], most: int) -> None:
    control = gate(2, order=ByTenant(), admission=[Ceiling(most)])
    sent: list[int] = []
    for number, (tenant, priority) in enumerate(crowd):
        actions = control.handle(Arrived(number, request(number, tenant=tenant, priority=priority)))
        sent += [action.request for action in actions if isinstance(action, Dispatch)]
        assert max(control.state.requests) <= most
    for at in range(len(crowd)):
        actions = control.handle(Finished(100 + at, sent[at], 1))
        sent += [action.request for action in actions if isinstance(action, Dispatch)]
        assert max(control.state.requests) <= most
    assert sorted(sent) == list(range(len(crowd)))
    assert not control.held and not control.flights


# What orders and admissions are told ----------------------------------------------------------------------------------


class Clerk:
    """Notes what becomes of each request, and turns some away at the door and some later."""

    needs = ("requests",)

    def __init__(self, most: int = 1) -> None:
        self.most = most
        self.waiting: set[int] = set()
        self.flying: set[int] = set()
        self.ends: list[int] = []

    def enter(self, request: RequestView, cluster: ClusterView) -> Reject | None:
        return Reject("not at this door", 3) if request.priority == 1 else None

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Reject:
        free = [replica for replica in able if cluster.requests[replica] < self.most]
        return Reject("not now") if free and request.priority == 2 else free

    def joined(self, request: RequestView) -> None:
        assert request.id not in self.waiting
        self.flying.discard(request.id)
        self.waiting.add(request.id)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        self.waiting.remove(request.id)
        self.flying.add(request.id)

    def ended(self, request: RequestView) -> None:
        assert (request.id in self.waiting) != (request.id in self.flying)
        self.waiting.discard(request.id)
        self.flying.discard(request.id)
        self.ends.append(request.id)


def test_who_is_turned_away_at_the_door_never_queues() -> None:
    control = gate(admission=[Clerk()])
    control.handle(Arrived(0, request(0)))
    control.handle(Arrived(1, request(1)))
    assert control.handle(Arrived(2, request(2, priority=1))) == (Refuse(2, "not at this door", 3),)
    assert held(control) == [1]


FATES = ("finish", "fail", "cancel sent", "cancel held", "refuse for good", "refuse for now", "lose")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from(FATES)), min_size=1, max_size=30),
    st.booleans(),
)
def test_each_request_joins_and_ends_once_whatever_happens_to_it(
    crowd: list[tuple[int, int, str]], shared: bool
) -> None:
    """An object that is order and admission in one is told once; two are told alike."""

    class Both(ByTenant, Clerk):
        """Both; `taken` is each of theirs."""

        def __init__(self) -> None:
            ByTenant.__init__(self)
            Clerk.__init__(self)

        def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
            ByTenant.taken(self, request, replica, cluster)
            Clerk.taken(self, request, replica, cluster)

    both = Both()
    control = gate(2, order=both if shared else ByTenant(), admission=[both if shared else Clerk()], tries=2)
    (clerk,) = control.admission
    assert isinstance(clerk, Clerk)
    assert not shared or clerk is control.order
    entered = []
    for number, (tenant, priority, fate) in enumerate(crowd):
        answers = control.handle(Arrived(number, request(number, tenant=tenant, priority=priority)))
        if not (priority == 1 and answers):
            entered.append(number)
        flights = list(control.flights.values())
        flight = flights[number % len(flights)] if flights else None
        waiting = held(control)
        if fate == "cancel held" and waiting:
            control.handle(Cancelled(number, waiting[-1], "gone"))
        elif flight is not None and fate == "finish":
            control.handle(Finished(number, flight.request.id, 5))
        elif flight is not None and fate == "fail":
            control.handle(Failed(number, flight.request.id, flight.replica, "cut"))
        elif flight is not None and fate == "cancel sent":
            control.handle(Cancelled(number, flight.request.id, "gone"))
        elif flight is not None and fate.startswith("refuse"):
            control.handle(Refused(number, flight.request.id, flight.replica, "x", fate == "refuse for now"))
        elif flight is not None and fate == "lose":
            control.handle(ReplicaLost(number, flight.replica))
            control.handle(ReplicaUpdated(number, flight.replica, ReplicaSpec()))
            control.handle(ReplicaJoined(number, flight.replica))
        assert clerk.waiting == set(held(control))
        assert clerk.flying == set(control.flights)
    while control.flights:
        control.handle(Finished(99, min(control.flights), 5))
    assert sorted(clerk.ends) == entered
    assert not clerk.waiting and not clerk.flying and not control.held


# Tries ----------------------------------------------------------------------------------------------------------------


def test_what_another_may_take_is_sent_to_others_that_were_not_tried() -> None:
    control = gate(3, tries=3)
    control.handle(Arrived(0, request(0)))
    assert control.handle(Refused(1, 0, 0, "refused", True)) == [Dispatch(0, 1, 1, True)]
    assert control.handle(Refused(2, 0, 1, "refused", True)) == [Dispatch(0, 2, 2, True)]
    assert control.handle(Refused(3, 0, 2, "reset", True)) == (Refuse(0, "reset"),)
    assert not control.tried and not control.flights and sum(control.state.requests) == 0


def test_there_are_no_more_tries_than_allowed_and_none_where_all_were_tried() -> None:
    control = gate(3, tries=2)
    control.handle(Arrived(0, request(0)))
    control.handle(Refused(1, 0, 0, "x", True))
    assert control.handle(Refused(2, 0, 1, "y", True)) == (Refuse(0, "y"),)
    control = gate(1, tries=5)
    control.handle(Arrived(0, request(0)))
    assert control.handle(Refused(1, 0, 0, "x", True)) == (Refuse(0, "x"),)


def test_a_refusal_that_holds_for_all_is_final() -> None:
    control = gate(2, tries=5)
    control.handle(Arrived(0, request(0)))
    assert control.handle(Refused(1, 0, 0, "bad prompt")) == (Refuse(0, "bad prompt"),)


def test_an_answer_that_broke_off_is_not_tried_again() -> None:
    control = gate(2, tries=5, admission=[Ceiling(1)])
    for number in range(3):
        control.handle(Arrived(number, request(number)))
    assert control.handle(Failed(5, 0, 0, "cut")) == (Dispatch(2, 0, 0, True),)
    assert set(control.flights) == {1, 2}


def test_the_other_half_of_a_pair_is_notified_when_one_breaks_off() -> None:
    control = Control(Policies(router=First()), [ReplicaSpec(role="prefill"), ReplicaSpec(role="decode")])
    assert control.handle(Arrived(0, request(0))) == (Dispatch(0, 0, 1, True),)
    assert control.handle(Failed(5, 0, 0, "cut")) == (Abort(0, 1),)


# What is known --------------------------------------------------------------------------------------------------------


def test_one_replicas_report_keeps_what_was_sent_since_and_leaves_the_others_alone() -> None:
    control = Control(Policies(router=First()), [ReplicaSpec()] * 2, belief=Belief(period_s=1.0))
    control.handle(Measured(5, 4, 1, {"waiting": 7, "swap": 1}))
    control.handle(Arrived(10, request(10)))
    control.handle(Measured(12, 11, 1, {"waiting": 3}))
    assert list(control.state.waiting) == [1, 3]
    assert control.state.measured_at == [0, 11]
    control.handle(Measured(13, 9, 0, {"waiting": 2}))
    assert list(control.state.waiting) == [3, 3], "sent after it was measured"
    control.handle(Measured(14, 11, 0, {"waiting": 2}))
    assert list(control.state.waiting) == [2, 3]


def test_a_replica_tells_of_its_cache() -> None:
    control = Control(Policies(router=First()), [ReplicaSpec()] * 2, belief=Belief(prefix="reported"))
    prompt = RequestView(0, 0, 30, ids=(7, 8), ends=(10, 20))
    control.handle(CacheChanged(1, 1, (7, 8), ()))
    assert control.state.cached_tokens(prompt) == [0, 20]
    control.handle(CacheChanged(2, 1, (), (8,)))
    assert control.state.cached_tokens(prompt) == [0, 10]
    control.handle(CacheChanged(3, 1, (9,), (), True))
    assert control.state.cached_tokens(prompt) == [0, 0]


def test_a_place_in_the_fleet_may_be_taken_by_another() -> None:
    control = a_control(replicas=[ReplicaSpec(capacity_tokens=5)])
    control.handle(ReplicaLeft(1, 0))
    control.handle(ReplicaUpdated(2, 0, ReplicaSpec(capacity_tokens=500, blocks=9)))
    assert control.handle(Arrived(3, request(0))) == (), "not up yet"
    assert control.handle(ReplicaJoined(4, 0)) == [Dispatch(0, 0, 0, True)]
    assert control.state.total_blocks == [9]
