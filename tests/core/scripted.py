"""A router that does as a function says, and a control that asks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from poise.core.action import Decision, Hold, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.event import Arrived
from poise.core.request import RequestView
from poise.core.slot import SCENARIO
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from poise.policies import Policies

Rule = Callable[[RequestView, ClusterView], Any]


class Scripted:
    """Routes as a function says."""

    def __init__(self, rule: Rule, needs: tuple[str, ...] = ("requests",)) -> None:
        self.rule = rule
        self.needs = needs

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Decision:
        decision: Decision = self.rule(request, cluster)
        return decision


class Hasty:
    """Send copies of all but every third request somewhere else after a while, and ask again if one may not.

    Four times at most, for a mover that moves everybody at every wake would otherwise let nobody come to its turn.
    """

    needs = ()

    def __init__(self, wait: int) -> None:
        self.after = wait
        self.calls: Counter[int] = Counter()

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        self.calls[request.id] += 1
        return self.after * (request.id % 3) if self.calls[request.id] <= 4 else 0

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        return chance.pick(able) if (cluster.now // self.after + request.id) % 4 else None


def first_able(request: RequestView, cluster: ClusterView) -> Decision:
    return Route(cluster.able(request)[0])


def at_most(count: int) -> Rule:
    """Hold whatever finds `count` requests everywhere."""

    def rule(request: RequestView, cluster: ClusterView) -> Decision:
        free = [replica for replica in cluster.able(request) if cluster.requests[replica] < count]
        return Route(free[0]) if free else Hold("full")

    return rule


def bundled(settings: dict[str, Any], **policies: Any) -> Policies:
    """These policies, and those of the settings, which are taken out of them."""
    return Policies(**policies, **{slot: settings.pop(slot) for slot in SCENARIO if slot in settings})


def a_control(rule: Rule = first_able, replicas: int | list[ReplicaSpec] = 1, **settings: Any) -> Control:
    specs = [ReplicaSpec()] * replicas if isinstance(replicas, int) else replicas
    return Control(bundled(settings, router=Scripted(rule)), specs, **settings)


def a_request(number: int, at: int = 0, prompt: int = 10, **fields: Any) -> RequestView:
    return RequestView(number, at, prompt, **fields)


def arrive(control: Control, *numbers: int, at: int = 0) -> list[Any]:
    return [action for number in numbers for action in control.handle(Arrived(at, a_request(number, at)))]


def held(control: Control) -> list[int]:
    return [request.id for request in control.held]
