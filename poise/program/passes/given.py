"""What passes are given for each stage or rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from poise.core.errors import ProgramError
from poise.program.program import Program


def for_stages(name: str, given: Sequence[float], program: Program) -> list[float]:
    """One number for each stage; ProgramError where there are too few, or one is negative or infinite."""
    stages = 1 + max((stage for path in program.paths for stage in path), default=-1)
    return checked(name, given, stages, "stages")


def for_ranks(name: str, given: Sequence[float], program: Program) -> list[float]:
    """One number for each rank, likewise."""
    return checked(name, given, program.ranks, "ranks")


def checked(name: str, given: Sequence[float], count: int, of: str) -> list[float]:
    """`given` as numbers, one for each of `count`; ProgramError likewise."""
    if len(given) != count:
        raise ProgramError(f"{name}: {len(given)} numbers for {count} {of}; give one for each")
    wrong = next((each for each in given if not (isfinite(each) and each >= 0)), None)
    if wrong is not None:
        raise ProgramError(f"{name}: {wrong:g} is no number of bytes; give 0 or more")
    return [float(each) for each in given]
