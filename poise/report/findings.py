"""Conclusions of a comparison: which policy is better at each load, and where each policy collapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.report.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """One load: its requests in words, and the verdict on the policies there."""

    load: float
    title: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Tried:
    """A load that was tried under a policy. why: what broke down, empty where it was carried.  sure: beyond chance."""

    load: float
    why: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """Where a policy collapses: the load, the loads that bracket it, and every load that was tried.

    carried, beyond: the highest load below every one that broke down, and the lowest that did.
    """

    policy: str
    load: float | None
    carried: float | None
    beyond: float | None
    low: float | None
    high: float | None
    tried: Sequence[Tried] = ()

    @property
    def why(self) -> str:
        """What breaks down first."""
        return next((each.why for each in self.tried if each.why), "")


@dataclass(frozen=True, slots=True)
class Findings:
    """judged: loads in order.  limits: one per policy.  about_limits: sentences about the limits.  answer: the
    sentence that decides, empty where there is none.

    intervals: what ± means.  one: what load 1 means; own: whether it is the traffic as it is.  partial: progress of a
    stopped comparison, empty if complete.  target: the share of arrivals that must meet the SLO; None without an SLO.
    """

    judged: Sequence[Judged]
    limits: Sequence[Limit] = ()
    about_limits: Sequence[str] = ()
    intervals: str = ""
    one: str = "the workload as it is"
    partial: str = ""
    answer: str = ""
    own: bool = True
    target: float | None = None
