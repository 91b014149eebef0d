"""The queue in flows: who goes first, and when its policy is told what was served."""

from __future__ import annotations

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

from poise.core.engine.flows import Flows
from poise.core.request import RequestView, Sequence


class Tokens:
    """The flow with the fewest tokens served goes first; notes what it is told."""

    def __init__(self) -> None:
        self.tokens: dict[Any, int] = {}
        self.calls: list[tuple[Any, ...]] = []

    def queue(self, request: RequestView) -> int:
        return request.priority

    def flow(self, request: RequestView) -> int:
        return request.tenant

    def rank(self, flow: Any, ahead: Any, now: int) -> int:
        return self.tokens.get(flow, 0) + sum(request.prompt_tokens for request in ahead)

    def joined(self, request: RequestView, waiting: Any) -> None:
        self.calls.append(("joined", request.tenant, sorted(waiting)))

    def charge(self, request: RequestView, prompt_tokens: int, output_tokens: int) -> None:
        self.calls.append(("charge", request.tenant, prompt_tokens, output_tokens))
        flow: Hashable = request.tenant
        self.tokens[flow] = self.tokens.get(flow, 0) + prompt_tokens + output_tokens


def a_queue() -> tuple[Flows, Tokens]:
    policy = Tokens()
    replica: Any = SimpleNamespace(space=SimpleNamespace(now=7), made=lambda sequence, now, passed: sequence.produced)
    return Flows(policy, replica), policy


def waiting(number: int, tenant: int, prompt: int = 10, priority: int = 0) -> Sequence:
    return Sequence(RequestView(number, number, prompt, tenant=tenant, priority=priority), 5)


def ids(queue: Flows) -> list[int]:
    return [sequence.id for sequence in queue.ordered()]


def test_flows_take_turns_as_if_each_before_were_admitted() -> None:
    queue, _ = a_queue()
    for number, tenant in enumerate((0, 0, 0, 1, 1)):
        queue.push(waiting(number, tenant))
    assert ids(queue) == [0, 3, 1, 4, 2]
    assert len(queue) == 5


def test_a_key_orders_a_flow_and_a_new_head_is_notified() -> None:
    queue, _ = a_queue()
    assert queue.push(waiting(0, 0, priority=1))
    assert queue.push(waiting(1, 0, priority=0))
    assert not queue.push(waiting(2, 0, priority=1))
    assert ids(queue) == [1, 0, 2]


def test_what_was_made_is_charged_once_at_the_next_look_after_a_change() -> None:
    queue, policy = a_queue()
    first, second = waiting(0, 0), waiting(1, 0)
    for sequence in (first, second, waiting(2, 1)):
        queue.push(sequence)
    queue.remove(first)
    queue.admit(first, 10)
    first.produced = 3
    assert ids(queue) == [2, 1]
    assert policy.calls == [
        ("charge", 0, 10, 0), ("charge", 0, 0, 3), ("joined", 0, []), ("joined", 1, [0]),
    ]  # fmt: skip
    first.produced = 4
    assert ids(queue) == [2, 1]  # nothing has changed
    assert len(policy.calls) == 4
    queue.stir()
    assert ids(queue) == [2, 1]
    first.produced = 5
    queue.end(first)
    assert policy.calls[4:] == [("charge", 0, 0, 1), ("charge", 0, 0, 1)]


def test_who_gave_way_is_not_charged_again() -> None:
    queue, policy = a_queue()
    first = waiting(0, 0)
    queue.push(first)
    queue.remove(first)
    queue.admit(first, 10)
    queue.push_front(first)
    queue.push(waiting(1, 0))
    queue.push(waiting(2, 1))
    assert ids(queue) == [2, 0, 1]
    queue.remove(first)
    queue.admit(first, 10)
    assert [entry for entry in policy.calls if entry[0] == "charge"] == [("charge", 0, 10, 0), ("charge", 0, 0, 0)]


def test_a_flow_without_waiting_requests_is_not_notified() -> None:
    queue, policy = a_queue()
    gone = waiting(0, 0)
    queue.push(gone)
    queue.remove(gone)
    queue.push(waiting(1, 1))
    assert ids(queue) == [1]
    assert policy.calls == [("joined", 1, [])]
