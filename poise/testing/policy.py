"""`check_policy`: the contract of any slot's policies as one function."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from poise.core.slot import SLOTS


def check_policy(slot: str, make: Callable[[], Any], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule that the policies which `make()` builds for a slot do not keep.

    Each slot also has its own function, `check_<slot>`, whose docstring has the rules. KeyError for an unknown slot.
    """
    check = getattr(import_module(f"poise.testing.{SLOTS[slot].name}"), f"check_{slot}")
    check(make, seed=seed)
