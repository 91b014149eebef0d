"""Prefill in another datacentre for long prompts only: throughputs, and the length from which it pays.

"Prefill-as-a-Service" (arXiv 2604.15039). Prompts with more than `threshold` uncached tokens go to a remote cluster of
prefill instances and their KV cache comes back over a link; the rest, and all decoding, stay. Throughputs take the mean
length of what each side gets: Θ_remote = min(N/T(long), bandwidth/S(long)), Θ_local = N/T(short), Θ_decode =
N·batch/(T_step·output); the whole is min(Θ_remote/p, Θ_local/(1 − p), Θ_decode) with p the part that is long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, log, sqrt
from typing import NamedTuple

from poise.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Lengths:
    """A lognormal cut to [low, high] tokens."""

    mu: float
    sigma: float
    low: float
    high: float

    def part(self, low: float, high: float) -> float:
        """How much of it lies between two lengths."""
        return self._below(high, 0.0, low) / self._below(self.high, 0.0, self.low)

    def mean(self, low: float, high: float) -> float:
        """The mean of what lies between two lengths."""
        scale = exp(self.mu + self.sigma**2 / 2)
        return scale * self._below(high, self.sigma**2, low) / self._below(high, 0.0, low)

    def _below(self, high: float, shift: float, low: float) -> float:
        return self._normal(high, shift) - self._normal(low, shift)

    def _normal(self, length: float, shift: float) -> float:
        return (1 + erf((log(length) - self.mu - shift) / (self.sigma * sqrt(2)))) / 2


class Throughputs(NamedTuple):
    """Requests per second of each side, of the whole, and bytes per second that leave the remote side."""

    remote: float
    local: float
    decode: float
    whole: float
    egress: float


@dataclass(frozen=True, slots=True)
class CrossSite:
    """remote, local: prefill instances here and there.  decode: requests per second that all decode instances carry.

    remote_s, local_s: seconds of a prompt by its tokens.  kv_bytes: of its cache.  link: bytes per second.
    """

    lengths: Lengths
    remote: int
    local: int
    decode: float
    remote_s: Callable[[float], float]
    local_s: Callable[[float], float]
    kv_bytes: Callable[[float], float]
    link: float

    def at(self, threshold: float) -> Throughputs:
        """Throughputs when prompts longer than `threshold` go away."""
        lengths = self.lengths
        if not lengths.low < threshold < lengths.high:
            raise UserError(f"threshold {threshold:g} leaves one side nothing; give one inside the lengths")
        away = lengths.part(threshold, lengths.high)
        long, short = lengths.mean(threshold, lengths.high), lengths.mean(lengths.low, threshold)
        remote = min(self.remote / self.remote_s(long), self.link / self.kv_bytes(long))
        local = self.local / self.local_s(short)
        whole = min(remote / away, local / (1 - away), self.decode)
        return Throughputs(remote, local, self.decode, whole, whole * away * self.kv_bytes(long))

    def best(self) -> float:
        """The threshold at which both sides are busy: Θ_remote/p = Θ_local/(1 − p), by bisection."""
        low, high = self.lengths.low * (1 + 1e-9), self.lengths.high * (1 - 1e-9)
        for _ in range(80):
            threshold = (low + high) / 2
            away = self.lengths.part(threshold, self.lengths.high)
            found = self.at(threshold)
            if found.remote / away < found.local / (1 - away):
                low = threshold
            else:
                high = threshold
        return low
