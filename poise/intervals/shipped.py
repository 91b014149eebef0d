"""The calibration that ships (`bench/fit_intervals.py` makes it)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from poise.intervals.calibration import Calibration
from poise.intervals.conditions import Conditions
from poise.intervals.interval import Interval
from poise.intervals.saved import load

FILE = Path(__file__).with_name("calibration.json")


@cache
def shipped() -> Calibration:
    """The calibration that ships."""
    return load(FILE)


def interval_of(conditions: Conditions) -> Interval:
    """The interval of a figure by the calibration that ships."""
    return shipped().interval(conditions)
