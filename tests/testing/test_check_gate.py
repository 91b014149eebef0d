"""`check_order` and `check_admission` let sound policies pass and name the rule that an unsound one breaks."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from poise.core.action import Hold, Reject
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.testing import RuleBroken, check_admission, check_order


class Sound:
    """By tenant, who was sent least first; what the others below break one rule of."""

    needs: Any = ("requests",)

    def __init__(self) -> None:
        self.sent: dict[int, int] = {}

    def flow(self, request: RequestView) -> Any:
        return request.tenant

    def key(self, request: RequestView) -> Any:
        return request.priority

    def order(self, flow: Any, cluster: ClusterView) -> Any:
        return self.sent.get(flow, 0) + min(cluster.requests)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        self.sent[request.tenant] = self.sent.get(request.tenant, 0) + 1


class Unhashable(Sound):
    def flow(self, request: RequestView) -> Any:
        return [request.tenant]


class Incomparable(Sound):
    def key(self, request: RequestView) -> Any:
        return None if request.id % 2 else 1


class Mixed(Sound):
    def order(self, flow: Any, cluster: ClusterView) -> Any:
        return str(flow) if flow == 1 else 1


class Random(Sound):
    def order(self, flow: Any, cluster: ClusterView) -> Any:
        return random.random()


class Undeclared(Sound):
    needs = ()


class Meddling(Sound):
    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        cluster.requests[replica] += 1  # type: ignore[index]


class Uncopied(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_sound_order_passes() -> None:
    check_order(Sound)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Unhashable, "unhashable"),
        (Incomparable, "cannot be compared"),
        (Mixed, "cannot be compared"),
        (Random, "keep no state outside the object and draw no chance"),
        (Undeclared, "add 'requests'"),
        (Meddling, r"changed `cluster.requests`"),
        (Uncopied, "deepcopy"),
    ],
)
def test_an_unsound_order_is_reported(order: type, message: str) -> None:
    with pytest.raises(RuleBroken, match=message):
        check_order(order)


class Admits:
    """All with few requests."""

    needs: Any = ("requests",)

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return [replica for replica in able if cluster.requests[replica] < 9]


class Reversed(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return list(reversed(able))


class Others(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return [*able, 99]


class Silent(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return None


class Late(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return Reject("full", 0.5)  # type: ignore[arg-type]


class Stubborn(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return Hold("never") if request.prompt_tokens > 100_000 else able


class Patient(Admits):
    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        return Hold("later", cluster.now + 5)


class Door(Admits):
    def enter(self, request: RequestView, cluster: ClusterView) -> Any:
        return Hold("no")


class Counts(Admits):
    """What it is told of the life of requests must add up."""

    def __init__(self) -> None:
        self.waiting = self.sent = 0

    def joined(self, request: RequestView) -> None:
        self.waiting += 1

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        self.waiting -= 1
        assert self.waiting == 0, "each is decided before the next arrives"
        self.sent += 1

    def ended(self, request: RequestView) -> None:
        if self.waiting:
            self.waiting -= 1
        else:
            self.sent -= 1
        assert self.sent >= 0


@pytest.mark.parametrize("admission", [Admits, Patient, Counts])
def test_a_sound_admission_passes(admission: type) -> None:
    check_admission(admission)


@pytest.mark.parametrize(
    ("admission", "message"),
    [
        (Reversed, "in that order"),
        (Others, "in that order"),
        (Silent, "answers None"),
        (Late, "whole number of picoseconds"),
        (Stubborn, "nothing will ever ask again"),
        (Door, "must be None or a Reject"),
    ],
)
def test_an_unsound_admission_is_reported(admission: type, message: str) -> None:
    with pytest.raises(RuleBroken, match=message):
        check_admission(admission)
