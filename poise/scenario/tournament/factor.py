"""The factors of a tournament of policies: slots of policies, and fields of the scenario by their dotted path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.core.slot import SCENARIO
from poise.experiment.tournament.factor import Factor
from poise.scenario.override import Override
from poise.scenario.policy_spec import chosen_in, labels


def is_slot(factor: Factor) -> bool:
    """Whether a factor is a slot of policies."""
    return factor.name in SCENARIO


def override(factor: Factor, level: int) -> Override:
    """The scenario overrides of a level."""
    parts = ("policies", factor.name) if is_slot(factor) else tuple(factor.name.split("."))
    path = tuple(int(part) if part.isdecimal() else part for part in parts)
    return path, factor.values[level], f"factors.{factor.name}"


def factor(name: str, values: Sequence[Any]) -> Factor:
    """A factor by its name and levels; ValueError where a level names no policy or stands twice."""
    if any(value in values[:at] for at, value in enumerate(values)):
        raise ValueError("a level stands twice; keep it once, or give it other parameters")
    names = labels(chosen_in(name, list(values))) if name in SCENARIO else [str(value) for value in values]
    return Factor(name, tuple(names), tuple(values))
