"""The factors of a tournament: what is varied, and in which levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Combination = tuple[int, ...]
"""A level of each factor, by number; all 0 is the reference."""


@dataclass(frozen=True, slots=True)
class Factor:
    """levels: their names.  values: their values."""

    name: str
    levels: tuple[str, ...]
    values: tuple[Any, ...]


def reference(factors: Sequence[Factor]) -> Combination:
    """The first level of every factor."""
    return (0,) * len(factors)


def alone(factors: Sequence[Factor]) -> list[Combination]:
    """The reference, and every combination that differs from it in one factor."""
    found = [reference(factors)]
    for at, each in enumerate(factors):
        found += [(*found[0][:at], level, *found[0][at + 1 :]) for level in range(1, len(each.levels))]
    return found


def every(factors: Sequence[Factor]) -> list[Combination]:
    """All combinations."""
    return list(product(*(range(len(each.levels)) for each in factors)))


def label(factors: Sequence[Factor], chosen: Combination) -> str:
    """A combination in words: its differences from the reference, `reference` where there are none."""
    changed = [each.levels[level] for each, level in zip(factors, chosen, strict=True) if level]
    return " + ".join(changed) or "reference"
