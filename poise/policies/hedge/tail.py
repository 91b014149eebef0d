"""Hedge the slowest few, as in "The Tail at Scale" (Dean and Barroso, CACM 56(2), 2013, "Hedged requests").

"Defer sending a secondary request until the first request has been outstanding for more than the 95th-percentile
expected latency for this class of requests." A class is here a model and a power of two of prompt tokens to compute,
which affects times to first token most. Copies shorten only times above the quantile, so they hardly lower
the quantile itself.

There a copy costs almost nothing; here it costs its prompt. So there are three more rules, which are ours:

- A budget: the copies' prompt tokens to compute, as the prefix caches are believed to be, stay within `share` of those
  of all requests sent.
- A copy must be worth it. It costs the tokens queued there, its own, and `cancel_tokens` for the copy that is
  cancelled in the end, because an engine frees a request only after its step (default: half of vLLM's step of 8192).
  This is compared with the expected rest of the wait at its replica: the tokens queued there, but at least the time
  that has passed. It has waited longer than nearly all similar requests, so its remaining wait is more likely as long
  as the past one (as for any scale-free wait) than the time of a replica as fast as the others.
- Until `least` requests of its class have had a first token, the quantile is unknown, and nothing is hedged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.event import Event, FirstToken
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates
from poise.policies.predict.history import Lately

Class = tuple[int, int]


@dataclass(slots=True)
class Tail:
    """Hedge a request that waits longer than a quantile of its class, within a budget, where a copy is likely faster.

    quantile: of times to first token, in (0, 1].  share: copies' tokens to those of all.  cancel_tokens: what stopping
    a copy costs.  window: first tokens of a class that are remembered.  least: how many of them there must be.
    """

    quantile: float = 0.95
    share: float = 0.05
    cancel_tokens: int = 4096
    window: int = 1000
    least: int = 20
    _open: dict[int, tuple[int, Class]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lately: dict[Class, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sent: int = field(default=0, init=False, repr=False, compare=False)
    _copied: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.quantile <= 1 or self.share < 0 or self.cancel_tokens < 0:
            raise ValueError("quantile lies in (0, 1], and neither share nor cancel_tokens is negative")
        if not 1 <= self.least <= self.window:
            raise ValueError(f"least {self.least} lies in [1, window], and window is {self.window}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("queued_tokens", "cached_tokens")

    # Learning --------------------------------------------------------------------------------------------------------

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """A request is sent, and `replica` must compute what is not in its cache."""
        tokens = request.prompt_tokens - cluster.cached_tokens(request)[replica]
        self._sent += tokens
        self._open[request.id] = cluster.now, (request.model, tokens.bit_length())

    def observe(self, event: Event) -> None:
        """Record the time to first token for the request's class."""
        if type(event) is FirstToken:
            sent = self._open.pop(event.request, None)
            if sent is not None:
                lately = self._lately.get(sent[1])
                if lately is None:
                    lately = self._lately[sent[1]] = Lately(self.window)
                lately.add(event.at - sent[0])

    def ended(self, request: RequestView) -> None:
        """Forget a request that ended, with or without a first token."""
        self._open.pop(request.id, None)

    # Decisions -------------------------------------------------------------------------------------------------------

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        """The wait before hedging: the quantile of its class, or 0 for never where too few are known."""
        sent = self._open.get(request.id)
        lately = None if sent is None else self._lately.get(sent[1])
        return lately.quantile(self.quantile) if lately is not None and len(lately) >= self.least else 0

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        """The replica with the soonest first token for a copy, if soon enough and within the budget."""
        if request.id not in self._open:
            return None
        queued, rates, cached = cluster.queued_tokens, prefill_rates(cluster), cluster.cached_tokens(request)

        def cost(place: int) -> float:
            return (queued[place] + request.prompt_tokens - cached[place] + self.cancel_tokens) / rates[place]

        chosen = chance.least(able, cost)
        passed = (cluster.now - self._open[request.id][0]) / SECOND
        tokens = request.prompt_tokens - cached[chosen]
        if self._copied + tokens > self.share * self._sent or cost(chosen) >= max(
            queued[replica] / rates[replica], passed
        ):
            return None
        self._copied += tokens
        return chosen
