"""Numbers that are too large for any run, refused with their place before they overflow something far from the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from poise.scenario.place import Path, Places

LARGEST = 1e15
"""The largest number of a file, about the nanoseconds of 11 days: products of two stay far from a float's end."""

LONGEST_S = 4_000_000
"""The longest time in seconds (46 days): the sum of two stays below the 106 days that 64 bits of picoseconds hold."""

SEEDS = ("seeds", "seed")
"""Fields whose numbers are names."""


def check_magnitude(data: Any, places: Places) -> None:
    """Raise ScenarioError for the first number of a file that no run can take."""
    for path, value in _numbers(data, ()):
        field = next((key for key in reversed(path) if isinstance(key, str)), "")
        most, why = (LONGEST_S, "46 days") if any(map(_is_time, path)) else (LARGEST, "a quadrillion")
        if abs(value) > most and field not in SEEDS:
            side = f"at most {most:,.0f}" if value > 0 else f"at least −{most:,.0f}"
            raise places.error(path, f"{_short(value)} must be {side} ({why}); give less, or leave it out")


def _is_time(key: str | int) -> bool:
    """Whether a field is a time of the run: in seconds, neither GB/s nor a place in a record."""
    return isinstance(key, str) and key.endswith("_s") and not key.endswith("gb_s") and key != "begin_s"


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, int | float]]:
    """The finite numbers within plain data; the schema refuses others."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _numbers(each, (*path, at))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value not in (float("inf"), float("-inf")):
        yield path, value


def _short(value: float) -> str:
    """The number in few characters; a whole one of any length, too."""
    return repr(value) if isinstance(value, float) or abs(value) < 10**18 else "a number of more than 18 digits"
