"""Means over several seeds of one run, and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CONFIDENCE = 0.95
"""Confidence of every interval that is reported."""

Fold = Callable[[Sequence[float]], float]


def _within(theta: float, freedom: int) -> float:
    """P(|T| ≤ √freedom · tan theta) for Student's T.

    The finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, formulas 26.7.3 and 26.7.4.
    """
    cos, sin = math.cos(theta), math.sin(theta)
    odd = freedom % 2
    term = cos if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cos * cos * (k - 1) / k
        total += term
    return 2 / math.pi * (theta + sin * total) if odd else sin * total


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| ≤ t) = `confidence` for Student's T of `freedom` ≥ 1 degrees; two-sided, 0 ≤ confidence < 1.

    Solved by halving in the angle whose tangent is t/√freedom, where the probability rises from 0 to 1.
    """
    if freedom < 1 or not 0 <= confidence < 1:
        raise ValueError(f"needs freedom ≥ 1 and 0 ≤ confidence < 1, not {freedom} and {confidence}")
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def mean(values: Sequence[float]) -> float:
    """The mean, exactly the common value where all are equal."""
    return values[0] if len(set(values)) == 1 else math.fsum(values) / len(values)


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Half the width of the t-interval around the mean of two or more independent values: t · s / √n."""
    count, centre = len(values), mean(values)
    variance = math.fsum((value - centre) ** 2 for value in values) / (count - 1)
    return t_quantile(count - 1, confidence) * math.sqrt(variance / count)


def fold(values: Sequence[Any], each: Fold) -> Any:
    """Apply `each` to the numbers at the same place of equally shaped mappings and lists.

    A place that is None in one of them gives None: a mean over the seeds that happen to have a figure would flatter.
    Lists of unequal length give an empty list.
    """
    first = values[0]
    if isinstance(first, Mapping):
        return {key: fold([value[key] for value in values], each) for key in first}
    if isinstance(first, list):
        same = all(len(value) == len(first) for value in values)
        return [fold(places, each) for places in zip(*values, strict=True)] if same else []
    return None if any(value is None for value in values) else each(values)
