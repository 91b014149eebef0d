"""A plan's constraints and its objective."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Literal, get_args

from poise.core.errors import UserError
from poise.core.spec import Slo

Aim = Literal["cost", "energy", "gpus"]
AIMS: tuple[str, ...] = get_args(Aim)
PARTS = tuple(each.name for each in fields(Slo))


@dataclass(frozen=True, slots=True)
class Goal:
    """A service level, the share of arrivals that must meet it, the objective, and limits.

    attainment: share of arrivals in (0, 1].  budget: dollars per hour.  power_w: watts of all devices together, each
    at the power that it may draw (its TDP, or its cap).  confidence: with which it must hold given the model's error,
    in (0, 1); None: by predicted values alone.
    """

    slo: Slo
    attainment: float = 0.99
    minimize: Aim = "cost"
    budget: float | None = None
    power_w: float | None = None
    confidence: float | None = None

    @property
    def unlimited(self) -> Goal:
        """The same without budget and power limit."""
        return replace(self, budget=None, power_w=None)

    @property
    def predicted(self) -> Goal:
        """The same by predicted values alone."""
        return replace(self, confidence=None)


def read_slo(text: str) -> tuple[Slo, float]:
    """The SLO and the share that must meet it, from `ttft_s=1.0,tpot_s=0.05,attainment=0.95`; UserError names a part.

    The share is 0.99 where it is not given. At least one limit is.
    """
    given: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name not in (*PARTS, "attainment"):
            raise UserError(
                f"--slo {part}: there is no {name!r}; give {', '.join(PARTS)} or attainment, as in ttft_s=1"
            )
        if name in given:
            raise UserError(f"--slo {text}: {name} stands there twice; give it once")
        given[name] = _limit(part, name, value)
    share = given.pop("attainment", Goal(Slo()).attainment)
    if not given:
        raise UserError(f"--slo {text!r}: no limit is given; give one or more, as in ttft_s=1.0,tpot_s=0.05")
    return Slo(**given), share


def _limit(part: str, name: str, value: str) -> float:
    """A positive number; a share is at most 1."""
    try:
        number = float(value)
    except ValueError:
        raise UserError(f"--slo {part}: {value!r} is not a number; give seconds, as in {name}=0.5") from None
    if not isfinite(number) or number <= 0 or (name == "attainment" and number > 1):
        rule = "above 0 and at most 1, as in 0.99" if name == "attainment" else "above 0, in seconds"
        raise UserError(f"--slo {part}: {name} must be {rule}")
    return number
