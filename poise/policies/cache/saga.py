"""SAGA's cache: KV is kept while a tool runs, and eviction depends on whether its program will continue.

Paper: "SAGA" (arXiv 2605.00528), known from notes on it and on a reproduction. Tool TTL: the durations of each tool
are log-normal, their mean and variance in logarithms moving averages, and KV stays for

    ttl = p95·(1 − 0.5·pressure)   seconds, at most `cap_s`; pressure rises from 0 to 1 between 70 and 90 % of KV in use

Eviction (WA-LRU): the most of α·R + β·(1 − P_reuse) + γ·S first, with R recency, S size, α 0.3, β 0.5, γ 0.2.
P_reuse of an extent is the sum, at most 1, over the programs that have it, of the probability that each continues: how
often sessions that called this tool came back (the observed edges of the execution graph), 0 for one
that has ended. Until `cold` sessions left for tools, all are assumed to return, and KV stays `cold_ttl_s`.

It differs in that R is the time since the last use in units of `horizon_s`, not of the oldest extent, so that two idle
extents keep their order (see `core/engine/ranked_pool.py`). S is the context of the program in units of the largest
seen, so that the parts of one program are evicted together, its tail first. KV of a program that went on at another
replica counts as that of one that may return, for a replica does not learn of it. Prefetching is not built: evicted
KV is kept nowhere, so there is no lower tier to prefetch from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, sqrt

from poise.core.request import NO_TOOL, RequestView
from poise.core.units import SECOND, ps
from poise.core.view import LaneView, SequenceView

P95 = 1.645
"""Standard deviations from the median to the 95th percentile of a normal distribution."""


@dataclass(slots=True)
class LogNormal:
    """Moving averages of the logarithm of durations, and how many sessions left and came back."""

    mean: float = 0.0
    variance: float = 0.0
    left: int = 0
    back: int = 0

    def add(self, seconds: float, weight: float) -> None:
        """One more duration."""
        value = log(max(seconds, 1e-3))
        self.back += 1
        step = max(weight, 1 / self.back)
        off = value - self.mean
        self.mean += step * off
        self.variance = (1 - step) * (self.variance + step * off * off)

    @property
    def p95(self) -> float:
        """Seconds within which 95 % end."""
        return exp(self.mean + P95 * sqrt(self.variance))


@dataclass(slots=True)
class Saga:
    """Times-to-live by tool under pressure, eviction by the value of programs.

    recency, reuse, size: α, β and γ; all 0 is LRU.  ttl: whether KV is pinned at all.  weight: of the newest duration
    in the averages.
    """

    recency: float = 0.3
    reuse: float = 0.5
    size: float = 0.2
    ttl: bool = True
    cap_s: float = 300.0
    cold: int = 30
    cold_ttl_s: float = 2.0
    horizon_s: float = 60.0
    weight: float = 0.1
    _tools: dict[int, LogNormal] = field(default_factory=dict, init=False, repr=False, compare=False)
    _away: dict[int, tuple[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _live: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _holders: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _largest: int = field(default=1, init=False, repr=False, compare=False)
    _now: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.recency, self.reuse, self.size) < 0:
            raise ValueError("recency, reuse and size are weights; give 0 or more")
        if min(self.cap_s, self.cold_ttl_s) < 0 or self.horizon_s <= 0 or self.cold < 1 or not 0 < self.weight <= 1:
            raise ValueError("cap_s and cold_ttl_s are 0 or more, horizon_s above 0, cold 1 or more, weight in (0, 1]")

    def returned(self, request: RequestView, now: int) -> None:
        """A tool has ended, or a program begins."""
        self._now = now
        if request.session < 0:
            return
        away = self._away.pop(request.session, None)
        if away is not None:
            tool, at = away
            self._tools[tool].add((now - at) / SECOND, self.weight)
        self._hold(request.session, request.ids)

    def gives_way(self, request: RequestView) -> int:
        """Release the program that began last first."""
        return -request.begun_at

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """The time-to-live of its tool, reduced under pressure."""
        self._now = lane.now
        if request.session < 0:
            return 0
        if sequence.tool == NO_TOOL:
            self._hold(request.session, ())
            return 0
        stats = self._tools.setdefault(sequence.tool, LogNormal())
        stats.left += 1
        self._away[request.session] = sequence.tool, lane.now
        if not self.ttl:
            return 0
        if stats.back < self.cold:
            return ps(self.cold_ttl_s)
        used = 1 - lane.free_blocks / lane.total_blocks
        pressure = min(max((used - 0.7) / 0.2, 0.0), 1.0)
        return ps(min(stats.p95 * (1 - 0.5 * pressure), self.cap_s))

    def rank(self, sequence: SequenceView, extent: int, blocks: int) -> float:
        """The negated eviction score."""
        self._largest = max(self._largest, sequence.need)
        used = self._now / SECOND / self.horizon_s
        size = sequence.need / self._largest
        return self.recency * used + self.reuse * self._reuse(sequence, extent) - self.size * size

    def _reuse(self, sequence: SequenceView, extent: int) -> float:
        """P_reuse: the sum over the programs that have the extent of their probability to continue; at most 1."""
        session = sequence.request.session
        if extent < 0 or session < 0:
            return 0.0
        own = session in self._live
        others = max(self._holders.get(extent, 0) - own, 0)
        stats = self._tools.get(self._away[session][0]) if session in self._away else None
        goes_on = 1.0 if stats is None or stats.left < self.cold else stats.back / stats.left
        return min(others + own * goes_on, 1.0)

    def _hold(self, session: int, ids: tuple[int, ...]) -> None:
        """The extents of a program that is under way; none: it has ended."""
        for extent in self._live.pop(session, ()):
            self._holders[extent] -= 1
            if not self._holders[extent]:
                del self._holders[extent]
        if ids:
            self._live[session] = ids
            for extent in ids:
                self._holders[extent] = self._holders.get(extent, 0) + 1
