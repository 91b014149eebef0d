"""The sentence that decides a plan: the fleet, its price, how many requests it serves in time, and its headroom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.plan.change import Changes
from poise.plan.goal import Goal
from poise.plan.share import in_words
from poise.plan.trial import Trial
from poise.report.wording import significant, write

SUPERLATIVE = {"cost": "cheapest", "gpus": "smallest", "energy": "thriftiest"}
"""What a fleet is that minimizes an aim."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A plan that holds. others: the next best fleets.  rate: requests per second.  changes: None where not known.

    confirmed: whether fresh traffic was tried.  sure: whether the interval of the share lies above what is asked.
    safer: the next larger fleet that is sure, where the best is not.  alone: the best by predicted values alone.
    """

    best: Trial
    others: Sequence[Trial]
    goal: Goal
    rate: float
    changes: Changes | None
    confirmed: bool
    sure: bool = True
    safer: Trial | None = None
    alone: Trial | None = None

    def sentence(self) -> str:
        """The answer."""
        best, goal = self.best, self.goal
        price = f"${best.fleet.price_per_hour:.2f}/h, " if best.fleet.price_per_hour else ""
        share = in_words(best)
        doubt = f" (not sure{self._safer()})" if self.confirmed and not self.sure else ""
        parts = [
            f"Take {best.fleet.written}, {best.fleet.router}: {price}{counted(best.fleet.devices)}, the "
            f"{SUPERLATIVE[goal.minimize]} that holds the SLO{self._confidence()}, for {share} of the requests at "
            f"{significant(self.rate)} req/s{doubt}",
            self._cost(),
            self._headroom(),
            self._next(),
        ]
        return f"{'; '.join(filter(None, parts))}."

    def _confidence(self) -> str:
        """With which confidence it was asked to hold, and holds."""
        wanted, own = self.goal.confidence, self.best.confidence
        if wanted is None or own is None:
            return ""
        return f" with {write(wanted, 'share')} confidence (this one {write(own, 'share', 2)})"

    def _cost(self) -> str:
        """What the confidence costs beside the best fleet by predicted values alone."""
        alone, fleet = self.alone, self.best.fleet
        if alone is None:
            return ""
        if alone is self.best:
            return "predicted values alone ask for as much"
        more = fleet.devices - alone.fleet.devices
        parts = [f"{counted(more)} more"] if more > 0 else [f"{counted(-more)} less"] if more else []
        dearer = fleet.price_per_hour - alone.fleet.price_per_hour
        parts += [f"${dearer:.2f}/h more"] if dearer > 0 else []
        sure = write(alone.confidence or 0.0, "share", 2)
        what = " and ".join(parts) or "more energy"
        return f"that is {what} than by predicted values alone ({alone.fleet.written}, {sure} confidence)"

    def _safer(self) -> str:
        if self.safer is None:
            return ": chance may decide"
        fleet = self.safer.fleet
        return f"; {fleet.written}{f' at ${fleet.price_per_hour:.2f}/h' if fleet.price_per_hour else ''} is sure"

    def _headroom(self) -> str:
        """Up to which load it holds, or that this was not found out."""
        if not self.confirmed:
            return "interrupted, so not confirmed"
        if self.changes is None:
            return ""
        if self.changes.load <= 1:
            return "no headroom over that load"
        return f"{'at least ' if self.changes.beyond else ''}{self.changes.load:.3g}× headroom over that load"

    def _next(self) -> str:
        """The next best fleet, and how much worse it is."""
        if not self.others or not (value := self.best.value(self.goal)):
            return ""
        name, more = self.others[0].fleet.written, self.others[0].value(self.goal) / value - 1
        what = {"cost": "costs", "gpus": "needs", "energy": "uses"}[self.goal.minimize]
        return f"the next best, {name}, {what} {f'{more:.0%} more' if more >= 0.005 else 'the same'}"


def counted(devices: int) -> str:
    """A number of devices as text."""
    return f"{devices} device{'s' if devices != 1 else ''}"
