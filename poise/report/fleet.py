"""One quantity of each replica of a run over time, at common instants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poise.report.figures import Curves

LINES = 4
"""Up to this many replicas have one line each in a timeline; more are shown by their mean, lowest and highest."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fleet:
    """values: [replicas, instants], NaN where a replica was not up.  at: instants in equal steps of `step` seconds.

    The value at an instant is the peak from that instant until the next one.
    """

    replicas: tuple[int, ...]
    at: Floats
    step: float
    values: Floats

    @property
    def end(self) -> float:
        """Where the last step ends, in seconds."""
        return float(self.at[-1]) + self.step

    @property
    def highest(self) -> float:
        """The highest value; 0 where there is none."""
        return float(np.nanmax(self.values, initial=0.0))

    @property
    def gaps(self) -> bool:
        """Whether some replica was not up all the time."""
        return bool(np.isnan(self.values).any())

    def coarser(self, times: int) -> Fleet:
        """The peaks of `times` steps each."""
        if times == 1:
            return self
        spare = -len(self.at) % times
        padded = np.pad(self.values, ((0, 0), (0, spare)), constant_values=np.nan)
        grouped = padded.reshape(len(padded), -1, times)
        peaks = np.where(np.isnan(grouped), -np.inf, grouped).max(axis=2)
        return Fleet(self.replicas, self.at[::times], self.step * times, np.where(np.isinf(peaks), np.nan, peaks))


def fleet(curves: Curves) -> Fleet:
    """The replicas of one quantity of `replica_curves`."""
    at = np.array(next(iter(curves.values()))[0])
    numbered = {int(name.removeprefix("replica ")): values for name, (_, values) in curves.items()}
    step = float(at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 1.0
    return Fleet(tuple(sorted(numbered)), at, step, np.array([numbered[each] for each in sorted(numbered)]))


@dataclass(frozen=True, slots=True)
class ReplicaHistory:
    """A line over time, of one replica or of the mean of several with the lowest and the highest of them."""

    mean: Floats
    low: Floats | None = None
    high: Floats | None = None


def courses(some: Fleet, pools: Sequence[str]) -> dict[str, ReplicaHistory]:
    """One line per replica if there are few; else one per pool, as `pools` names it by replica (empty: one in all)."""
    if len(some.replicas) <= LINES:
        return {title(each, pools): ReplicaHistory(row) for each, row in zip(some.replicas, some.values, strict=True)}
    members: dict[str, list[int]] = {}
    for row, replica in enumerate(some.replicas):
        members.setdefault(pools[replica] if pools else "", []).append(row)
    return {
        f"mean of {len(rows)} {pool} replicas".replace("  ", " "): over(some.values[rows])
        for pool, rows in members.items()
    }


def over(values: Floats) -> ReplicaHistory:
    """Mean, lowest and highest over the first axis, of what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    found = (
        np.where(known, values, 0).sum(axis=0) / np.maximum(count, 1),
        np.where(known, values, np.inf).min(axis=0),
        np.where(known, values, -np.inf).max(axis=0),
    )
    return ReplicaHistory(*(np.where(count > 0, each, np.nan) for each in found))


def title(replica: int, pools: Sequence[str]) -> str:
    """A replica as a reader calls it, as in `replica 3` and `replica 3 (decode)`."""
    return f"replica {replica} ({pools[replica]})" if pools else f"replica {replica}"
