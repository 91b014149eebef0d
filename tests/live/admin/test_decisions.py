"""Receipts: every decision once, with what the router saw when it decided; and looking changes nothing."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Dispatch, Refuse, Reject, Route
from poise.core.chance import Chance
from poise.core.control.shadow import shadowed
from poise.core.errors import PolicyError
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.live.admin.decision_dict import as_dict
from poise.live.admin.decisions import Receipts
from poise.live.admin.observed_policy import ObservedPolicy, plain, seen
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache

from ..gateway.fakes import Bench

PROMPT = {"ids": (1, 2), "ends": (64, 128)}


def test_what_the_router_saw_is_what_was_before_its_own_choice() -> None:
    bench = Bench(2, PrefixCache())
    receipts = Receipts(bench.world)
    receipts.open()
    bench.ask(prompt=130, **PROMPT)
    bench.ask(prompt=130, **PROMPT)
    first, second = receipts.kept
    assert first.grounds is not None and second.grounds is not None
    assert first.grounds.columns["cached_tokens"] == (0, 0), "not what this very choice put there"
    chosen = first.grounds.names.index(first.engine)
    assert second.engine == first.engine
    assert second.grounds.columns["cached_tokens"][chosen] == 128
    assert second.grounds.columns["requests"][chosen] == 1


def test_without_a_look_there_are_decisions_without_grounds() -> None:
    bench = Bench(2)
    receipts = Receipts(bench.world)
    bench.ask(prompt=7)
    (only,) = receipts.kept
    assert (only.request, only.prompt_tokens, only.outcome, only.grounds) == (0, 7, "sent", None)
    assert not isinstance(bench.control.router, ObservedPolicy)


def test_a_held_request_has_its_reason_and_its_wait() -> None:
    bench = Bench(1, admission=[Ceiling(1)])
    receipts = Receipts(bench.world)
    receipts.open()
    bench.ask()
    bench.ask()
    bench.ask()
    bench.now += 5 * 10**12
    bench.calls[0].answer()
    kept = [(each.request, each.outcome, each.reason) for each in receipts.kept]
    assert kept == [
        (0, "sent", ""),
        (1, "held", "every engine has as much as it may be sent"),
        (2, "held", "others wait before it"),
        (1, "sent", ""),
    ]
    assert receipts.kept[-1].waited >= 5 * 10**12


def test_a_request_held_for_lack_of_engines_has_that_reason() -> None:
    bench = Bench(1)
    receipts = Receipts(bench.world)
    bench.world.fleet.eject(bench.engines[0])
    bench.ask()
    assert receipts.kept[0].reason == "no engine can take it now"


def test_another_try_says_what_the_first_one_met() -> None:
    bench = Bench(2)
    receipts = Receipts(bench.world)
    bench.ask()
    bench.calls[0].fail("refused")
    first, second = receipts.kept
    assert (first.outcome, second.outcome) == ("sent", "sent") and first.engine != second.engine
    assert second.reason == f"{first.engine}: was refused"


def test_a_refused_request_names_the_policy() -> None:
    class Full:
        needs = ()

        def admit(self, request: RequestView, able: object, cluster: ClusterView) -> Reject:
            return Reject("full up", 10**12)

    bench = Bench(1, admission=[Full()])
    receipts = Receipts(bench.world)
    receipts.open()
    bench.ask()
    (only,) = receipts.kept
    assert (only.outcome, only.reason) == ("refused", "full up") and only.grounds is not None


def test_the_choice_of_a_shadow_is_shown_beside_the_other() -> None:
    class Last:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            return Route(1)

    bench = Bench(2, shadowed(LeastRequests(), Last()))
    receipts = Receipts(bench.world)
    receipts.open()
    bench.ask()
    text = as_dict(receipts.kept[0], [], 0)
    assert [each["name"] for each in text["engines"] if each.get("shadow")] == ["e1"]
    receipts.close()
    assert type(bench.control.router.shadow) is Last and bench.control.router.agreement.decisions == 1


def test_only_so_many_are_kept_and_only_some_with_grounds() -> None:
    bench = Bench(1)
    receipts = Receipts(bench.world, kept=100)
    receipts.open()
    for _ in range(120):
        bench.ask()
    assert receipts.count == 120 and len(receipts.kept) == 100
    assert sum(each.grounds is not None for each in receipts.kept) == 30, "50 a second, of which 20 are forgotten"
    assert [each.number for each in receipts.since(118)] == [119, 120]
    assert len(receipts.since(0)) == 100 and receipts.since(120) == []


def test_an_error_goes_on_naming_the_policy() -> None:
    class Wrong:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            return Route(9)

    bench = Bench(1, Wrong())
    Receipts(bench.world).open()
    bench.ask()
    assert bench.world.policy_error.startswith("Wrong routed request 0 to replica 9")
    with pytest.raises(PolicyError, match="Wrong"):
        raise PolicyError(bench.world.policy_error)


def test_a_copy_of_a_policy_that_is_looked_at_is_a_policy() -> None:
    watched = seen(Ceiling(3), lambda request, cluster, answer: None)
    copied = copy.deepcopy(watched)
    assert type(copied) is Ceiling and copied.requests == 3 and watched.requests == 3
    assert plain(watched) is watched.policy and plain(copied) is copied


@given(st.lists(st.sampled_from(["ask", "answer", "fail", "leave", "look", "away"]), max_size=40))
def test_looking_changes_no_decision_and_each_is_shown_once(script: list[str]) -> None:
    benches = [Bench(2, PrefixCache(), admission=[Ceiling(2)]) for _ in range(2)]
    receipts = Receipts(benches[0].world)
    for bench in benches:
        requests = []
        for step in script:
            if step == "ask":
                requests.append(bench.ask(prompt=130, **PROMPT)[1])
            elif step == "leave" and requests:
                requests.pop().leave()
            elif step in ("answer", "fail") and bench.calls:
                bench.calls[0].answer() if step == "answer" else bench.calls[0].fail("reset")
            elif step in ("look", "away") and bench is benches[0]:
                receipts.open() if step == "look" else receipts.close()
    actions = [list(bench.trace.actions) for bench in benches]
    assert actions[0] == actions[1]
    decided = [each for each in actions[0] if type(each) in (Dispatch, Refuse)]
    assert sum(each.outcome in ("sent", "refused") for each in receipts.kept) == len(decided)
    assert receipts.count == len(receipts.kept)
