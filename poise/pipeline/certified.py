"""A schedule with what was proven of it: how far from the best it can be at most."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from poise.pipeline.schedule import Schedule


@dataclass(frozen=True)
class Certified(Schedule):
    """A schedule whose `value` was compared with what no schedule of its placement can beat.

    `by` is "makespan" or "span" (the largest bubble within a rank's span); `value` and `bound` are in the unit of the
    costs. `proof` names the source of the bound in one word.
    """

    by: str = "makespan"
    value: Fraction = Fraction(0)
    bound: Fraction = Fraction(0)
    proof: str = ""

    @property
    def optimal(self) -> bool:
        """Whether nothing better exists in this placement."""
        return self.value == self.bound

    @property
    def gap(self) -> Fraction:
        """The part of the value that a better schedule could save at most."""
        return (self.value - self.bound) / self.value if self.value else Fraction(0)


def certify(schedule: Schedule, by: str, value: Fraction, bound: Fraction, proof: str) -> Certified:
    """The schedule with its certificate."""
    given = {field.name: getattr(schedule, field.name) for field in fields(Schedule)}
    return Certified(**given, by=by, value=value, bound=bound, proof=proof)
