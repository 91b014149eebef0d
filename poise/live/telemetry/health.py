"""Circuit breaking and outlier ejection: which engines get no requests for a while, from how their last ones ended.

    closed ──failures in a row, or too great a share──▶ open ──its time is over──▶ half-open ──successes──▶ closed
                                                          ▲                            │
                                                          └── a failure, twice as long ┘
Pure: outcomes and instants in, transitions out. Never more than a stated share of the engines is open or half-open, so
a fault that hits all of them (or the gateway's own network) cannot stop the service. Terms are those of Envoy's outlier
detection and panic threshold; ejections double (exponential backoff) where Envoy's grow by one base time each.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple

from poise.core.units import NEVER, ps


class Outcome(Enum):
    """How a request, or a check, ended at an engine."""

    OK = "ok"
    REFUSED = "connection refused"
    RESET = "connection reset"
    TIMEOUT = "timeout"
    ERROR = "error 5xx"
    GARBAGE = "no HTTP"


class Circuit(Enum):
    """What may be sent to an engine: everything, nothing, or one request to try it."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Limits(NamedTuple):
    """When to eject, and for how long.

    consecutive: failures in a row (Envoy: 5).  share, requests, window_s: or this share of at least `requests` requests
    in `window_s` seconds (Envoy: 85 % of 50 in 10 s; here sooner, as requests to engines are few and long).
    first_s, longest_s: the first ejection, and the most that doubling makes of it (Envoy: 30 and 300 s).
    forget_s: after this long closed, an engine's ejections are reset.  probes: successes in a row that close a circuit.
    ejected: share of the engines that may be ejected at once, rounded down (Envoy panics below 50 % healthy).
    """

    consecutive: int = 5
    share: float = 0.5
    requests: int = 10
    window_s: float = 10.0
    first_s: float = 5.0
    longest_s: float = 300.0
    forget_s: float = 300.0
    probes: int = 2
    ejected: float = 0.5


class Eject(NamedTuple):
    """Send `engine` nothing until `until` (picoseconds)."""

    engine: int
    until: int
    reason: str


class Probe(NamedTuple):
    """Send `engine` one request or check, no more before its outcome."""

    engine: int


class Restore(NamedTuple):
    """Send `engine` requests as before."""

    engine: int


Transition = Eject | Probe | Restore


class _Watch:
    """The circuit state of one engine."""

    __slots__ = ("circuit", "ejections", "failed", "good", "recent", "since", "streak", "until")

    def __init__(self, at: int) -> None:
        self.circuit = Circuit.CLOSED
        self.streak = 0  # failures in a row
        self.good = 0  # successes in a row while half-open
        self.ejections = 0
        self.since = at  # of its state
        self.until = NEVER  # end of its ejection
        self.recent: deque[tuple[int, bool]] = deque()  # instants and failures within the window
        self.failed = 0  # failures among `recent`

    def enter(self, circuit: Circuit, at: int) -> None:
        self.circuit = circuit
        self.since = at
        self.streak = self.good = 0


class Health:
    """The circuits of a fleet; engines are dense ids. Instants are picoseconds and do not decrease."""

    __slots__ = ("_window", "engines", "limits")

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.engines: dict[int, _Watch] = {}
        self._window = ps(self.limits.window_s)

    def circuit(self, engine: int) -> Circuit:
        """What may be sent to `engine` now."""
        return self.engines[engine].circuit

    def join(self, engine: int, at: int) -> None:
        """A new engine begins closed."""
        self.engines[engine] = _Watch(at)

    def leave(self, engine: int, at: int) -> list[Transition]:
        """Remove an engine; where too many of the rest are ejected now, those ejected longest are readmitted."""
        del self.engines[engine]
        done: list[Transition] = []
        while self._ejected() > self._quota():
            back = min(self._not_closed(), key=lambda each: self.engines[each].since)
            self.engines[back].enter(Circuit.CLOSED, at)
            done.append(Restore(back))
        return done

    def outcome(self, engine: int, result: Outcome, sent_at: int, at: int) -> list[Transition]:
        """A request or a probe at `engine` ended. One sent before its circuit changed last is ignored."""
        watch = self.engines[engine]
        if sent_at < watch.since or watch.circuit is Circuit.OPEN:
            return []
        failed = result is not Outcome.OK
        if watch.circuit is Circuit.HALF_OPEN:
            return self._probed(engine, watch, failed, result, at)
        self._remember(watch, failed, at)
        reason = self._verdict(watch, result) if failed else ""
        return self._eject(engine, watch, reason, at) if reason else []

    def checked(self, engine: int, result: Outcome, at: int) -> list[Transition]:
        """An active check (`GET /health`) ended: it fails and probes like a request; its success resets no streak."""
        if result is Outcome.OK and self.engines[engine].circuit is Circuit.CLOSED:
            return []
        return self.outcome(engine, result, at, at)

    def tick(self, at: int) -> list[Transition]:
        """Time passed: ejections that are over become probes."""
        done: list[Transition] = []
        for engine, watch in self.engines.items():
            if watch.circuit is Circuit.OPEN and watch.until <= at:
                watch.enter(Circuit.HALF_OPEN, at)
                watch.until = NEVER
                done.append(Probe(engine))
        return done

    def next_at(self) -> int:
        """When `tick` must be called next, `NEVER` for no need."""
        return min((watch.until for watch in self.engines.values()), default=NEVER)

    # -----------------------------------------------------------------------------------------------------------------

    def _probed(self, engine: int, watch: _Watch, failed: bool, result: Outcome, at: int) -> list[Transition]:
        if failed:
            return self._eject(engine, watch, f"probe: {result.value}", at)
        watch.good += 1
        if watch.good < self.limits.probes:
            return [Probe(engine)]
        watch.enter(Circuit.CLOSED, at)
        watch.recent.clear()
        watch.failed = 0
        return [Restore(engine)]

    def _remember(self, watch: _Watch, failed: bool, at: int) -> None:
        recent = watch.recent
        recent.append((at, failed))
        watch.failed += failed
        while recent[0][0] <= at - self._window:
            watch.failed -= recent.popleft()[1]
        watch.streak = watch.streak + 1 if failed else 0
        if watch.ejections and at - watch.since >= ps(self.limits.forget_s):
            watch.ejections = 0

    def _verdict(self, watch: _Watch, result: Outcome) -> str:
        """Why the engine is to be ejected, empty if it is not."""
        limits, count = self.limits, len(watch.recent)
        if watch.streak >= limits.consecutive:
            return f"{watch.streak} failures in a row, the last: {result.value}"
        if count >= limits.requests and watch.failed >= limits.share * count:
            return f"{watch.failed} of {count} requests failed in {limits.window_s:g} s, the last: {result.value}"
        return ""

    def _eject(self, engine: int, watch: _Watch, reason: str, at: int) -> list[Transition]:
        if watch.circuit is Circuit.CLOSED and self._ejected() >= self._quota():
            return []
        limits = self.limits
        lasts = min(ps(limits.longest_s), ps(limits.first_s) << min(watch.ejections, 40))
        watch.ejections += 1
        watch.enter(Circuit.OPEN, at)
        watch.until = at + lasts
        return [Eject(engine, watch.until, reason)]

    def _not_closed(self) -> list[int]:
        return [engine for engine, watch in self.engines.items() if watch.circuit is not Circuit.CLOSED]

    def _ejected(self) -> int:
        return sum(watch.circuit is not Circuit.CLOSED for watch in self.engines.values())

    def _quota(self) -> int:
        return int(self.limits.ejected * len(self.engines))
