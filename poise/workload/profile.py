"""A rate of arrivals that changes over time, and its exact inverse: when n arrivals are expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import positive

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Profile:
    """Requests per second as straight lines between points; two points at one instant are a jump.

    at: seconds from 0, ascending.  rate: requests per second, 0 or more.  expected: arrivals expected until each point.
    """

    at: Floats
    rate: Floats
    expected: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.at) != len(self.rate) or len(self.at) < 2:
            raise ScenarioError(f"a profile has {len(self.at)} points; give at least two pairs of second and rate")
        if not (np.isfinite(self.at).all() and np.isfinite(self.rate).all()):
            raise ScenarioError("a profile has a point that is no number; give pairs of second and rate")
        if self.at[0] != 0 or (np.diff(self.at) < 0).any() or self.at[-1] == 0:
            raise ScenarioError(
                f"the points of a profile begin at {self.at[0]:g}; give points that ascend from second 0"
            )
        if (self.rate < 0).any():
            raise ScenarioError(f"a profile has the rate {self.rate.min():g}; give rates of 0 or more")
        areas = np.diff(self.at) * (self.rate[1:] + self.rate[:-1]) / 2
        object.__setattr__(self, "expected", np.concatenate([[0.0], np.cumsum(areas)]))
        if self.total == 0:
            raise ScenarioError("a profile has no rate above 0; give one")

    @staticmethod
    def of(points: Sequence[Sequence[float]]) -> Profile:
        """The profile through pairs of second and rate."""
        if any(len(point) != 2 for point in points):
            raise ScenarioError("points holds something else than pairs; give pairs of second and rate, as in [60, 5]")
        pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
        return Profile(pairs[:, 0], pairs[:, 1])

    @staticmethod
    def steps(lasting_s: ArrayLike, rates: ArrayLike) -> Profile:
        """One rate after another, each constant for its time."""
        ends = np.cumsum(np.asarray(lasting_s, dtype=np.float64))
        at = np.repeat(np.concatenate([[0.0], ends]), 2)[1:-1]
        return Profile(at, np.repeat(np.asarray(rates, dtype=np.float64), 2))

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last point."""
        return float(self.at[-1])

    @property
    def total(self) -> float:
        """Arrivals expected over the span."""
        return float(self.expected[-1])

    @property
    def mean(self) -> float:
        """Requests per second over the span."""
        return self.total / self.span_s

    def until(self, seconds: float) -> float:
        """Arrivals expected before an instant; behind its end the profile comes again."""
        rounds, rest = divmod(seconds, self.span_s)
        place = min(int(np.searchsorted(self.at, rest, side="right")) - 1, len(self.at) - 2)
        lasting, begun = self.at[place + 1] - self.at[place], rest - self.at[place]
        slope = (self.rate[place + 1] - self.rate[place]) / lasting if lasting else 0.0
        return float(rounds * self.total + self.expected[place] + begun * (self.rate[place] + slope * begun / 2))

    def when(self, arrivals: Floats) -> Floats:
        """The times by which the given numbers of arrivals are expected, exactly; the profile repeats after its end.

        Maps a Poisson process of rate 1 to one with this rate (Çinlar 1975, section 4.7: inversion).
        """
        rounds, rest = np.divmod(arrivals, self.total)
        place = np.clip(np.searchsorted(self.expected, rest, side="right") - 1, 0, len(self.at) - 2)
        lasting = self.at[place + 1] - self.at[place]
        begin = self.rate[place]
        slope = np.divide(self.rate[place + 1] - begin, lasting, out=np.zeros_like(begin), where=lasting > 0)
        beyond = rest - self.expected[place]
        # c = b·t + s·t²/2 solved for t in the form that does not cancel, with a small slope or a rate that begins at 0.
        under = begin + np.sqrt(np.maximum(begin**2 + 2 * slope * beyond, 0.0))
        into = np.divide(2 * beyond, under, out=np.zeros_like(beyond), where=under > 0)
        return rounds * self.span_s + self.at[place] + np.minimum(into, lasting)

    def times(self, factor: float) -> Profile:
        """The same shape at `factor` times the rate."""
        return Profile(self.at, self.rate * positive("factor", factor))

    def spiked(self, at_s: float, lasting_s: float, factor: float) -> Profile:
        """The rate times `factor` between `at_s` and `at_s + lasting_s`: a flash crowd, or an outage upstream."""
        begin, end = positive("at_s", at_s, zero=True), at_s + positive("lasting_s", lasting_s)
        positive("factor", factor, zero=True)
        if end > self.span_s:
            raise ScenarioError(f"a spike ends at {end:g} s, behind the profile's end at {self.span_s:g} s; shorten it")
        cuts = [self._split(low, high) for low, high in ((0.0, begin), (begin, end), (end, self.span_s)) if high > low]
        rates = [rate * (factor if at[0] == begin and at[-1] == end else 1.0) for at, rate in cuts]
        return Profile(np.concatenate([at for at, _ in cuts]), np.concatenate(rates))

    def _split(self, low: float, high: float) -> tuple[Floats, Floats]:
        """The points between two instants, with one at each of them: rates just after `low` and just before `high`."""
        first, last = np.searchsorted(self.at, low, side="right"), np.searchsorted(self.at, high, side="left")
        at = np.concatenate([[low], self.at[first:last], [high]])
        return at, np.concatenate([[self._at(low, first)], self.rate[first:last], [self._at(high, last)]])

    def _at(self, instant: float, behind: Any) -> float:
        """The rate at an instant on the line that ends at point `behind`."""
        left, right = int(behind) - 1, int(behind)
        share = (instant - self.at[left]) / (self.at[right] - self.at[left])
        return float(self.rate[left] + share * (self.rate[right] - self.rate[left]))


def spiked(profile: Profile, spikes: Sequence[Mapping[str, float]]) -> Profile:
    """The profile with each of `spikes` (at_s, lasting_s, factor) upon it; where they overlap, factors multiply."""
    for spike in spikes:
        profile = profile.spiked(**spike)
    return profile
