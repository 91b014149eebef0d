"""What an experiment answers to each criterion, and whether that lies where it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from poise.claims.claim import Curve, Test
from poise.report.intervals import Interval


class Ratio(NamedTuple):
    """How many times as much, with the ends of its 95 % interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None


Value = Ratio | Interval | float
"""A number that a test can be asked of; one without an interval is exact."""


class Answer(NamedTuple):
    """What came out for the criterion (or the note) of this key.

    text: in words.  found: values that the claim's test is asked of; or whether it is so, where that is a matter of
    order or kind and not of size, None where chance decides.
    """

    key: str
    text: str
    found: Value | Sequence[Value] | bool | None = None

    @property
    def values(self) -> tuple[Ratio | float, ...] | bool | None:
        """What was found: exact numbers as they are, others with the ends of their intervals."""
        if self.found is None or isinstance(self.found, bool):
            return self.found
        if isinstance(self.found, Ratio | Interval | float | int):
            return (_value(self.found),)
        return tuple(_value(each) for each in self.found)


@dataclass(frozen=True, slots=True)
class Findings:
    """What an experiment came to."""

    answers: Sequence[Answer]
    curves: Sequence[Curve] = ()


def _value(value: Value) -> Ratio | float:
    if isinstance(value, Ratio | Interval):
        return Ratio(value.value, value.low, value.high)
    return float(value)


def judge(answer: Answer, test: Test | None) -> bool | None:
    """Whether an answer is as it must be; None where chance decides."""
    found = answer.values
    if found is None or isinstance(found, bool):
        return found
    assert test is not None, f"{answer.key}: values were measured, and the claim has no test for them"
    inside = [_inside(each, test) for each in found]
    needed = len(inside) if test.at is None else test.at
    if test.floor is not None and any(_below(each, test.floor) for each in found):
        return False
    if not inside or inside.count(True) < needed <= len(inside) - inside.count(False):
        return None
    return inside.count(True) >= needed


def _inside(value: Ratio | float, test: Test) -> bool | None:
    """Whether one value is; by its interval it may be open."""
    if isinstance(value, float):
        return _between(value, value, test, exact=True)
    if test.by == "likely" and value.value is not None and _between(value.value, value.value, test):
        return True
    low, high = (value.value,) * 2 if test.by == "value" else (value.low, value.high)
    return _between(low, high, test)


def _between(low: float | None, high: float | None, test: Test, *, exact: bool = False) -> bool | None:
    """Whether all from `low` to `high` passes a test."""
    if low is None or high is None:
        return None
    over = [(test.least, False), (test.beyond, True)]
    under = [(test.most, False), (test.below, True)]
    beyond = [_beyond(low, high, bound, strict) for bound, strict in over if bound is not None]
    beyond += [_beyond(-high, -low, -bound, strict) for bound, strict in under if bound is not None]
    return False if False in beyond or (exact and None in beyond) else None if None in beyond else True


def _beyond(near: float, far: float, bound: float, strict: bool) -> bool | None:
    """Whether both ends lie beyond a bound; what merely touches a strict one is open."""
    if near > bound or (near == bound and not strict):
        return True
    return False if far < bound else None


def _below(value: Ratio | float, bound: float) -> bool:
    return value < bound if isinstance(value, float) else value.high is not None and value.high < bound
