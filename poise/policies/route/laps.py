"""LAPS across instances: short and long prompts in pools of replicas, and a controller that moves one at a time.

Paper: LAPS (arXiv 2601.11589, MLSys 2026), known from notes on it. A request with at most `short_tokens` of prompt
that no cache holds goes to the short pool, others to the long one; within a pool to the replica with the fewest prompt
tokens to compute. Each `period_s` the pools' pressures are compared: ψ = α·(P90 over the pool of the seconds of prompts
that wait, over `ttft_s`) + β·(the part of its replicas beyond `ttft_s`) − γ·(the part that has nothing to compute).
Where one is more than `margin` above the other, the least loaded replica of the other joins it, and the next move waits
`cool_s`.

The paper's third term is of utilisation, which gateways do not know; α, β and γ are not stated, and 1 here. In the
first period all replicas serve both classes; then the pools have replicas in proportion to the prompt tokens seen, at
least one each. Replicas that come later join the long pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView


@dataclass(slots=True)
class Laps:
    """Route by the class of a prompt; the parameters are those of the module."""

    without_prefixes: ClassVar[str] = "prompts as if nothing of them were cached"

    short_tokens: int = 256
    ttft_s: float = 0.4
    period_s: float = 1.0
    cool_s: float = 2.0
    margin: float = 0.25
    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = 1.0
    _short: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _seen: list[int] = field(default_factory=lambda: [0, 0], init=False, repr=False, compare=False)
    _next_at: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.short_tokens < 1 or min(self.ttft_s, self.period_s) <= 0:
            raise ValueError("short_tokens is 1 or more, ttft_s and period_s are above 0; correct them")
        if min(self.cool_s, self.margin, self.alpha, self.beta, self.gamma) < 0:
            raise ValueError("cool_s, margin, alpha, beta and gamma are 0 or more; correct them")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("queued_tokens", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least loaded of its class's pool."""
        able = cluster.able(request)
        cached = cluster.cached_tokens(request)
        left = request.prompt_tokens - max([cached[each] for each in able])
        short = left <= self.short_tokens
        self._control(able, cluster)
        if not self._short:
            self._seen[short] += left
            return Route(chance.least(able, cluster.queued_tokens))
        pool = [each for each in able if (each in self._short) == short]
        return Route(chance.least(pool or able, cluster.queued_tokens))

    def _split(self, able: Sequence[int]) -> None:
        """The first pools, by the tokens seen."""
        share = self._seen[True] / max(sum(self._seen), 1)
        self._short.update(able[: min(max(1, round(share * len(able))), len(able) - 1)])

    def _control(self, able: Sequence[int], cluster: ClusterView) -> None:
        """Move a replica to the pool that needs it, once a period at most."""
        if cluster.now < self._next_at:
            return
        if sum(self._seen) and not self._short:
            self._split(able)
        self._next_at = cluster.now + ps(self.period_s)
        pools = [[each for each in able if (each in self._short) == short] for short in (True, False)]
        if not all(pools):
            return
        short, long = (self.pressure(pool, cluster) for pool in pools)
        if abs(short - long) <= self.margin:
            return
        giver = pools[short > long]
        if len(giver) < 2:
            return
        moved = min(giver, key=lambda each: (cluster.queued_tokens[each], each))
        self._short ^= {moved}
        self._next_at = cluster.now + ps(max(self.period_s, self.cool_s))

    def pressure(self, pool: Sequence[int], cluster: ClusterView) -> float:
        """ψ of a pool."""
        waits = sorted(cluster.queued_tokens[each] / max(cluster.prefill_rate[each], 1e-9) for each in pool)
        late = sum(wait > self.ttft_s for wait in waits) / len(waits)
        idle = sum(wait <= 0 for wait in waits) / len(waits)
        high = waits[ceil(0.9 * len(waits)) - 1] / self.ttft_s
        return self.alpha * high + self.beta * late - self.gamma * idle
