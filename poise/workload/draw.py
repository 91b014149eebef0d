"""Chance for workloads: each column has its own stream, keyed by seed and purpose, so that none shifts another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import NEVER, SECOND


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the generator of `purpose` (a column's name) under `seed` (0 or more): equal keys give equal draws.

    Draws come in row order, so a shorter workload is the beginning of a longer one.
    """
    return np.random.default_rng([count("seed", seed, least=0), *purpose.encode()])


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """Return `value` as a float when it is a finite number above 0 (from 0 with `zero`), else raise ScenarioError."""
    _number(name, value)
    if value < 0 or (value == 0 and not zero):
        raise ScenarioError(f"{name} is {value!r}; it must be {'0 or more' if zero else 'above 0'}")
    return float(value)


def count(name: str, value: float, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """Return `value` as an int when it is a whole number from `least` to `most`, else raise ScenarioError."""
    _number(name, value)
    if value != int(value) or not least <= value <= most:
        upper = f" and at most {most}" if most < 2**63 - 1 or value > most else ""
        raise ScenarioError(f"{name} is {value!r}; it must be a whole number of at least {least}{upper}")
    return int(value)


def durations(name: str, drawn: NDArray[np.float64]) -> NDArray[np.int64]:
    """Drawn seconds as picoseconds; ScenarioError where one is longer than any run."""
    if drawn.max(initial=0.0) * SECOND >= NEVER:
        raise ScenarioError(f"{name} draws {drawn.max():g} s, and a run has at most 53 days; give shorter times")
    return np.rint(drawn * SECOND).astype(np.int64)


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ScenarioError(f"{name} is {value!r}; it must be a number")
    if not math.isfinite(value):
        raise ScenarioError(f"{name} is {value!r}; it must be finite")
