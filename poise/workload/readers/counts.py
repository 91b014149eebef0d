"""Counts of arrivals over time, such as BurstGPT's by the hour, as a profile of the rate."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.workload.draw import positive
from poise.workload.profile import Profile
from poise.workload.readers.columns import numbers
from poise.workload.readers.file import load
from poise.workload.readers.ledger import Ledger

TIMES = ("time_bin", "time_s", "begin_s", "start_s", "window_start_s", "timestamp")
COUNTS = ("requests", "count", "arrivals")
"""Names of the two columns; the first one present counts."""


def read_profile(
    path: str | os.PathLike[str], *, begin_s: float = 0.0, lasting_s: float | None = None, skip_bad: bool = False
) -> Profile:
    """Return the rates in `path`: rows of (second at which an interval begins, requests in it).

    An interval lasts until the next row, the last one as long as the one before it. begin_s, lasting_s: take only this
    part of the file, counted from its first row; whole intervals. skip_bad: pass over bad rows, so that the interval
    before each reaches over it.
    """
    raw = load(Path(path), None)
    ledger = Ledger(raw)
    begins, counts = _column(ledger, TIMES), _column(ledger, COUNTS)
    kept = ledger.settle(skip_bad)
    begins, counts = begins[kept], counts[kept]
    if len(begins) < 2:
        raise TraceError(f"{path}: has {len(begins)} interval; two are needed, to say how long each lasts")
    late = np.flatnonzero(np.diff(begins) <= 0)
    if len(late):
        where = raw.place(int(kept[late[0] + 1]))
        raise TraceError(f"{path}, {where}: begins at {begins[late[0] + 1]:g}, not after the row before; sort the rows")
    lasting = np.diff(begins, append=2 * begins[-1] - begins[-2])
    return _part(Path(path), begins - begins[0], lasting, counts, positive("begin_s", begin_s, zero=True), lasting_s)


def _column(ledger: Ledger, names: tuple[str, ...]) -> NDArray[np.float64]:
    raw = ledger.raw
    name = next((each for each in names if each in raw.columns), None)
    if name is None:
        found = ", ".join(sorted(raw.columns))
        raise TraceError(f"{raw.path}: found the columns {found}, but none of {', '.join(names)}; rename one")
    read = numbers(raw.columns[name])
    ledger.refuse(~((read >= 0) & (read < np.inf)), name, "it must be a number of at least 0")
    return read


def _part(
    path: Path,
    begins: NDArray[np.float64],
    lasting: NDArray[np.float64],
    counts: NDArray[np.float64],
    begin_s: float,
    lasting_s: float | None,
) -> Profile:
    end_s = np.inf if lasting_s is None else begin_s + positive("lasting_s", lasting_s)
    inside = (begins >= begin_s) & (begins < end_s)
    whole = float(begins[-1] + lasting[-1])
    if not counts[inside].any():
        raise TraceError(
            f"{path}: nobody arrives from {begin_s:g} to {min(end_s, whole):g} of {whole:g} s; choose another part"
        )
    return Profile.steps(lasting[inside], counts[inside] / lasting[inside])
