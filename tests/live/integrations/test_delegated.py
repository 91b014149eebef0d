"""Requests handed over for a choice, without anybody who hands them over."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.control.control import Control
from poise.core.event import Arrived, Cancelled, Draining, Failed, Finished, ReplicaJoined, ReplicaLeft, ReplicaLost
from poise.core.records.trace import Trace, replay
from poise.core.spec import ReplicaSpec
from poise.live.integrations.choice import Fallback
from poise.live.integrations.delegated import DelegatedRequest, Replicas, body_of
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.least_requests import LeastRequests
from tests.live.integrations.shed import Shed


def a_control(ceiling: int = 0, slots: int = 3) -> Control:
    admission = [Shed(), *([Ceiling(ceiling)] if ceiling else [])]
    return Control(
        Policies(router=Fallback(LeastRequests(), 1), admission=admission),
        [ReplicaSpec(up=False)] * slots,
        resume=False,
    )


class House:
    """Replicas a, b, …, and what happened to them."""

    def __init__(self, names: str = "ab", ceiling: int = 0, slots: int = 3) -> None:
        self.replicas = Replicas(a_control(ceiling, slots), lambda at, call: None)
        self.trace = Trace()
        self.replicas.world.keep = self.trace.add
        self.done: list[DelegatedRequest] = []
        assert self.replicas.known(names) == []

    def ask(self, **fields: Any) -> DelegatedRequest:
        handed: list[DelegatedRequest] = []
        done: Callable[[], None] = lambda: self.done.append(handed[0]) if handed else None  # noqa: E731
        handed.append(self.replicas.ask({"model": "m", "prompt": "p", **fields}, done))
        return handed[0]

    def happened(self, *kinds: type) -> list[Any]:
        return [each for each in self.trace.items() if isinstance(each, kinds)]

    def check(self) -> None:
        control = self.replicas.world.control
        assert not self.replicas.world.proxied_requests and not control.flights and not control.held
        assert not any(control.state.requests)


def test_a_call_is_counted_from_its_choice_to_its_end() -> None:
    house = House()
    handed = house.ask()
    assert sorted(handed.replicas) == ["a", "b"] and handed.decided
    assert sum(house.replicas.world.control.state.requests) == 1
    handed.taken(handed.replicas[0])
    handed.completed()
    assert len(house.happened(Finished)) == 1 and not house.happened(Cancelled)
    house.check()


def test_a_call_that_the_second_choice_took_is_counted_there() -> None:
    house = House()
    handed = house.ask()
    handed.taken(handed.replicas[1])
    requests = house.replicas.world.control.state.requests
    assert requests["ab".index(handed.replicas[1])] == 1 and sum(requests) == 1
    handed.completed()
    house.check()


def test_the_end_may_be_reported_before_who_took_it() -> None:
    house = House()
    handed = house.ask()
    first, second = handed.replicas
    handed.ended.add(first)
    assert not handed.over, "it may have refused"
    handed.taken(second)
    assert not handed.over, "another has it"
    handed.ended.add(second)
    assert handed.over
    early = house.ask()
    early.ended.add(early.replicas[0])
    early.taken(early.replicas[0])
    assert early.over
    for each in (handed, early):
        each.completed()
    assert len(house.happened(Finished)) == 2 and not house.happened(Cancelled)
    house.check()


def test_a_call_that_no_replica_took_counts_for_none() -> None:
    house = House()
    house.ask().completed()
    assert len(house.happened(Cancelled)) == 1
    house.check()


def test_a_waiting_request_is_sent_when_there_is_room() -> None:
    house = House("a", ceiling=1)
    first, second = house.ask(), house.ask()
    assert first.decided and not second.decided and house.done == []
    first.taken("a")
    first.completed()
    assert house.done == [second] and second.replicas == ["a"]
    second.completed()
    house.check()


def test_a_refusal_has_its_reason() -> None:
    handed = House().ask(priority=9)
    assert (handed.status, handed.retry_after_s, handed.reason) == (429, 2, "as you wish")


def test_replicas_come_go_and_die() -> None:
    house = House("ab", slots=2)
    under_way = house.ask()
    under_way.taken(under_way.replicas[0])
    name = under_way.replicas[0]
    other = "b" if name == "a" else "a"
    house.replicas.known(other)
    assert len(house.happened(Draining)) == 1 and not house.happened(ReplicaLeft), "it ends what it has"
    under_way.completed()
    house.replicas.world.sweep()
    assert len(house.happened(ReplicaLeft)) == 1
    assert house.replicas.known([other, "c", "d"]) == ["d"], "there are two slots"
    assert len(house.happened(ReplicaJoined)) == 3
    calls = [house.ask() for _ in range(2)]
    for call in calls:
        call.taken(call.replicas[0])
    house.replicas.died("c")
    assert len(house.happened(ReplicaLost)) == len(house.happened(Failed)) == 1
    assert house.replicas.known([other, "d"]) == []
    for call in calls:
        call.completed()
    house.check()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a prompt"], {"model": "m", "prompt": "a prompt"}),
        ([7, {"prompt": "p", "max_tokens": 3, "odd": 1}], {"model": "m", "prompt": "p", "max_tokens": 3}),
        ([{"model": "x", "messages": [{"role": "user"}]}], {"model": "x", "messages": [{"role": "user"}]}),
        ([SimpleNamespace(prompt=[1, 2], stream=True)], {"model": "m", "prompt": [1, 2], "stream": True}),
        ([object()], {"model": "m", "prompt": ""}),
        ([], {"model": "m", "prompt": ""}),
    ],
)
def test_what_a_call_asks_is_read_from_its_arguments(arguments: list[Any], expected: dict[str, Any]) -> None:
    assert body_of(arguments, "m") == expected


def test_messages_may_be_objects() -> None:
    message = SimpleNamespace(model_dump=lambda exclude_none: {"role": "user", "content": "hi"})
    fields = body_of([SimpleNamespace(messages=[message], model="x")], "m")
    assert fields == {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    assert House().ask(**fields).decided


steps = st.lists(
    st.tuples(st.sampled_from(["ask", "taken", "completed", "die", "known"]), st.integers(0, 11)), max_size=50
)


@settings(max_examples=100)
@given(steps, st.integers(0, 2))
def test_whatever_is_reported_the_books_balance(script: list[tuple[str, int]], ceiling: int) -> None:
    house = House("abc", ceiling, slots=6)
    calls: list[DelegatedRequest] = []
    for what, number in script:
        call = calls[number % len(calls)] if calls else None
        if what == "ask":
            calls.append(house.ask(priority=9 if number == 0 else 0))
        elif what == "die":
            house.replicas.died("abcd"[number % 4])
        elif what == "known":
            house.replicas.known("abcd"[number % 3 :])
        elif call is not None and what == "taken" and call.replicas:
            call.taken("abcd"[number % 4])
        elif call is not None and what == "completed":
            call.completed()
            calls.remove(call)
    for call in calls:
        call.completed()
    house.check()
    arrived, ended = house.happened(Arrived), house.happened(Finished, Cancelled, Failed)
    assert len(ended) <= len(arrived)
    assert replay(house.trace.events, a_control(ceiling, 6)) == list(house.trace.actions)
