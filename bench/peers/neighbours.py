"""How much of the machine other processes took while something was measured."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from dataclasses import dataclass

import psutil

QUIET = 0.1
"""Cores that other processes may take on average for a slice to count as quiet."""


def spent_s() -> tuple[float, float]:
    """CPU seconds since the start: of the whole machine, stolen time included, and of this process's whole tree."""
    machine = psutil.cpu_times()
    whole = machine.user + machine.nice + machine.system
    whole += sum(getattr(machine, name, 0.0) for name in ("irq", "softirq", "steal"))
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            own += times.user + times.system + times.children_user + times.children_system
    return whole, own


@dataclass
class Watch:
    """Started when made; `cores()` says how many cores others have taken on average since then."""

    def __post_init__(self) -> None:
        self.at = time.monotonic()
        self.whole, self.own = spent_s()

    def cores(self) -> float:
        """Cores taken by processes that this one did not start. Never below 0; ticks of 10 ms blur short slices."""
        whole, own = spent_s()
        return max(0.0, (whole - self.whole - own + self.own) / (time.monotonic() - self.at))


def load() -> float:
    """The machine's load average over the last minute."""
    return os.getloadavg()[0]
