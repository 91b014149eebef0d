"""AIBrix's `pd` router: prefill and decode replica chosen together, as the pair with the least sum of scores.

Code: AIBrix, gateway algorithm `pd` (2026), with its default policies `prefix_cache` and `load_balancing`. Prefill: if
the spread of requests exceeds `spread`, the fewest requests; else, among those within mean + `deviations` · σ,
10 · (1 - match share) + requests / most requests. Decode: if the spread reaches `spread`, the fewest requests; else
(requests / most requests + 1) / (free share of KV / greatest free share), where requests include those still prefilled
elsewhere and the 1 replaces the throughput of an engine that reports none. The pair with the least sum of both
scores, each over its maximum, is taken.

Parameters: `spread` (16, both defaults) and `deviations` (1). AIBrix pairs within one group of replicas laid out
together; here any two may pair, and what the group was for, a short way for the KV cache, is a third part of the sum:
the time to carry KV from one to the other over the longest such time, times `transfer` (ours). Where all ways are
equal it decides nothing. Ties are drawn. DistServe's rule, fewest requests on both sides, is `least_requests`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from operator import add
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView

_TOKENS = 1000
"""Transfer paths are compared by the time of that many tokens, for any prompt: so they are measured once."""


@dataclass(slots=True)
class PdPair:
    """Choose both halves at once: prefill by cache and load, decode by load and free KV blocks, and the way between.

    spread: difference in requests beyond which they alone decide.  deviations: how many standard deviations above the
    mean a prefill replica may be.  transfer: weight of the transfer path of the KV cache against the two scores.
    """

    without_prefixes: ClassVar[str] = "the fewest requests"
    spread: int = 16
    deviations: float = 1.0
    transfer: float = 1.0
    _measured: tuple[Sequence[int], Sequence[int]] = field(default=((), ()), init=False, repr=False)
    _ways: dict[int, dict[int, float]] = field(default_factory=dict, init=False, repr=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "free_blocks", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The best pair; without decode replicas, the best replica by the prefill score."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(_best(self._decode(able, cluster), chance))
        serve, partners = self._serve(request, able, cluster), cluster.partners(request)
        if not partners:
            return Route(_best(serve, chance))
        decode = self._decode(partners, cluster)
        self._measure(able, partners, cluster)
        if not self._ways:
            return Route(_best(serve, chance), _best(decode, chance, "decode"))
        ids, scores = list(decode), list(decode.values())
        reach = {}
        for source, score in serve.items():
            ways = self._ways[source]
            reach[source] = score + min(map(add, scores, [ways[target] for target in ids]))
        source = _best(reach, chance)
        ways = self._ways[source]
        return Route(source, _best({target: decode[target] + ways[target] for target in ids}, chance, "decode"))

    def _serve(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> dict[int, float]:
        """Scores of the prefill replicas that are not passed over, the greatest of them 1."""
        requests = cluster.requests
        loads = [requests[replica] for replica in able]
        least, most = min(loads), max(loads)
        if most - least > self.spread:
            return {replica: 0.0 for replica in able if requests[replica] == least}
        mean = sum(loads) / len(loads)
        limit = mean + self.deviations * sqrt(sum([(load - mean) ** 2 for load in loads]) / len(loads))
        fit = [replica for replica in able if requests[replica] <= limit]
        each = 1 / max(most, 1)
        if not request.ids:
            return _scaled({replica: 10 + requests[replica] * each for replica in fit})
        cached, share = cluster.cached_tokens(request), 10 / request.prompt_tokens
        return _scaled({replica: 10 - cached[replica] * share + requests[replica] * each for replica in fit})

    def _decode(self, able: Sequence[int], cluster: ClusterView) -> dict[int, float]:
        """Scores of the decode replicas that are not passed over, the greatest of them 1."""
        requests, free, total = cluster.requests, cluster.free_blocks, cluster.total_blocks
        loads = [requests[replica] for replica in able]
        least, most = min(loads), max(loads)
        if most - least >= self.spread:
            return {replica: 0.0 for replica in able if requests[replica] == least}
        shares = [max(free[replica] / max(total[replica], 1), 0.001) for replica in able]
        each, best = 1 / max(most, 1), max(shares)
        return _scaled(
            {
                replica: (load * each + 1) * best / share
                for replica, load, share in zip(able, loads, shares, strict=True)
            }
        )

    def _measure(self, able: Sequence[int], partners: Sequence[int], cluster: ClusterView) -> None:
        """Weigh the ways of the KV cache, unless these were the last; none where all are equally long."""
        if self._measured == (able, partners):
            return
        self._measured = able, partners
        ways = {one: {two: cluster.kv_seconds(_TOKENS, one, two) for two in partners} for one in able}
        every = [way for row in ways.values() for way in row.values()]
        self._ways = {}
        if self.transfer and min(every) < max(every):
            unit = self.transfer / max(every)
            self._ways = {one: {two: way * unit for two, way in row.items()} for one, row in ways.items()}


def _scaled(scores: dict[int, float]) -> dict[int, float]:
    greatest = max(scores.values()) or 1.0
    return {replica: score / greatest for replica, score in scores.items()}


def _best(scores: dict[int, float], chance: Chance, purpose: str = "tie") -> int:
    """A replica with the least score; equals are drawn, each half of a pair for itself."""
    least = min(scores.values())
    return chance.pick([replica for replica, score in scores.items() if score == least], purpose)
