"""Preble's E2: exploit a cached prefix that is longer than the rest of the prompt, else explore for the least cost.

Paper: Preble, ICLR 2025 (arXiv 2407.00023), section 3.2, and its code (`preble/global_scheduler_with_time.py`).
Costs are GPU time, counted in prompt tokens, to which time is proportional:

- explore: the least L + M + P. L is the load: prompt tokens that a replica had to compute within the last H, and the
  decoding of its requests in flight at the mean output length seen there; M what it must evict for this prompt, each
  extent's tokens times the share of its requests within H that used it; P the tokens of this prompt not cached there.
- exploit: the longest match; of several the least L. But where that has more than `balance` times the least L of
  all, or where the time to first token for this prefix has doubled there (mean of the newer half of H over that of the
  older), the request goes to the least L, and thereby copies the prefix there.

Parameters: `window_s` 180 (paper: 3 minutes), `balance` 1.5 and `warmup` 50 requests per replica before it begins
(code), `cache_tokens` 198,516 per replica, for M alone (code: its A6000s with Mistral 7B), `decode_cost` 200 prompt
tokens per output token (code: 24 ms a decode step, 0.12 ms a prompt token); before any output was seen, 45 tokens are
expected (code). `decode_ratio` is off: the paper explores first on replicas heavy with decoding, but gives no bound,
and its code does not.

The paper counts the decoding of all requests within H into L, the code that of requests in flight; the code's is here.
It differs from both in matching trace extents that the view believes cached, where Preble's engines report evictions;
in judging every exploiting request instead of moving radix nodes from time to time; in asking for two first tokens in
each half; and in drawing ties. Its queue at the engine, by share of cached tokens, is another slot's policy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add, mul, sub
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.control.prefix_index import Sent
from poise.core.event import Cancelled, Event, Finished, FirstToken, Moved, Refused
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.kit.window import Halves, Window

_FIRST_OUTPUT = 45.0


@dataclass(slots=True)
class Preble:
    """Go where most of the prompt is cached, else where the load of the last minutes and this prompt's is least.

    window_s: length of the history H, seconds.
    balance: times the least load at which a replica's cached prefixes are no longer exploited; 0: never.
    warmup: requests per replica before that begins.
    decode_cost: what an output token costs, in prompt tokens.
    decode_ratio: times the cluster's decoding per prompt token at which a replica is explored first; 0: never.
    cache_tokens: prompt tokens that a replica's cache holds, for the cost of eviction.
    """

    without_prefixes: ClassVar[str] = "the least load"
    window_s: float = 180.0
    balance: float = 1.5
    warmup: int = 50
    decode_cost: float = 200.0
    decode_ratio: float = 0.0
    cache_tokens: int = 198_516
    _window: Window = field(init=False, repr=False, compare=False)
    _first_tokens: Halves = field(init=False, repr=False, compare=False)
    _flights: dict[int, tuple[int, int, int | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _sent: list[Sent] = field(default_factory=list, init=False, repr=False, compare=False)
    _fullest: int = field(default=0, init=False, repr=False, compare=False)
    _routed: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("window_s", "balance", "warmup", "decode_cost", "decode_ratio", "cache_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)} is negative; give 0 or more")
        if 0 < self.balance < 1:
            raise ValueError(f"balance {self.balance} is below 1; give 0 for never, or at least 1")
        self._window = Window(ps(self.window_s), self.decode_cost, _FIRST_OUTPUT)
        self._first_tokens = Halves(ps(self.window_s))

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read; the history is the router's own."""
        return ("requests", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """Exploit or explore; the decode half of a pair goes to the least load."""
        able, cached = cluster.able(request), cluster.cached_tokens(request)
        loads = self._loads(cluster.now, cluster.requests)
        if cluster.stage == "decode":
            return Route(chance.least(able, loads))
        longest = max(cached) if len(able) == len(cached) else max([cached[replica] for replica in able])
        key = None
        if 2 * longest > request.prompt_tokens:
            key = request.ids[min(bisect_left(request.ends, longest), len(request.ids) - 1)]
            holders = [replica for replica in able if cached[replica] == longest]
            chosen = self._exploit(able, holders, loads, key, chance)
        else:
            chosen = self._explore(request, able, cached, loads, chance)
        self._give(request, cluster.now, chosen, request.prompt_tokens - cached[chosen], key)
        return Route(chosen)

    def observe(self, event: Event) -> None:
        """Learn how long outputs are, and how first tokens of a prefix come later."""
        if isinstance(event, FirstToken):
            flight = self._flights.get(event.request)
            if flight is not None and flight[2] is not None:
                self._first_tokens.add(event.at, flight[2], event.at - flight[1])
        elif isinstance(event, Finished):
            flight = self._flights.pop(event.request, None)
            if flight is not None:
                self._window.end(event.at, flight[0], event.output_tokens)
        elif isinstance(event, Moved) and event.request in self._flights:
            self._flights[event.request] = event.target, *self._flights[event.request][1:]
        elif isinstance(event, Cancelled | Refused):
            self._flights.pop(event.request, None)

    def _loads(self, now: int, requests: Sequence[int]) -> list[float]:
        """L, a column over replicas."""
        window = self._window
        window.move(now, len(requests))
        self._first_tokens.move(now)
        while len(self._sent) < len(requests):
            self._sent.append(Sent())
        return list(map(add, window.prompts, map(mul, requests, window.decodes)))

    def _exploit(
        self, able: Sequence[int], holders: Sequence[int], loads: Sequence[float], key: int, chance: Chance
    ) -> int:
        """The least loaded holder, or the least loaded of all where the prefix must spread."""
        chosen = chance.least(holders, loads)
        lightest = chance.least(able, loads)
        if loads[chosen] == loads[lightest]:
            return chosen
        warm = self._routed >= self.warmup * len(able)
        if warm and self.balance and loads[chosen] > self.balance * loads[lightest]:
            return lightest
        if self._first_tokens.doubled(key):
            self._first_tokens.forget(key)
            return lightest
        return chosen

    def _explore(
        self, request: RequestView, able: Sequence[int], cached: Sequence[int], loads: Sequence[float], chance: Chance
    ) -> int:
        """The least L + M + P, all but the prompt's own length; M is looked up only where the others leave a chance."""
        heavy = self._heavy_with_decoding(able, loads) if self.decode_ratio else ()
        if heavy:
            return chance.least(heavy, loads)
        prompt = request.prompt_tokens
        if len(able) == len(loads):
            costs = list(map(sub, loads, cached))
        else:
            costs = [loads[replica] - cached[replica] for replica in able]
        place = chance.least(range(len(able)), costs)
        if self._fullest + prompt <= self.cache_tokens:
            return able[place]  # no eviction: M is 0
        bound = costs[place] + self._eviction(able[place], prompt - cached[able[place]])
        rivals = [other for other, cost in enumerate(costs) if cost <= bound]
        if len(rivals) > 1:
            place = chance.least(
                rivals, lambda other: costs[other] + self._eviction(able[other], prompt - cached[able[other]])
            )
        return able[place]

    def _heavy_with_decoding(self, able: Sequence[int], loads: Sequence[float]) -> list[int]:
        """The replicas with far more decoding per prompt token than the able ones have together."""
        prompts = self._window.prompts
        prompt = sum([prompts[replica] for replica in able])
        bound = self.decode_ratio * (sum([loads[replica] for replica in able]) - prompt)
        return [replica for replica in able if (loads[replica] - prompts[replica]) * prompt > bound * prompts[replica]]

    def _eviction(self, replica: int, tokens: int) -> float:
        """M: prompt tokens that must be computed again, by hit rate, when `replica` gets `tokens` more."""
        excess = self._sent[replica].tokens + tokens - self.cache_tokens
        cost = 0.0
        if excess > 0:
            for extent, size in self._sent[replica].oldest():
                cost += size * self._window.hits(replica, extent)
                excess -= size
                if excess <= 0:
                    break
        return cost

    def _give(self, request: RequestView, now: int, replica: int, prompt: int, key: int | None) -> None:
        """Write down where a request goes."""
        self._routed += 1
        self._window.give(now, replica, prompt, request.ids)
        self._flights[request.id] = replica, now, key
        if request.ids:
            sent = self._sent[replica]
            sent.add(request.ids, request.ends)
            sent.drop(self.cache_tokens)
            self._fullest = max(self._fullest, sent.tokens)
