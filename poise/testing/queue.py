"""`check_queue`: the contract of queues as one function, for any queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poise.core.policy import Queue
from poise.testing.engine import check_inside


def check_queue(make: Callable[[], Queue], *, seed: int = 0, cases: int = 40) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Queue` that those which `make()` builds do not keep.

    The rules, on `cases` random small workloads, each run to its end on a real replica whose own sums are checked:
    a key can be compared with those of the other waiting requests;
    an equal copy answers the same; the view stays untouched; every request ends; and a batch held over many steps gives
    the same as single steps.
    """
    check_inside("queue", make, _wrong, seed=seed, cases=cases)


def _wrong(given: tuple[Any, ...], answer: Any) -> str:
    """Keys are compared by the queue itself, which raises where they cannot be."""
    return ""
