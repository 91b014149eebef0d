"""The space that options describe: lists of degrees and names as text."""

from __future__ import annotations

from typing import Any

from poise.core.errors import UserError
from poise.plan.training.space import Space

WORDS = ("recompute", "schedule")
"""Fields that are names; the others are numbers."""


def space_of(*, offload: bool, **given: str) -> Space:
    """The search space from options as typed, as in tensor="1,2,4"; UserError for a number, ScenarioError for names."""
    fields: dict[str, Any] = {name: _listed(name, value) for name, value in given.items()}
    return Space(offload=offload, **fields)


def _listed(name: str, value: str) -> tuple[Any, ...]:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if name in WORDS:
        return tuple(parts)
    option = name.replace("_", "-")
    if name == "offload_activations":
        return tuple(_part(option, value, part) for part in parts)
    for part in parts:
        if not part.isdigit() or (name != "zero" and int(part) < 1):
            raise UserError(f"--{option} {value!r}: {part!r} is not a degree; give whole numbers from 1, as in 1,2,4")
    return tuple(int(part) for part in parts)


def _part(option: str, value: str, part: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise UserError(f"--{option} {value!r}: {part!r} is not a number; give 0 to 1, as in 0,0.5") from None
