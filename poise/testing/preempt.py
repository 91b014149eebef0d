"""`check_preempt`: the contract of preemption rules as one function, for any preemption rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poise.core.policy import Preempt, Victim
from poise.testing.engine import check_inside


def check_preempt(make: Callable[[], Preempt], *, seed: int = 0, cases: int = 40) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Preempt` that those which `make()` builds do not keep.

    The rules, on `cases` random small workloads, each run to its end on a real replica whose own sums are checked:
    the victim is a `Victim` that runs on the lane;
    an equal copy answers the same; the view stays untouched; every request ends; and a batch held over many steps gives
    the same as single steps.
    """
    check_inside("preempt", make, _wrong, seed=seed, cases=cases)


def _wrong(given: tuple[Any, ...], answer: Any) -> str:
    """The victim runs on the lane."""
    (lane,) = given
    if type(answer) is not Victim:
        return "it must be a Victim"
    running = {each.id for each in (*lane.prefilling, *lane.decodes())}
    return "" if answer.request in running else f"those that run here are {sorted(running)}"
