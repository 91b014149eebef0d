"""Early stop: whether a running simulation can still hold an SLO, given the arrivals that have missed it so far."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from poise.core.records.records import FINISHED, Run
from poise.core.spec import Slo
from poise.core.units import SECOND, ps
from poise.report.latency import column

ROUNDING = 1e-9
"""Rounding error of a product of a share and a count."""


@dataclass(frozen=True, slots=True)
class SloFeasibility:
    """Ends a run once so many arrivals have missed one part of `slo` that fewer than `share` of all can meet it.

    warmup_s: seconds whose arrivals are not judged. What a request without a first token or an end has waited already
    counts; later arrivals are taken to meet the SLO. So it never ends a run that would hold.
    """

    slo: Slo
    share: float
    warmup_s: float

    def gone(self, run: Run, now: int) -> bool:
        """Whether the run can no longer hold at the instant `now`."""
        judged = self._judged(run)
        allowed = judged - ceil(self.share * judged - ROUNDING)
        return max((int(missed.sum()) for missed in self._missed(run, now)), default=0) > allowed

    def left(self, run: Run, now: int) -> float:
        """An upper bound on the share of arrivals that meet the SLO."""
        judged = self._judged(run)
        missed = np.logical_or.reduce(self._missed(run, now)) if judged else np.zeros(1)
        return 1 - float(missed.sum()) / max(judged, 1)

    def _judged(self, run: Run) -> int:
        """Arrivals that are judged: all after warm-up."""
        arrived = column(run.records.arrived_at)
        return len(arrived) - int(((arrived >= 0) & (arrived < ps(self.warmup_s))).sum())

    def _missed(self, run: Run, now: int) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """By part of the SLO: which arrivals have missed it."""
        records, slo = run.records, self.slo
        arrived, first, ended = map(column, (records.arrived_at, records.first_token_at, records.ended_at))
        counts, missed = arrived >= ps(self.warmup_s), []
        if slo.ttft_s is not None:
            missed.append(counts & (np.where(first < 0, now, first) - arrived > ps(slo.ttft_s)))
        if slo.e2e_s is not None:
            missed.append(counts & (np.where(ended < 0, now, ended) - arrived > ps(slo.e2e_s)))
        if slo.tpot_s is not None:
            gaps = column(records.output_tokens).astype(np.int64) - 1
            done = counts & (column(records.status) == FINISHED) & (gaps > 0)
            missed.append(done & (ended - first > gaps * ps(slo.tpot_s)))
        return missed


def looser(slo: Slo, times: float, before_s: float = 0.0) -> Slo:
    """Limits `times` as wide, less `before_s` seconds that are spent before the first token.

    None for limits on programs: their remaining time cannot be bounded from what they have missed.
    """
    least = 1 / SECOND

    def wider(limit: float | None, less: float) -> float | None:
        return None if limit is None else max(limit * times - less, least)

    return Slo(wider(slo.ttft_s, before_s), wider(slo.tpot_s, 0.0), wider(slo.e2e_s, before_s))
