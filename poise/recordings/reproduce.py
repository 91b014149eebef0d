"""How well a simulation of a recording reproduces what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from poise.core.records.records import Run
from poise.recordings.recording import Recorded
from poise.recordings.runs import only
from poise.report.latency import Picoseconds, Rows, durations, summary

KINDS = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class RelativeError:
    """Relative errors of one latency over requests: their median and 90th percentile; requests: how many."""

    median: float
    p90: float
    requests: int


@dataclass(frozen=True, slots=True)
class Reproduction:
    """off: by latency, as in ttft_s; those that no request has are left out.  observed, simulated: figures by name, as
    in ttft_s.p99, of the same requests.  agreement: the share of them that went to their recorded replica.
    """

    off: dict[str, RelativeError]
    observed: dict[str, float | None]
    simulated: dict[str, float | None]
    agreement: float

    def gap(self, figure: str) -> float | None:
        """Relative difference of the simulated figure from the observed one; None where one of them is missing."""
        observed, simulated = self.observed.get(figure), self.simulated.get(figure)
        return None if observed is None or simulated is None else simulated - observed

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "errors": {
                name: {"median": off.median, "p90": off.p90, "requests": off.requests} for name, off in self.off.items()
            },
            "observed": self.observed,
            "simulated": self.simulated,
            "routing_agreement": self.agreement,
        }


def reproduce(day: Recorded, run: Run) -> Reproduction:
    """Compare a simulation of the recorded policies with the recording, over the rows between the edges."""
    rows = np.flatnonzero(day.fair)
    observed, simulated = only(day.observed, rows), only(run, rows)
    seen, made = durations(observed), durations(simulated)
    same = np.asarray(observed.records.replica) == np.asarray(simulated.records.replica)
    return Reproduction(
        {f"{kind}_s": off for kind in KINDS if (off := _off(seen[kind], made[kind])) is not None},
        _figures(seen),
        _figures(made),
        float(same.mean()) if len(same) else 0.0,
    )


def _off(seen: tuple[Rows, Picoseconds], made: tuple[Rows, Picoseconds]) -> RelativeError | None:
    _, left, right = np.intersect1d(seen[0], made[0], assume_unique=True, return_indices=True)
    observed, simulated = seen[1][left], made[1][right]
    good = observed > 0
    if not good.any():
        return None
    off = np.abs(simulated[good] / observed[good] - 1)
    return RelativeError(float(np.median(off)), float(np.quantile(off, 0.9)), int(good.sum()))


def _figures(latencies: dict[str, tuple[Rows, Picoseconds]]) -> dict[str, float | None]:
    fields: dict[str, float | None] = {}
    for kind in KINDS:
        each = summary(latencies[kind][1])
        fields |= {f"{kind}_s.{part}": getattr(each, part) for part in ("mean", "p50", "p90", "p95", "p99")}
    return fields
