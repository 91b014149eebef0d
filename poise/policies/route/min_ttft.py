"""Mooncake's prefill scheduling: the replica on which the first token is predicted to come soonest.

Paper: Mooncake, arXiv 2407.00079 (FAST 2025), section 4.1 and algorithm 1. A replica's TTFT is the prompt tokens that
wait there, and those of this prompt that its prefix cache lacks, over its prefill rate. Where another replica holds
more than `balancing` times the prefix, the missing part would be fetched from there: then the transfer counts instead
of its computation. The least TTFT wins; a request that would still miss its deadline is rejected (`reject`).

Parameters: `ttft_s` (30 s in the paper's evaluation, section 5.1); `balancing` (`kvcache_balancing_threshold`, set by
hand in the paper, no value given). It differs from Mooncake in a prefill time that is linear in tokens instead of a
fitted polynomial, and in counting waiting prompts in full: no report says how much of them the cache will save. No
request is rejected by default, as in the minimum-TTFT baseline of later papers; with `reject`, only for its TTFT,
not for a predicted TBT. No prefix is expected from elsewhere by default: engines fetch none unless they share a pool,
and simulated ones never do. What waits is as reported, or with `books` in a book of its own, which does not age. The
paper leaves the choice of a decode replica open: here it is the one with the fewest requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Reject, Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates
from poise.policies.kit.prompt_book import PromptBook


@dataclass(slots=True)
class MinTtft:
    """Send each request where its first token is predicted soonest; ties are drawn.

    reject: reject requests predicted to miss their deadline.  ttft_s: deadline of requests that bring none.
    balancing: how many times longer a prefix elsewhere must be to be fetched (at least 1); 0: none is.
    books: what waits is what it sent itself and saw no first token of, in place of what is reported.
    """

    without_prefixes: ClassVar[str] = "the least queued work"
    reject: bool = False
    ttft_s: float = 30.0
    balancing: float = 0.0
    books: bool = False
    _book: PromptBook = field(default_factory=PromptBook, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ttft_s <= 0:
            raise ValueError(f"ttft_s {self.ttft_s} leaves no time at all; give seconds above 0")
        if self.balancing and self.balancing < 1:
            raise ValueError(f"balancing {self.balancing} would fetch shorter prefixes; give 1 or more, or 0 for none")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "flights" if self.books else "queued_tokens", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Reject:
        """The least predicted TTFT."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(chance.least(able, cluster.requests))
        ttft = self._ttft(request, cluster)
        chosen = chance.least(able, ttft)
        if self.reject:
            due = request.deadline_at or request.arrived_at + ps(self.ttft_s)
            if cluster.now + ps(ttft[chosen]) > due:
                return Reject("predicted to miss its TTFT deadline")
        if self.books:
            hit = cluster.cached_tokens(request)[chosen] if request.ids else 0
            self._book.send(request.id, request.prompt_tokens - hit)
        return Route(chosen)

    def _ttft(self, request: RequestView, cluster: ClusterView) -> list[float]:
        """Predicted seconds to the first token on each replica."""
        prompt, rates = request.prompt_tokens, prefill_rates(cluster)
        queued = self._book.queued(cluster) if self.books else cluster.queued_tokens
        if not request.ids:
            return [(tokens + prompt) / rate for tokens, rate in zip(queued, rates, strict=True)]
        cached = cluster.cached_tokens(request)
        ttft = [(tokens + prompt - hit) / rate for tokens, hit, rate in zip(queued, cached, rates, strict=True)]
        if self.balancing:
            self._fetch(request, cluster, cached, ttft)
        return ttft

    def _fetch(self, request: RequestView, cluster: ClusterView, cached: Sequence[int], ttft: list[float]) -> None:
        """Replace the prediction of those to which a much longer prefix would be carried."""
        best = max(cached)
        holder, rates = cached.index(best), prefill_rates(cluster)
        for replica in cluster.able(request):
            missing = best - cached[replica]
            if best > self.balancing * cached[replica] and missing:
                saved = missing / rates[replica]
                ttft[replica] += cluster.kv_seconds(missing, holder, replica) - saved
