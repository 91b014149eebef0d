"""Comparisons of the same policies along an axis, and the criteria that may be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

from poise.claims.answer import Answer, Ratio
from poise.claims.claim import Curve, Point
from poise.report.figures import deciding
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE
from poise.report.wording import MISSING, Kind, significant, write

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


class Gap(NamedTuple):
    """How much better one policy is than another at one place: both values, and the difference with its interval."""

    x: float
    other: str
    own: float | None
    others: float | None
    lead: Interval

    @property
    def sign(self) -> int:
        """1 where it is better by more than chance, -1 where worse, 0 where chance may decide."""
        if not self.lead.apart or self.lead.value is None:
            return 0
        return 1 if self.lead.value > 0 else -1


@dataclass(frozen=True, slots=True)
class Sweep:
    """One comparison for each place on an axis, each at load 1.  across: what the axis is, with its unit."""

    across: str
    at: Mapping[float, Comparison]

    def curve(self, title: str, figure: str, policies: Sequence[str] = ()) -> Curve:
        """A figure of policies (default: all) along the axis."""
        names = policies or next(iter(self.at.values())).study.policies
        lines = {name: [self._point(x, name, figure) for x in self.at] for name in names}
        return Curve(title, self.across, deciding(figure).kind, lines)

    def _point(self, x: float, name: str, figure: str) -> Point:
        found = self.at[x].interval(name, figure)
        return Point(x, found.value, found.half)

    def value(self, x: float, policy: str, figure: str) -> float:
        """A figure of a policy at a place; 0 where it has none."""
        return self.at[x].interval(policy, figure).value or 0.0

    def seeds(self, x: float, policy: str, figure: str) -> list[float]:
        """A figure or count of each seed of a policy at a place, as in ttft_s.p99; 0 where one has none."""
        seeds = self.at[x].result(policy, 1.0)["per_seed"]
        return [at_path(each, figure) or 0.0 for each in seeds]

    def total(self, policy: str, figure: str) -> list[float]:
        """A count of each seed, summed over all places."""
        return [sum(each) for each in zip(*(self.seeds(x, policy, figure) for x in self.at), strict=True)]

    def ratio(self, x: float, figure: str, policy: str, other: str) -> Ratio:
        """How many times as much `other` has as `policy`, over seeds."""
        return ratio(self.seeds(x, policy, figure), self.seeds(x, other, figure))

    def gaps(self, figure: str, policy: str, others: Sequence[str]) -> list[Gap]:
        """At each place the one of `others` that `policy` is `least` ahead of, at the confidence for all at once."""
        confidence = 1 - (1 - CONFIDENCE) / len(others)
        return [self._gap(x, figure, policy, others, confidence) for x in self.at]

    def _gap(self, x: float, figure: str, policy: str, others: Sequence[str], confidence: float) -> Gap:
        found = []
        for other in others:
            gap = self.at[x].interval(policy, figure, against=other, confidence=confidence)
            own, their = (self.at[x].interval(name, figure).value for name in (policy, other))
            sign = 1 if deciding(figure).better == "more" else -1
            lead = Interval(None if gap.value is None else sign * gap.value, gap.half, gap.why)
            found.append(Gap(x, other, own, their, lead))
        return least(found)

    def ahead(self, key: str, figure: str, policy: str, others: Sequence[str]) -> Answer:
        """At each place by how much `policy` is better than the one of `others` that it is least ahead of."""
        gaps = self.gaps(figure, policy, others)
        return Answer(key, self._text(gaps, figure), [gap.lead for gap in gaps])

    def _text(self, gaps: Sequence[Gap], figure: str) -> str:
        kind = deciding(figure).kind
        return "; ".join(f"at {significant(gap.x)}: {_against(gap, kind)}" for gap in gaps)


def least(gaps: Sequence[Gap]) -> Gap:
    """Of some gaps at one place the one that says least for the policy: one in which it is worse by more than chance,
    else the one whose interval reaches furthest down. So its sign is 1 only where all of them are 1."""
    worse = [gap for gap in gaps if gap.sign < 0]
    return min(worse or gaps, key=lambda gap: -inf if gap.lead.low is None else gap.lead.low)


def _against(gap: Gap, kind: Kind) -> str:
    """Both values, and how far the one is ahead of the other or behind it."""
    both = f"{write(gap.own, kind, 3)} vs {write(gap.others, kind, 3)} of {gap.other}"
    if gap.lead.value is None:
        return both
    if not gap.lead.value:
        return f"{both} (equal)"
    half = "?" if gap.lead.half is None else _amount(gap.lead.half, kind, 2)
    return f"{both} ({_amount(abs(gap.lead.value), kind, 3)} ± {half} {'better' if gap.lead.value > 0 else 'worse'})"


def _amount(value: float, kind: Kind, digits: int) -> str:
    """A difference in words: that of two shares is in points."""
    return f"{significant(100 * value, digits)} points" if kind == "share" else write(value, kind, digits)


def swept(across: str, places: Sequence[float], run: Callable[[float], Comparison]) -> Sweep:
    """The sweep of `run` over `places`."""
    return Sweep(across, {place: run(place) for place in places})


def at_path(data: Mapping[str, Any], path: str) -> float | None:
    """The number at a path with dots, None where there is none."""
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def ratio(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """How many times as much `other` has as `base`, seed by seed: the geometric mean with its 95 % interval."""
    pairs = list(zip(base, other, strict=True))
    if not all(own > 0 and their > 0 for own, their in pairs):
        return Ratio(None, None, None)
    found = over_seeds([log(their / own) for own, their in pairs])
    value, low, high = (None if each is None else exp(each) for each in (found.value, found.low, found.high))
    return Ratio(value, low, high)


def times(found: Ratio) -> str:
    """A ratio in words, with its interval in brackets."""
    if found.value is None:
        return MISSING
    if found.low is None or found.high is None:
        return significant(found.value, 3)
    return f"{significant(found.value, 3)} ({significant(found.low, 3)} to {significant(found.high, 3)})"


def value_of(found: Interval) -> str:
    """A number in words, with half of its interval."""
    if found.value is None:
        return MISSING
    return significant(found.value, 3) + ("" if found.half is None else f" ± {significant(found.half, 2)}")


def at_least(found: Ratio | Interval, bound: float) -> bool | None:
    """Whether something is at least so much; None where its interval has the bound inside, or there is none."""
    if found.low is None or found.high is None:
        return None
    return True if found.low >= bound else False if found.high < bound else None


def at_most(found: Ratio | Interval, bound: float) -> bool | None:
    """Whether something is at most so much; None where its interval has the bound inside, or there is none."""
    if found.low is None or found.high is None:
        return None
    return True if found.high <= bound else False if found.low > bound else None


def every(met: Iterable[bool | None]) -> bool | None:
    """Whether all are met: one refuted is enough for no, else one open for nobody knows."""
    known = list(met)
    return False if False in known else None if None in known else True
