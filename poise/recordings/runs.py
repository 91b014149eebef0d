"""Compares runs: a subset of their rows, the rows' durations, and relative differences."""

from __future__ import annotations

from array import array
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Records, Run

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")


def only(run: Run, rows: NDArray[np.int64]) -> Run:
    """A run with these rows, in this order."""
    records = Records(len(rows))
    for column in fields(Records):
        if column.name != "rows":
            values = getattr(run.records, column.name)
            setattr(records, column.name, array(values.typecode, np.asarray(values)[rows].tolist()))
    return replace(run, records=records)


def durations(run: Run) -> dict[str, NDArray[np.int64]]:
    """Picoseconds by row from dispatch to the first token, from there to the end (TPOT times tokens), and in all."""
    records = run.records
    sent, first, ended = (
        np.asarray(each, dtype=np.int64) for each in (records.dispatched_at, records.first_token_at, records.ended_at)
    )
    return dict(zip(LATENCIES, (first - sent, ended - first, ended - sent), strict=True))


def relative(simulated: NDArray[np.int64], observed: NDArray[np.int64], use: Mask) -> Floats:
    """Simulated over observed durations, less one; NaN for rows that are not to be used and for those without time."""
    good = use & (simulated > 0) & (observed > 0)
    return np.where(good, simulated / np.where(good, observed, 1) - 1, np.nan)


def middle(values: Floats) -> float:
    """The median of the known values."""
    return float(np.nanmedian(values))
