"""`check_cache`: the contract of cache rules as one function, for any cache rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poise.core.policy import Cache
from poise.testing.engine import check_inside


def check_cache(make: Callable[[], Cache], *, seed: int = 0, cases: int = 40) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Cache` that those which `make()` builds do not keep.

    The rules, on `cases` random small workloads, each run to its end on a real replica whose own sums are checked:
    the answer is whole picoseconds, not below 0;
    an equal copy answers the same; the view stays untouched; every request ends; and a batch held over many steps gives
    the same as single steps.
    """
    check_inside("cache", make, _wrong, seed=seed, cases=cases)


def _wrong(given: tuple[Any, ...], answer: Any) -> str:
    """How long is a whole number of picoseconds."""
    return "" if type(answer) is int and answer >= 0 else "give whole picoseconds, 0 to leave it to LRU"
