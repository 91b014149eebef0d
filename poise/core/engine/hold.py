"""Arithmetic of a held batch: k steps whose durations grow by a constant, in integers."""

from __future__ import annotations

from math import sqrt


def span(first: int, growth: int, steps: int) -> int:
    """The duration of `steps` steps, the first taking `first` and each next one `growth` more."""
    return steps * first + growth * (steps * (steps - 1) // 2)


def steps_within(first: int, growth: int, elapsed: int, inclusive: bool) -> int:
    """How many such steps end before `elapsed` has passed (`inclusive`: or just then), exactly."""
    if not inclusive:
        elapsed -= 1
    if elapsed < first:
        return 0
    if growth:
        middle = first - growth / 2
        steps = int((sqrt(middle * middle + 2.0 * growth * elapsed) - middle) / growth)
    else:
        steps = elapsed // first
    # The root is a float and may be off by one: integers decide. `span`, written out.
    while steps * first + growth * (steps * (steps - 1) // 2) > elapsed:
        steps -= 1
    while (steps + 1) * first + growth * ((steps + 1) * steps // 2) <= elapsed:
        steps += 1
    return steps
