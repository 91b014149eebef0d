"""The load at which a policy collapses, the loads that bracket it, and the distance of load 1 from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poise.core.spec import Slo
from poise.experiment.search import Threshold
from poise.report.answer import Carried
from poise.report.backlog import GROWTH
from poise.report.intervals import Interval
from poise.report.wording import significant, write


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a policy at one load, over its seeds. why: what broke down there, empty where the load was carried.

    growth: of the backlog.  sure: whether the intervals of what decided lie wholly on that side.
    """

    load: float
    met: Interval
    growth: Interval
    why: str = ""
    sure: bool = True

    @property
    def at(self) -> float:
        """The load."""
        return self.load


@dataclass(frozen=True, slots=True)
class Collapse(Threshold[Probe]):
    """The loads tried under one policy, in order. carried: the highest load below every one that broke down.

    A load is carried when at least `target` of its arrivals meet the SLO and the queue does not keep more than `GROWTH`
    of them. beyond: the lowest load that was not.
    """

    @property
    def load(self) -> float | None:
        """The load of the collapse: in the middle, by factor, of the last one carried and the first one not."""
        return self.at

    @property
    def carries(self) -> Carried:
        """The highest load that is carried, and whether a higher one was tried."""
        return Carried(None if self.carried is None else self.carried.load, self.beyond is not None)

    @property
    def distance(self) -> tuple[float | None, float | None, float | None]:
        """Load 1 as a share of the collapse load; then its lower and upper bound."""
        low, high = self.range
        return (1 / self.load if self.load else None), (1 / high if high else None), (1 / low if low else None)

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


def probe(load: float, met: Interval, growth: Interval, slo: Slo, target: float) -> Probe | None:
    """Judge one load by its SLO attainment and the growth of its backlog; None where neither is known.

    Where there is an SLO it decides, and the queue too only where it grows significantly. A growth
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
