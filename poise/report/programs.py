"""Programs of several requests: time from first arrival to last end, and how many were served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import FINISHED, Run
from poise.core.units import ps
from poise.report.latency import Mask, Picoseconds, Rows, column, since

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Programs:
    """Outcomes of programs.

    begun: programs whose first request arrived after warm-up.  finished: those whose requests all finished.
    attainment: the share of `begun` in which every request met every part of its SLO; None where `begun` is 0.
    """

    begun: int
    finished: int
    attainment: float | None


@dataclass(frozen=True, slots=True)
class Spans:
    """Programs in columns: which began after warm-up, which of those finished, how long each took (picoseconds).

    of: the program of each row, -1 for none.  first: the row of each program that arrived first.
    """

    of: NDArray[np.int64]
    begun: Mask
    finished: Mask
    took: Picoseconds
    first: Rows

    def all_of(self, rows: Mask) -> Mask:
        """The programs with all their requests among `rows`."""
        mine = self.of >= 0
        missed = np.bincount(self.of[mine], ~rows[mine], len(self.begun))
        return np.asarray(missed == 0)


def spans(run: Run, warmup_s: float = 0.0) -> Spans | None:
    """The programs of a run; None where its requests belong to none."""
    if run.programs is None:
        return None
    of = np.asarray(run.programs, dtype=np.int64)
    count = int(of.max(initial=-1)) + 1
    if not count:
        return None
    records = run.records
    arrived, ended = (column(each).astype(np.int64) for each in (records.arrived_at, records.ended_at))
    mine = np.flatnonzero(of >= 0)
    came = np.where(arrived[mine] >= 0, arrived[mine], _LAST)
    begin, end = np.full(count, _LAST), np.full(count, -1)
    np.minimum.at(begin, of[mine], came)
    np.maximum.at(end, of[mine], ended[mine])
    first = np.full(count, -1)
    first[of[mine][::-1]] = mine[::-1]  # of several writes to one place the last one stays
    open_ = np.bincount(of[mine], column(records.status)[mine] != FINISHED, count)
    begun = (begin >= since(run, warmup_s)) & (begin < _LAST)
    return Spans(of, begun, begun & (open_ == 0), end - begin, first)


def in_time(run: Run, limit_s: float) -> Mask:
    """Which rows belong to a program that finished within `limit_s`; a row without one is a program by itself."""
    records = run.records
    took = column(records.ended_at) - column(records.arrived_at)
    good: Any = (column(records.status) == FINISHED) & (took <= ps(limit_s))
    found = spans(run)
    if found is not None:
        fine = found.finished & (found.took <= ps(limit_s))
        good = np.where(found.of >= 0, fine[found.of], good)
    return np.asarray(good, dtype=np.bool_)
