"""Prefill-as-a-Service: long prompts are computed at another site, and their KV cache comes back over a thin link.

Paper: arXiv 2604.15039. Requests with more than `threshold` tokens to compute go to prefill replicas of a remote
cluster; the others, and all decoding, stay. The threshold is where both sides are equally busy: Θ_remote/p =
Θ_local/(1 − p), with p the share of requests sent away, Θ_remote = min(N/T(long), bandwidth/S(long)) and Θ_local =
N/T(short); `poise/cost/cross_site.py` has it for a lognormal. As the paper's short loop does, it is fitted again as the
lengths change: here in the lengths of the last `window` requests.

Parameters: `threshold` (0: fitted; 19,400 in the paper's case study) and `window`, `every`, which the paper does
not state. A prefill replica is remote if its KV takes longer to the decode replicas than that of the nearest one.
It differs from the paper in judging a prompt by the best prefix at home alone (the rule where the link is scarce), in
T(l) = l/rate, which leaves out what grows with the square of a prompt, in S(l) through each replica's own link, and in
taking the replica of a side with the least work, which the paper leaves open. Pools keep their roles; `pd_serve` is a
scaler that changes them. Where all are remote, or all local, there is one side and it is least work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates

_TOKENS = 1000
"""Transfer paths are measured by that many tokens, for any prompt."""


@dataclass(slots=True)
class PrefillAsAService:
    """Send prompts with many tokens to compute to the prefill replicas that are far, the others to the near ones.

    threshold: tokens above which a prompt is sent away; 0: where both sides are equally busy with the last `window`
    requests, fitted again after `every` of them and for each of the first `every`.
    """

    without_prefixes: ClassVar[str] = "the least queued work"
    threshold: int = 0
    window: int = 1000
    every: int = 50
    _lengths: deque[int] = field(default_factory=deque, init=False, repr=False)
    _seen: int = field(default=0, init=False, repr=False)
    _found: int = field(default=0, init=False, repr=False)
    _measured: tuple[Sequence[int], Sequence[int]] = field(default=((), ()), init=False, repr=False)
    _near: Sequence[int] = field(default=(), init=False, repr=False)
    _far: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("threshold", 0), ("window", 1), ("every", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)} is too small; give {least} or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "queued_tokens", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least work on the side chosen by the prompt's length; the decode half to the fewest requests."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(chance.least(able, cluster.requests))
        near, far = self._sides(able, cluster.partners(request), cluster)
        cached = cluster.cached_tokens(request) if request.ids else [0] * len(cluster.queued_tokens)
        side: Sequence[int] = near
        if far:
            tokens = request.prompt_tokens - max([cached[replica] for replica in near])
            side = list(far) if tokens > self._limit(tokens, near, far, cluster) else near
        columns = zip(cluster.queued_tokens, cached, prefill_rates(cluster), strict=True)
        return Route(chance.least(side, [(queued - known) / rate for queued, known, rate in columns]))

    def _sides(
        self, able: Sequence[int], partners: Sequence[int], cluster: ClusterView
    ) -> tuple[Sequence[int], dict[int, float]]:
        """Prefill replicas near the decode replicas, and the seconds of farther ones; without any, all are near."""
        if not partners:
            return able, {}
        if self._measured != (able, partners):
            self._measured = able, partners
            ways = {one: min([cluster.kv_seconds(_TOKENS, one, two) for two in partners]) for one in able}
            shortest = min(ways.values())
            self._near = [replica for replica in able if ways[replica] <= shortest]
            self._far = {replica: way for replica, way in ways.items() if way > shortest}
        return self._near, self._far

    def _limit(self, tokens: int, near: Sequence[int], far: dict[int, float], cluster: ClusterView) -> int:
        """The threshold; counts a prompt with `tokens` tokens to compute."""
        if self.threshold:
            return self.threshold
        self._lengths.append(tokens)
        if len(self._lengths) > self.window:
            self._lengths.popleft()
        if self._seen < self.every or self._seen % self.every == 0:
            self._found = self._balance(near, far, cluster)
        self._seen += 1
        return self._found

    def _balance(self, near: Sequence[int], far: dict[int, float], cluster: ClusterView) -> int:
        """The least length at which the local site, with prompts up to it, is as busy as the remote one with the rest.

        The other site takes as long as it computes, or as its links carry, whichever is longer.
        """
        rates = prefill_rates(cluster)
        home = sum([rates[replica] for replica in near])
        compute = sum([rates[replica] for replica in far])
        carried = sum([_TOKENS / way for way in far.values()])
        away = min(compute, carried)
        short, long = 0, sum(self._lengths)
        for length in sorted(self._lengths):
            short, long = short + length, long - length
            if short / home >= long / away:
                return length
        return 0
