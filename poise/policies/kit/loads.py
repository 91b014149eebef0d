"""How fast each replica is, how full with the requests in flight, and what moving one of them would change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from poise.core.units import ps
from poise.core.view import ClusterView, InFlightView

_UNKNOWN: Final = 1e12
"""Prompt tokens per second where no rate is known: equal for all, and so fast that no wait seems too long."""


def prefill_rates(cluster: ClusterView) -> Sequence[float]:
    """The rate at which each replica computes prompts, none of them 0: an unknown one is the mean of those known.

    Where none is known all are equal, so that work alone decides between them, and no request is rejected for a wait
    that cannot be predicted.
    """
    rates = cluster.prefill_rate
    if 0 not in rates:
        return rates
    known = [rate for rate in rates if rate]
    mean = sum(known) / len(known) if known else _UNKNOWN
    return [rate or mean for rate in rates]


def check_units(block_tokens: int, step_s: float) -> None:
    """Raise ValueError for KV blocks of no tokens, or output tokens that take no time."""
    if block_tokens < 1 or step_s <= 0:
        raise ValueError(f"block_tokens {block_tokens}, step_s {step_s}: give at least 1 token and seconds above 0")


def kv_tokens(flight: InFlightView, now: int, step_s: float) -> int:
    """KV tokens of a request, guessed: its prompt, and an output token for each `step_s` since its first one."""
    made = (now - flight.first_token_at) // ps(step_s) if flight.first_token_at >= 0 else 0
    return flight.request.prompt_tokens + made


class Loads:
    """The load of each replica: the share of its KV blocks that its requests fill, or will when they are admitted.

    share: a column over replicas, above 1 where more was sent than fits.  step_s: guessed seconds per output token.
    """

    __slots__ = ("_blocks", "_cluster", "_scale", "_step_s", "share")

    def __init__(self, cluster: ClusterView, block_tokens: int, step_s: float) -> None:
        self._cluster = cluster
        self._step_s = step_s
        self._blocks = [max(1, blocks) * block_tokens for blocks in cluster.total_blocks]
        self.share = [
            sum(kv_tokens(flight, cluster.now, step_s) for flight in cluster.flights(replica)) / self._blocks[replica]
            for replica in range(len(self._blocks))
        ]
        mean = sum(self.share) / len(self.share)
        self._scale = 1 / mean**2 if mean else 0.0

    def movable(self, replica: int) -> Sequence[InFlightView]:
        """The requests of a replica that are not on their way elsewhere."""
        return [flight for flight in self._cluster.flights(replica) if flight.target < 0]

    def gain(self, flight: InFlightView, source: int, target: int, second: float) -> float:
        """By how much the sum of squares falls when a request moves, less `second` for each second of copying.

        The squares are of shares in units of their mean. A request without a first token has no KV to copy.
        """
        tokens = kv_tokens(flight, self._cluster.now, self._step_s)
        out, into = tokens / self._blocks[source], tokens / self._blocks[target]
        spread = out * (2 * self.share[source] - out) - into * (2 * self.share[target] + into)
        copying = self._cluster.kv_seconds(tokens, source, target) if flight.first_token_at >= 0 else 0.0
        return spread * self._scale - second * copying

    def move(self, flight: InFlightView, source: int, target: int) -> None:
        """Count a request at its new place."""
        tokens = kv_tokens(flight, self._cluster.now, self._step_s)
        self.share[source] -= tokens / self._blocks[source]
        self.share[target] += tokens / self._blocks[target]
