"""One table of slots: what is derived from it agrees with it, and a misspelt hook is no silence."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import poise
from poise.core.control.control import _HANDLERS
from poise.core.errors import PolicyError, ScenarioError, UserError
from poise.core.policy import Bundle
from poise.core.records.trace import Trace
from poise.core.slot import CONTROL, ENGINE, EXCHANGEABLE, SCENARIO, SLOTS, check_policy
from poise.policies import Policies
from poise.policies.find import build
from poise.policies.route.least_requests import LeastRequests
from tests.sim.cases import Case, cases

ROOT = Path(poise.__file__).parent


def test_the_bundle_has_a_field_for_each_slot_of_a_scenario() -> None:
    assert {each.name for each in fields(Bundle)} == set(SCENARIO) == {*CONTROL, *ENGINE}
    assert list(inspect.signature(Policies).parameters) == list(SCENARIO)
    assert set(EXCHANGEABLE) < set(CONTROL)


def test_every_folder_of_policies_is_a_slots() -> None:
    folders = [each.name for each in (ROOT / "policies").iterdir() if any(each.glob("*.py"))]
    assert sorted(folders) == sorted([*(slot.verb for slot in SLOTS.values()), "kit"])


def test_every_hook_is_called_somewhere() -> None:
    """A name in the table that nothing outside the policies reads would be a hook that is never called."""
    text = "".join(
        file.read_text(encoding="utf-8")
        for room in ("core", "sim", "live", "scenario")
        for file in sorted((ROOT / room).rglob("*.py"))
        if file.name != "slot.py"
    )
    for slot in SLOTS.values():
        for hook in (*slot.also, *slot.hooks):
            assert f'"{hook}"' in text or f".{hook}" in text, (slot.name, hook)


@given(cases())
@settings(max_examples=10)
def test_a_slot_is_called_upon_the_events_that_the_table_names(case: Case) -> None:
    world = case.build(one_step=False, check=False, trace=Trace())
    now: list[Any] = [None]
    requests: set[tuple[str, Any]] = set()
    with pytest.MonkeyPatch.context() as patch:
        for control in world.gateways.controls:
            patch.setattr(control, "handle", _noting(control.handle, now))
            for slot in CONTROL:
                held = control.own[slot]
                for policy in held if isinstance(held, tuple) else (held,):
                    if policy is not None:
                        _listen(patch, slot, type(policy), lambda slot: requests.add((slot, now[0])))
        world.simulate()
    assert all(event in SLOTS[slot].hears for slot, event in requests), requests
    assert {event for slot in SLOTS.values() for event in slot.hears} < set(_HANDLERS)


def _noting(handle: Any, now: list[Any]) -> Any:
    def handled(event: Any) -> Any:
        now[0] = type(event)
        return handle(event)

    return handled


def _listen(patch: pytest.MonkeyPatch, slot: str, kind: type, note: Any) -> None:
    method = SLOTS[slot].verb
    inner = getattr(kind, method)

    def called(self: Any, *given: Any) -> Any:
        note(slot)
        return inner(self, *given)

    patch.setattr(kind, method, called)


def _slips(name: str) -> set[str]:
    """The name with one letter dropped, doubled or exchanged for its neighbour, in its second half."""
    at = len(name) // 2
    return {
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    }


CALLED = [
    (slot.name, hook)
    for slot in SLOTS.values()
    for hook in (*slot.also, *slot.hooks)
    if "(" in {**slot.also, **slot.hooks}[hook] and len(hook) > 4
]
"""The hooks that are methods."""


@pytest.mark.parametrize(("slot", "hook"), CALLED)
def test_a_misspelt_hook_is_an_error_that_names_the_right_one(slot: str, hook: str) -> None:
    known = {each for other in SLOTS.values() for each in other.known}
    for slip in sorted(_slips(hook) - known):
        kind = type("Slip", (), {SLOTS[slot].verb: lambda self: None, slip: lambda self: None})
        with pytest.raises(PolicyError, match=rf"Slip\.{slip} is almost '\w+', by which a {slot} is asked"):
            check_policy(slot, kind())


def test_it_is_found_wherever_a_policy_comes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slip(LeastRequests):
        def observes(self, event: Any) -> None: ...

    with pytest.raises(PolicyError, match=r"Slip\.observes is almost 'observe'"):
        Policies(router=Slip())
    (tmp_path / "slipping_routers.py").write_text(
        "class Slip:\n    needs = ()\n    def route(self, *given): ...\n    def observ(self, event): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ScenarioError, match=r"policies\.router: slipping_routers:Slip: Slip\.observ is almost"):
        build("router", "slipping_routers:Slip")


def test_a_policy_may_have_methods_of_its_own() -> None:
    class Own(LeastRequests):
        reach = 3

        def weigh(self) -> None: ...

        def _observes(self) -> None: ...

        def keep(self) -> None:
            """One object may fill several slots."""

    assert Policies(router=Own())


def test_policies_by_name() -> None:
    named = Policies(router="prefix_cache", order={"edf": {"ttft_s": 2.0}}, admission=["ceiling", "early_reject"])
    assert named == Policies(
        router=build("router", "prefix_cache"), order=build("order", "edf", {"ttft_s": 2.0}),
        admission=(build("admission", "ceiling"), build("admission", "early_reject")),
    )  # fmt: skip
    assert Policies(admission="ceiling").admission == (build("admission", "ceiling"),)
    with pytest.raises(UserError) as caught:
        Policies(router="prefix_cash")
    assert str(caught.value).startswith("policies.router: 'prefix_cash' is no router; did you mean prefix_cache")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("slot", "wrong", "message"),
    [
        ("router", 3, "router is 3, which has no method 'route'"),
        ("router", LeastRequests, r"give an object of it, as in LeastRequests\(\)"),
        ("mover", LeastRequests(), "which has no method"),
        ("admission", [3], "which has no method 'admit'"),
        ("batcher", {"a": {}, "b": {}}, "names no policy; give NAME"),
    ],
)
def test_what_cannot_fill_a_slot_is_refused(slot: str, wrong: Any, message: str) -> None:
    with pytest.raises((PolicyError, ScenarioError), match=message):
        Policies(**{slot: wrong})


def test_one_object_in_several_slots_of_an_engine_stays_one() -> None:
    class Both:
        def queue(self, request: Any) -> int:
            return 0

        def cache(self, request: Any, sequence: Any, lane: Any) -> int:
            return 0

    both = Both()
    mine = Policies(queue=both, cache=both).for_engine()
    assert mine.queue is mine.cache is not both
