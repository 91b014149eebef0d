"""`check_router` lets sound routers pass and tells the author of an unsound one which rule it breaks, and when."""

from __future__ import annotations

import random
import threading
from typing import Any, ClassVar

import pytest

from poise.core.action import Hold, Reject, Route
from poise.core.chance import Chance
from poise.core.event import Event
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.testing import RuleBroken, check_router


class Plain:
    """Any able replica; what the others below break one rule of."""

    needs: Any = ()

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(chance.pick(cluster.able(request)))


class TwoChoices(Plain):
    """The less busy of two that are drawn."""

    needs = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        two = {chance.pick(able, "first"), chance.pick(able, "second")}
        return Route(chance.least(sorted(two), lambda replica: cluster.requests[replica]))


class PrefixOrQueue(Plain):
    """Two columns and the cache together."""

    needs = ("queued_tokens", "free_blocks", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        queued, cached = cluster.queued_tokens, cluster.cached_tokens(request)
        return Route(chance.least(cluster.able(request), lambda replica: queued[replica] - cached[replica]))


class Cautious(Plain):
    """Holds and rejects too."""

    needs = ("waiting",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        if request.prompt_tokens > 1000:
            return Reject("too large")
        if min(cluster.waiting[replica] for replica in able) > 5:
            return Hold("all queues are long", cluster.now + 5)
        return Route(chance.least(able, cluster.waiting), fallback=tuple(able))


class Counting(Plain):
    """Learns from events, and keeps what it learns in itself."""

    def __init__(self) -> None:
        self.events = 0

    def observe(self, event: Event) -> None:
        self.events += 1

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        return Route(able[self.events % len(able)])


@pytest.mark.parametrize("router", [Plain, TwoChoices, PrefixOrQueue, Cautious, Counting])
@pytest.mark.parametrize("seed", range(3))
def test_sound_routers_pass(router: type, seed: int) -> None:
    check_router(router, seed=seed)


class ReadsUndeclared(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(chance.least(cluster.able(request), cluster.tokens))


class ReadsUndeclaredCache(Plain):
    needs = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(chance.least(cluster.able(request), cluster.cached_tokens(request)))


class NeedsUnknown(Plain):
    needs = ("requests", "temperature")


class NeedsText(Plain):
    needs = "requests"


class NeedsNone(Plain):
    def __init__(self) -> None:
        self.needs = None


class ChangesTheView(Plain):
    needs = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        chosen = chance.least(cluster.able(request), cluster.requests)
        cluster.requests[chosen] += 1  # type: ignore[index]
        return Route(chosen)


class PicksTheFirst(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(0)


class PicksTheIdle(Plain):
    needs = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(chance.least(range(len(cluster.requests)), cluster.requests))


class AnswersANumber(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return cluster.able(request)[0]


class AnswersATruth(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        return Route(True if 1 in able else able[0])


class AnswersNothing(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return None


class DrawsAtLarge(Plain):
    dice = random.Random(7)  # one for all copies; seeded, so that the same one of its breaches is met each time

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(self.dice.choice(cluster.able(request)))


class KeepsStateOutside(Plain):
    count: ClassVar[list[int]] = []

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        self.count.append(request.id)
        able = cluster.able(request)
        return Route(able[len(self.count) % len(able)])


class ForgetsWhenCopied(Counting):
    def __deepcopy__(self, memo: dict[int, Any]) -> ForgetsWhenCopied:
        return ForgetsWhenCopied()


class CannotBeCopied(Plain):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class TakesTheLowest(Plain):
    needs = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(min(cluster.able(request), key=lambda replica: cluster.requests[replica]))


class ChangesTheKey(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        chance.key += 1
        return super().route(request, cluster, chance)


class NeedsIdentity(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        return Route(able[request.ids[0] % len(able)])


class NeedsTwo(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        return Route(random.Random(request.id).sample(list(cluster.able(request)), 2)[0])


class PairsWithAnybody(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        return Route(able[0], decode=able[0])


class FallsBackBeyond(Plain):
    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        able = cluster.able(request)
        return Route(able[0], fallback=(able[-1] + 1,))


class WantsArguments(Plain):
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("router", "rule"),
    [
        (ReadsUndeclared, r"reads `cluster.tokens` but its `needs` are \(\).*add 'tokens'.*step 0.*prompt_tokens="),
        (ReadsUndeclaredCache, r"reads `cluster.cached_tokens\(request\)` but its `needs` are \('requests',\)"),
        (NeedsUnknown, "needs names 'temperature', which is not a column.*requests, tokens"),
        (NeedsText, "needs is 'requests'; it must be a tuple"),
        (NeedsNone, "needs is None; it must be a tuple"),
        (ChangesTheView, "changed `cluster.requests`.*in a cluster of one replica, step 0"),
        (PicksTheFirst, r"Route\(replica=0.*none of `cluster.able\(request\)`.*able \("),
        (PicksTheIdle, r"none of `cluster.able\(request\)`"),
        (AnswersANumber, "answers 0; it must be a Route, a Hold or a Reject"),
        (AnswersATruth, "replica=True.*none of"),
        (AnswersNothing, "answers None; it must be"),
        (DrawsAtLarge, "an equal fresh copy, asked the same.*draw through `chance` alone"),
        (KeepsStateOutside, "an equal fresh copy, asked the same.*no state outside the object"),
        (ForgetsWhenCopied, "its deep copy, asked the same"),
        (CannotBeCopied, r"copy.deepcopy\(CannotBeCopied\) raised TypeError.*Control deep-copies"),
        (TakesTheLowest, r"does not draw between equals: of \d+ requests.*\{0: \d+, 1: 0.*chance.least.*fair=False"),
        (ChangesTheKey, "changed the key or the seed of `chance`"),
        (NeedsIdentity, r"raised IndexError: tuple index out of range; in .*ids=\(\)"),
        (NeedsTwo, r"raised ValueError: Sample larger than population.*in a cluster of one replica"),
        (PairsWithAnybody, "decode replica is none that is able in the decode stage"),
        (FallsBackBeyond, "fallback names something that is not a replica"),
        (WantsArguments, r"WantsArguments\(\) raised TypeError.*give a function that builds it"),
    ],
)
def test_unsound_routers_are_reported_with_the_rule_and_the_input(router: type, rule: str) -> None:
    with pytest.raises(RuleBroken, match=rule) as raised:
        check_router(router)
    assert router.__name__ in str(raised.value)


def test_fairness_can_be_left_out() -> None:
    check_router(TakesTheLowest, fair=False)


def test_a_function_may_build_the_router() -> None:
    check_router(lambda: Counting())
    with pytest.raises(RuleBroken, match=r"^PicksTheFirst answers"):
        check_router(lambda: PicksTheFirst())
