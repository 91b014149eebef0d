"""Who lends an operator's efficiencies to a device that was not measured: those that lent them best to its relatives.

Each measured device is answered by each other one's tables, and by the roofline's typical efficiencies. The errors
of these loans show how well a lender would do for a new device: their mean, weighted by how much like the new device
the borrower was, and how far it was from the lender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from poise.cost.origin import Error

ROOFLINE = ""
"""The lender of the typical efficiencies."""

NEAR = 2.0
"""Lenders count whose expected error is within this factor of the least: worse ones add more of their own error than
they take away of others'."""


class Loan(NamedTuple):
    """How far off an operator was on `borrower` by the tables of `lender`; of itself: its own shapes held out.

    error: of logs, so that half and twice the time count alike.
    """

    kind: str
    lender: str
    borrower: str
    error: Error


class Part(NamedTuple):
    """A lender's part of an answer, and the error to expect of it alone."""

    lender: str
    part: float
    error: Error


def expected(loans: Iterable[Loan], to: Mapping[str, float], apart: Callable[[str, str], float]) -> dict[str, Error]:
    """The error to expect of each lender for a device whose distances to the measured ones are `to`.

    A loan weighs e^(−a−b): a is the distance from its borrower to the device, b by how much the lender is farther from
    the one than from the other. The roofline is as far from all.
    """
    sums: dict[str, list[float]] = {}
    for _, lender, borrower, error in loans:
        unlike = to[borrower]
        if lender != ROOFLINE:
            unlike += abs(to[lender] - apart(lender, borrower))
        weight = exp(-unlike)
        total = sums.setdefault(lender, [0.0, 0.0, 0.0])
        for at, value in enumerate((1.0, *error)):
            total[at] += weight * value
    return {lender: Error(median / whole, p90 / whole) for lender, (whole, median, p90) in sums.items()}


def chosen(errors: Mapping[str, Error]) -> list[Part]:
    """The lenders that count, the best first: parts are as inverse squares of expected errors, and 1 in all."""
    least = min(error.median for error in errors.values())
    near = {lender: error for lender, error in errors.items() if error.median <= NEAR * least}
    whole = sum(1 / error.median**2 for error in near.values())
    parts = (Part(lender, 1 / error.median**2 / whole, error) for lender, error in near.items())
    return sorted(parts, key=lambda each: -each.part)


def read_loans(rows: Sequence[Sequence[object]]) -> tuple[Loan, ...]:
    """Loans of a file's rows [kind, lender, borrower, median, p90]; ValueError or TypeError for others."""
    return tuple(
        Loan(str(kind), str(lender), str(borrower), Error(float(median), float(p90)))  # type: ignore[arg-type]
        for kind, lender, borrower, median, p90 in rows
    )
