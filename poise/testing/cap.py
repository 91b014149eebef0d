"""`check_cap`: the contract of power knobs as one function, for any knob."""

from __future__ import annotations

import random
from collections.abc import Callable

from poise.core.policy import Cap
from poise.core.slot import SLOTS
from poise.testing.rule import RuleBroken
from poise.testing.twins import twins

_READINGS = 300


def check_cap(make: Callable[[], Cap], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Knob` that those which `make()` builds do not keep.

    The rules: equal fresh copies that read the same power answer the same, deep copies too; the answer is two clocks,
    of low and of high priority, above 0 and at most the full one, 1. Tried on a power that varies up to its budget
    and beyond.
    """
    both, _ = twins("cap", make)
    rng, power, now_s = random.Random(seed), 0.5, 0.0
    for number in range(_READINGS):
        if number == _READINGS // 2:
            both.join_copy()
        power, now_s = min(max(power + rng.uniform(-0.1, 0.1), 0.0), 1.2), now_s + rng.choice((1.0, 2.0, 60.0))
        both.where = f"at {now_s:g} s, at a power of {power:.3f}"
        answer = both.ask(SLOTS["cap"].verb, power, now_s)
        if not isinstance(answer, tuple) or len(answer) != 2 or not all(0 < clock <= 1 for clock in answer):
            raise RuleBroken(f"{both.who} answers {answer!r}; give two clocks, above 0 and at most 1; {both.where}")
