"""How well measured devices answer for one another: the errors by which a new device's lenders are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from poise.core.spec import Device
from poise.cost.origin import Error
from poise.cost.tables import PROFILERS, Table, Tables
from poise.cost.tables.lending import ROOFLINE, Loan
from poise.recordings.profiles.bulk import answers
from poise.recordings.profiles.fitting import Floats
from poise.recordings.profiles.plain import plain

UNKNOWN = Error(1.0, 1.0)
"""The error of what could not be checked: practically unknown."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows that one table is fitted to: coordinates, seconds and the fold of each row's family."""

    table: Table
    device: Device
    at: Floats
    seconds: Floats
    fold: Floats

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the device."""
        return self.table.kind, self.device.name


def lend(tables: Tables, parts: Sequence[Part], beside: Sequence[Table] = ()) -> Tables:
    """`tables` with the loans among their devices, and with the error of each table's device by the others.

    parts: the rows of each table.  beside: tables of other files that may lend as well.  Collectives and light kernels
    have no loans: the nearest device answers.
    """
    parts = [replace(part, table=table) for part, table in zip(parts, tables.tables, strict=True)]
    whole = replace(tables, loans=tuple(_loans(tables, _by_engines(parts))))
    lenders = replace(whole, tables=(*whole.tables, *beside))
    lent = [_lent(part, lenders.without(part.device.name)) for part in parts]
    made = tuple(replace(table, lent=error) for table, error in zip(tables.tables, lent, strict=True))
    return replace(whole, tables=made)


def _by_engines(parts: Iterable[Part]) -> list[Part]:
    """The parts that engines measured, and those of profilers where a device has no other of the kind."""
    chosen = [part for part in parts if not (part.table.operator.link or part.table.operator.cached)]
    served = {part.key for part in chosen if part.table.framework not in PROFILERS}
    return [part for part in chosen if part.table.framework not in PROFILERS or part.key not in served]


def _loans(tables: Tables, parts: Iterable[Part]) -> list[Loan]:
    """The error of each lender for each borrower and kind: the median over the borrower's tables."""
    found: dict[tuple[str, str, str], list[Error]] = {}
    for part in parts:
        kind, borrower, form = part.table.kind, part.device.name, part.table.format
        for lender in sorted({t.device for t in tables.tables if (t.kind, t.format) == (kind, form)} - {borrower}):
            one = replace(tables, tables=tuple(t for t in tables.tables if t.device == lender))
            found.setdefault((kind, lender, borrower), []).append(_off(_logs(part, one)))
        bare = plain(kind, form, part.device, part.at)
        found.setdefault((kind, ROOFLINE, borrower), []).append(_off(np.log(bare / part.seconds)))
        if part.table.error != UNKNOWN:
            found.setdefault((kind, borrower, borrower), []).append(part.table.error)
    return [
        Loan(*key, Error(*(round(median(each), 3) for each in zip(*errors, strict=True))))
        for key, errors in found.items()
    ]


def _logs(part: Part, tables: Tables) -> Floats:
    """The logs of predicted over measured by other tables."""
    table = part.table
    curve = tables.named(
        table.kind, part.device, table.format, table.framework, table.kernel, tuple(np.median(part.at, axis=0))
    )
    assert curve is not None
    found: Floats = np.log(answers(curve, part.at) / part.seconds)
    return found


def _lent(part: Part, others: Tables) -> Error:
    """The error of a device for a table by those that were measured elsewhere; unknown where there are none."""
    if not any(table.kind == part.table.kind for table in others.tables):
        return UNKNOWN
    return error_of(np.abs(np.exp(_logs(part, others)) - 1))


def _off(logs: Floats) -> Error:
    """Absolute errors of logs."""
    return error_of(np.abs(logs))


def error_of(errors: Floats) -> Error:
    """The median and the 90th percentile."""
    return Error(round(float(np.median(errors)), 3), round(float(np.quantile(errors, 0.9)), 3))
