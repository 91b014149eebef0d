"""What is held is as plain lists would have it, whoever leaves from wherever; and leaving costs no search."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.gateway_queue import GatewayQueue
from poise.core.control.state import State
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import ClusterView


class ByPriority:
    """Flows are tenants; within one the least priority goes first. ranks: of the tenants, 0 if not there."""

    needs = ()

    def __init__(self) -> None:
        self.ranks: dict[Hashable, int] = {}

    def flow(self, request: RequestView) -> int:
        return request.tenant

    def key(self, request: RequestView) -> int:
        return request.priority

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        return self.ranks.get(flow, 0)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """It does not matter."""


class Lists:
    """The same by lists that are searched and sorted each time."""

    def __init__(self, order: ByPriority | None) -> None:
        self.order = order
        self.queues: dict[int, list[RequestView]] = {}

    def put(self, request: RequestView, ahead: bool = False) -> None:
        queue = self.queues.setdefault(request.model, [])
        queue.insert(0 if ahead else len(queue), request)

    def remove(self, number: int) -> RequestView | None:
        for queue in self.queues.values():
            for each in queue:
                if each.id == number:
                    queue.remove(each)
                    return each
        return None

    def head(self, group: int) -> RequestView:
        queue, order = self.queues[group], self.order
        if order is None:
            return queue[0]
        within = lambda each: (order.key(each), each.arrived_at, each.id)  # noqa: E731
        heads = [min((each for each in queue if each.tenant == flow), key=within) for flow in {r.tenant for r in queue}]
        return min(heads, key=lambda each: (order.ranks.get(each.tenant, 0), each.arrived_at, each.id))

    def ask(self, yes: set[int]) -> list[int]:
        requests: list[int] = []
        stuck: set[int] = set()
        while open_ := [group for group, queue in self.queues.items() if queue and group not in stuck]:
            head = min((self.head(group) for group in open_), key=lambda each: (each.arrived_at, each.id))
            requests.append(head.id)
            if head.id in yes:
                self.queues[head.model].remove(head)
            else:
                stuck.add(head.model)
        return requests

    @property
    def all(self) -> list[RequestView]:
        every = [each for queue in self.queues.values() for each in queue]
        return sorted(every, key=lambda each: (each.arrived_at, each.id))


def _held(order: ByPriority | None) -> GatewayQueue:
    return GatewayQueue(lambda request: request.model, order, State([ReplicaSpec()], Belief(), ()))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 40)),
        st.tuples(st.just("back"), st.integers(0, 40)),
        st.tuples(st.just("ask"), st.frozensets(st.integers(0, 60))),
        st.tuples(st.just("rank"), st.integers(0, 3), st.integers(0, 2)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("ordered", [False, True])
@given(steps=STEPS)
def test_it_is_as_lists_would_have_it(ordered: bool, steps: list[tuple[Any, ...]]) -> None:
    order = ByPriority() if ordered else None
    held, lists = _held(order), Lists(order)
    known: list[RequestView] = []
    for step, *given_ in steps:
        if step == "add":
            model, tenant, priority = given_
            request = RequestView(len(known), len(known) // 3, 1, model=model, tenant=tenant, priority=priority)
            known.append(request)
            if not held.join_queue(request):
                held.add(request)
            lists.put(request)
        elif step == "leave":
            assert held.remove(given_[0]) == lists.remove(given_[0])
        elif step == "back":
            gone = [each for each in known if each.id == given_[0] and each not in lists.all]
            held.put_back(gone)
            for each in gone:
                lists.put(each, ahead=True)
        elif step == "rank" and order is not None:
            order.ranks[given_[0]] = given_[1]
        elif step == "ask" and lists.all:
            requests: list[int] = []
            yes = set(given_[0])

            def decide(request: RequestView, requests: list[int] = requests, yes: set[int] = yes) -> bool:
                requests.append(request.id)
                return request.id in yes

            held.ask(decide)
            assert requests == lists.ask(yes)
        assert (list(held), len(held), bool(held)) == (lists.all, len(lists.all), bool(lists.all))
        for each in lists.all:
            assert held.leads(each) == (lists.head(each.model) is each)


class Counted(int):
    """A priority that counts how often it is compared."""

    looks = 0

    def __lt__(self, other: int) -> bool:
        Counted.looks += 1
        return int(self) < int(other)

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.parametrize("backwards", [False, True])
def test_all_may_leave_at_once(backwards: bool) -> None:
    """Comparisons are some logarithm of the queue's length for each who leaves, and no list is searched."""
    many = 4000
    held = _held(ByPriority())
    for number in range(many):
        held.add(RequestView(number, number, 1, priority=Counted(number * 7919 % many)))
    Counted.looks = 0
    leaving = [(number * 31) % many for number in range(many)]
    for number in reversed(leaving) if backwards else leaving:
        assert held.remove(number) is not None
    assert not held and not len(held) and Counted.looks < 60 * many


def test_who_left_is_not_kept() -> None:
    """A head that nobody can serve stays, and ten thousand come and go behind it."""
    held = _held(ByPriority())
    held.add(RequestView(0, 0, 1, priority=-1))
    for number in range(1, 10_000):
        held.add(RequestView(number, number, 1))
        held.remove(number)
    (flow,) = held.queues[0]._flows.values()  # type: ignore[union-attr]
    assert len(held) == 1 and len(flow) <= 2
