"""The kit has a contract for every slot, and each of them can be broken."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from poise import testing
from poise.core.action import Move, Wake
from poise.core.placement import Placement
from poise.core.policy import Victim
from poise.core.slot import SLOTS
from poise.experts import in_order
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.policies.place.melange import Melange
from poise.testing import RuleBroken, check_policy

_CALLS = count()


def _lies(slot: str, answer: Any, **attributes: Any) -> type:
    """A class for a slot that always answers the same, or what a function of its arguments says."""

    def called(self: Any, *given: Any) -> Any:
        return answer(*given) if callable(answer) else answer

    also = {"needs": (), **{name: called for name in SLOTS[slot].also if name != "needs"}, **attributes}
    return type("Liar", (), {**also, SLOTS[slot].verb: called})


BROKEN = {
    "mover": (_lies("mover", [Move(10**9, 0, 1)]), "a request moves from where it is"),
    "predictor": (_lies("predictor", -1), "tokens are a whole number"),
    "hedge": (_lies("hedge", lambda *given: given[1], wait=lambda *given: 1), "it must be one of"),
    "forecast": (_lies("forecast", -1.0), "0 or more"),
    "recovery": (_lies("recovery", [Wake(0)], resumes=True), "name a later instant"),
    "queue": (_lies("queue", lambda request: next(_CALLS)), "keep no state outside the object"),
    "preempt": (_lies("preempt", Victim(10**6)), "those that run here are"),
    "cache": (_lies("cache", -5), "0 to leave it to LRU"),
    "placer": (_lies("placer", Placement((1,), (), (), 0.0, 0.0)), "one for each of"),
    "cap": (_lies("cap", (1.0, 1.5)), "at most 1"),
    "expert_balancer": (_lies("expert_balancer", lambda view: in_order(1, 1, 1)), "it must be of"),
}
KNOWN = {"router", "order", "admission", "lender", "scaler", "batcher"}
"""Those whose kits have tests of their own."""


def test_every_slot_has_a_contract() -> None:
    assert {*BROKEN, *KNOWN} == set(SLOTS)
    for slot in SLOTS:
        assert callable(getattr(testing, f"check_{slot}")) and f"check_{slot}" in testing.__all__


@pytest.mark.parametrize("slot", BROKEN)
def test_a_broken_rule_is_found(slot: str) -> None:
    kind, expected = BROKEN[slot]
    with pytest.raises(RuleBroken, match=expected):
        check_policy(slot, kind)


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot not in KNOWN])
def test_what_is_no_policy_of_the_slot_is_refused(slot: str) -> None:
    with pytest.raises(RuleBroken, match=f"no method '{SLOTS[slot].verb}'"):
        check_policy(slot, object)


@pytest.mark.parametrize("slot", [slot for slot in BROKEN if set(SLOTS[slot].also) - {"needs"}])
def test_what_a_slot_must_have_besides_is_required(slot: str) -> None:
    lacking = type("Lacking", (), {"needs": (), SLOTS[slot].verb: lambda self, *given: None})
    with pytest.raises(RuleBroken, match=f"which a {slot} must have"):
        check_policy(slot, lacking)


def test_a_pin_by_chance_and_a_price_that_is_wrong_are_found() -> None:
    class Fickle(FixedTtl):
        def cache(self, *given: Any) -> int:
            return next(_CALLS)

    class Cheap(Melange):
        def place(self, *given: Any) -> Placement:
            return replace(super().place(*given), price=0.5)

    with pytest.raises(RuleBroken, match="keep no state outside the object"):
        check_policy("cache", Fickle)
    with pytest.raises(RuleBroken, match=r"says price 0\.5"):
        check_policy("placer", Cheap)
