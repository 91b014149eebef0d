"""Waiting for prefill in closed form: one instance, two pipelined halves, or two devices side by side.

DistServe (arXiv 2401.09670), section 3.1: prompts of one length, each of which saturates the device, come by chance
(Poisson) at `rate`, and are served one at a time in `prefill_s` seconds. A load of 1 or more has no mean: infinite.
"""

from __future__ import annotations

from math import inf


def md1_ttft(prefill_s: float, rate: float) -> float:
    """Mean TTFT of one instance: D + R·D² / (2·(1 − R·D)), the M/D/1 queue's time in the system."""
    load = rate * prefill_s
    return prefill_s + rate * prefill_s**2 / (2 * (1 - load)) if load < 1 else inf


def pipelined_ttft(prefill_s: float, rate: float) -> float:
    """Mean TTFT of two pipeline stages: D + R·D² / (4·(2 − R·D)); a prompt takes D, the next starts at D/2."""
    load = rate * prefill_s
    return prefill_s + rate * prefill_s**2 / (4 * (2 - load)) if load < 2 else inf


def tensor_ttft(prefill_s: float, rate: float, speedup: float) -> float:
    """Mean TTFT of two tensor ranks that are `speedup` (1 to 2) times as fast: D/K + R·D² / (2·K·(K − R·D))."""
    return md1_ttft(prefill_s / speedup, rate)


def crossing_load(speedup: float) -> float:
    """The load R·D above which two stages have a lower mean TTFT than two ranks with a speed-up of K, 1 < K < 2.

    Where both formulas are equal, by bisection over (0, K): ranks are ahead near 0, and without end behind at K.
    """
    low, high = 0.0, speedup
    for _ in range(60):
        load = (low + high) / 2
        if tensor_ttft(1.0, load, speedup) < pipelined_ttft(1.0, load):
            low = load
        else:
            high = load
    return low
