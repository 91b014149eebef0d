"""AIBrix's SLO-driven optimiser: as many replicas as the load needs by a profile measured beforehand.

AIBrix (arXiv 2504.03648, "SLO-driven GPU optimizer"; code at e3e10f9, gpu_optimizer): for sizes of prompt and output
the profile says how many requests a second one replica serves within the SLO. What was seen in a window is sorted into
the nearest size (in powers of two); the load is the sum of rate / profile over sizes, and its ceiling the number of
replicas, as Mélange's program (arXiv 2404.14527) has it for one kind of device. Window 240 s and a decision every 10 s
are the code's (load_monitor/monitor.py), and so is the rate: the larger of the window's mean and the current one.

Departures: several kinds of devices, among which that program chooses by price, are not weighed: each pool is sized for
the requests that it could take by the same profile. Sizes are those of the profile, where the code clusters what it
sees. The current rate is that of the last 10 s; with a forecast, the rate is the predicted one. Going down has
no cooldown there; here `cooldown_s` may be given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.event import Arrived, Event, Finished
from poise.core.units import SECOND, ps
from poise.core.view import FleetView
from poise.policies.kit.pool_metrics import Lately, count


@dataclass(slots=True)
class SloOptimizer:
    """Size pools by a profile.

    profile: rows of prompt tokens, output tokens and the requests a second that a replica serves within the SLO.
    window_s: of the mix and of the mean rate; recent_s: of the current one.  cooldown_s: for how long a higher target
    holds. ahead_s: how far a forecast looks; 0: for the longest start of a pool.
    """

    profile: list[list[float]]
    window_s: float = 240.0
    recent_s: float = 10.0
    cooldown_s: float = 0.0
    ahead_s: float = 0.0
    period_s: float = 10.0
    _arrivals: deque[int] = field(default_factory=deque, init=False, repr=False, compare=False)
    _open: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _loads: Lately = field(default_factory=lambda: Lately(0), init=False, repr=False, compare=False)
    _wishes: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.profile or any(len(row) != 3 or min(row) <= 0 for row in self.profile):
            raise ValueError("profile is a list of rows of three numbers above 0, as in [[512, 128, 9.5]]")
        if not 0 < self.recent_s <= self.window_s or self.period_s <= 0 or min(self.cooldown_s, self.ahead_s) < 0:
            raise ValueError("recent_s lies in (0, window_s], period_s is above 0, and no other time below")
        self._loads = Lately(ps(self.window_s))

    @property
    def needs(self) -> tuple[str, ...]:
        """No column is read."""
        return ()

    def observe(self, event: Event) -> None:
        """Count arrivals; finished requests give the mix."""
        if type(event) is Arrived and not event.attempt:
            self._arrivals.append(event.at)
            self._open[event.request.id] = event.request.prompt_tokens
        elif type(event) is Finished:
            prompt = self._open.pop(event.request, 0)
            if prompt:
                self._loads.add(event.at, 1 / self._rate_of(prompt, event.output_tokens))

    def _rate_of(self, prompt: int, output: int) -> float:
        """Requests a second of the nearest size in the profile."""
        nearest = min(
            self.profile,
            key=lambda row: abs(log2(row[0] / max(prompt, 1))) + abs(log2(row[1] / max(output, 1))),
        )
        return nearest[2]

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """A target for each pool, once some request has finished."""
        now = cluster.now
        self._loads.trim(now)
        if not len(self._loads):
            return [
                Scale(number, max(pool.wanted, bool(pool.held)), pool.warm) for number, pool in enumerate(cluster.pools)
            ]
        options = count(self._rate(now, cluster.rate) * self._loads.mean, 1)
        changes = []
        for number, pool in enumerate(cluster.pools):
            wishes = self._wishes.setdefault(number, Lately(ps(self.cooldown_s)))
            wishes.add(now, max(options, bool(pool.held)))
            changes.append(Scale(number, int(max(wishes.most, options, bool(pool.held))), pool.warm))
        return changes

    def _rate(self, now: int, forecast: float) -> float:
        """Requests a second to be ready for."""
        while self._arrivals and self._arrivals[0] <= now - ps(self.window_s):
            self._arrivals.popleft()
        if forecast >= 0:
            return forecast
        recent = sum(at > now - ps(self.recent_s) for at in self._arrivals)
        passed = min(ps(self.window_s), now) or 1
        return max(len(self._arrivals) * SECOND / passed, recent / self.recent_s)
