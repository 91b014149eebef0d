"""Faults drawn from rates: a stream of exponential gaps for each rate and replica, which depends on no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

from poise.core.chance import Chance
from poise.core.spec import Fault, FaultRate


def faults(rates: Sequence[FaultRate], replicas: int, seed: int, until_s: float) -> tuple[Fault, ...]:
    """Those of `replicas` replicas within `until_s` seconds, in order; the same for the same seed."""
    found = [
        fault
        for number, rate in enumerate(rates)
        for replica in rate.replicas or range(replicas)
        for fault in _of(rate, replica, f"fault {number} {replica}", seed, until_s)
    ]
    return tuple(sorted(found, key=lambda fault: (fault.at_s, fault.replica)))


def _of(rate: FaultRate, replica: int, purpose: str, seed: int, until_s: float) -> Iterator[Fault]:
    """One rate's faults of one replica: a gap, a fault, and where the replica is lost, the wait for another."""
    chance = Chance(seed)
    at, mean = 0.0, 3600 / rate.per_hour
    while True:
        at += mean * _exponential(chance, purpose)
        if at >= until_s:
            return
        yield Fault(at, rate.kind, replica, rate.notice_s, rate.for_s, rate.factor, rate.devices)
        if rate.kind in ("lost", "reclaimed"):
            if not rate.back_s:
                return
            at += rate.notice_s + rate.back_s * _exponential(chance, f"{purpose} back")
            yield Fault(at, "join", replica)
        if rate.kind != "device_lost":  # other devices may be lost meanwhile
            at += rate.for_s
        chance.key += 1


def _exponential(chance: Chance, purpose: str) -> float:
    """A draw of mean 1."""
    return -log(1.0 - chance.draw(purpose))
