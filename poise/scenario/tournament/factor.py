"""The factors of a tournament: what is varied, and in which levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from poise.core.slot import SCENARIO
from poise.scenario.choice import chosen_in, labels
from poise.scenario.override import Override

Combination = tuple[int, ...]
"""A level of each factor, by number; all 0 is the reference."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A slot of policies, or a field of the scenario by its dotted path. levels: what they are called, as written."""

    name: str
    levels: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def slot(self) -> bool:
        """Whether it is a slot of policies."""
        return self.name in SCENARIO

    def override(self, level: int) -> Override:
        """What sets a level in a scenario."""
        parts = ("policies", self.name) if self.slot else tuple(self.name.split("."))
        path = tuple(int(part) if part.isdecimal() else part for part in parts)
        return path, self.values[level], f"factors.{self.name}"


def factor(name: str, values: Sequence[Any]) -> Factor:
    """A factor by its name and levels; ValueError where a level names no policy or stands twice."""
    if any(value in values[:at] for at, value in enumerate(values)):
        raise ValueError("a level stands twice; keep it once, or give it other parameters")
    told = labels(chosen_in(name, list(values))) if name in SCENARIO else [str(value) for value in values]
    return Factor(name, tuple(told), tuple(values))


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
    """A combination in words: what differs from the reference, `reference` where nothing does."""
    told = [each.levels[level] for each, level in zip(factors, chosen, strict=True) if level]
    return " + ".join(told) or "reference"
