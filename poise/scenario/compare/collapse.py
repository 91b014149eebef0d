"""The load at which a policy collapses, between which loads that lies for sure, and how far load 1 is from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poise.core.spec import Slo
from poise.report.backlog import GROWTH
from poise.report.intervals import Interval
from poise.report.wording import significant, write

CLOSE = 1.02
"""Two loads between which the collapse lies are close enough when they differ by at most this factor."""

FAR = 1024.0
"""The search for a load that is carried, or for one that is not, goes no further than this factor from load 1."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a policy did at one load, over its seeds. why: what broke down there, empty where the load was carried.

    growth: of the backlog.  sure: whether the intervals of what decided lie wholly on that side.
    """

    load: float
    met: Interval
    growth: Interval
    why: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Collapse:
    """The loads tried under one policy, in order. carried: the highest load below every one that broke down.

    A load is carried when at least `target` of its arrivals meet the SLO and the queue does not keep more than `GROWTH`
    of them. beyond: the lowest load that was not.
    """

    probes: tuple[Probe, ...]

    @property
    def beyond(self) -> Probe | None:
        """The lowest load that broke down."""
        return next((probe for probe in self.probes if probe.why), None)

    @property
    def carried(self) -> Probe | None:
        """The highest load that was carried below the first that was not."""
        return self._below(sure=False)

    def _below(self, *, sure: bool) -> Probe | None:
        beyond = self.beyond
        below = [each for each in self.probes if beyond is None or each.load < beyond.load]
        return next((each for each in reversed(below) if each.sure or not sure), None)

    @property
    def range(self) -> tuple[float | None, float | None]:
        """Between which loads the collapse lies for sure: one that is carried and one that is not beyond chance."""
        low, high = self._below(sure=True), next((each for each in self.probes if each.why and each.sure), None)
        return (low.load if low else None), (high.load if high else None)

    @property
    def load(self) -> float | None:
        """The load of the collapse: in the middle, by factor, of the last one carried and the first one not."""
        low, high = self.carried, self.beyond
        return (low.load * high.load) ** 0.5 if low and high else None

    @property
    def distance(self) -> tuple[float | None, float | None, float | None]:
        """The share of the collapse load that load 1, the traffic itself, is; then that share at least and at most."""
        low, high = self.range
        return (1 / self.load if self.load else None), (1 / high if high else None), (1 / low if low else None)

    def next_load(self) -> float | None:
        """The load to try next to find the collapse; None when it is found, or nowhere near."""
        low, high = self.carried, self.beyond
        if low is None or high is None:
            end = 2 * low.load if low else (high.load / 2 if high else 1.0)
            return _rounded(end) if 1 / FAR <= end <= FAR else None
        if high.load / low.load <= CLOSE:
            return None
        middle = _rounded((low.load * high.load) ** 0.5)
        return middle if low.load < middle < high.load else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        low, high = self.carried, self.beyond
        return {
            "carried": low.load if low else None,
            "beyond": high.load if high else None,
            "why": high.why if high else "",
            "load": self.load,
            "for_sure": list(self.range),
            "distance": dict(zip(("share", "at_least", "at_most"), self.distance, strict=True)),
            "probes": [
                {
                    "load": probe.load,
                    "slo_attainment": probe.met.value,
                    "interval": probe.met.half,
                    "backlog_growth": probe.growth.value,
                    "carried": not probe.why,
                    "for_sure": probe.sure,
                }
                for probe in self.probes
            ],
        }


def _rounded(load: float) -> float:
    """A load to four significant digits, so that it can be written and read again."""
    return float(f"{load:.4g}")


def probe(load: float, met: Interval, growth: Interval, slo: Slo, target: float) -> Probe | None:
    """Judge one load by its SLO attainment and the growth of its backlog; None where nothing can be told of it.

    Where there is an SLO it decides, and the queue beside it only where it grows beyond chance. A growth
    without an interval is taken as it is.
    """
    broken: dict[str, bool] = {}
    held = []
    asked = slo != Slo() and met.value is not None
    if asked and met.value is not None:
        sure = met.half is not None and abs(met.value - target) > met.half
        if met.value < target:
            broken[f"SLO met by {write(met.value, 'share', 3)}"] = sure
        else:
            held.append(sure)
    if growth.value is not None:
        sure = growth.half is None or abs(growth.value - GROWTH) > growth.half
        if growth.value > GROWTH and (sure or not asked):
            broken[f"the queue keeps {write(growth.value, 'share', 2)} of what arrives"] = sure
        elif not asked:
            held.append(sure)
    if not broken and not held:
        return None
    return Probe(load, met, growth, ", ".join(broken), any(broken.values()) if broken else all(held))


def collapse(probes: Sequence[Probe]) -> Collapse:
    """The probes of one policy in order of load."""
    return Collapse(tuple(sorted(probes, key=lambda each: each.load)))


def between(ends: tuple[float | None, float | None], digits: int = 2) -> str:
    """A range in words, one or both of whose ends may be unknown."""
    low, high = (None if each is None else significant(each, digits) for each in ends)
    if low is not None and high is not None:
        return low if low == high else f"{low} to {high}"
    if low is not None:
        return f"above {low}"
    return f"below {high}" if high is not None else "unknown"
