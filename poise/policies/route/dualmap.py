"""DualMap: two candidates by two hashes of the prefix, affinity between them while the SLO holds, and rebalancing.

Paper: DualMap, arXiv 2602.06502 (ICLR 2026). A prompt's prefix, as long as its hotness requires
(`policies.kit.hotness`), goes to two replicas on one hash ring by two independent hashes; where they coincide the
second is the neighbour. With equal cache hits the less loaded of the two is taken. Else the one with more to reuse,
unless what waits there takes longer than the SLO: then the other. Where both are over, requests that wait on them are
moved, each to its own other
candidate only: those with b = TTFT(here) - TTFT(there) > 0 that meet the SLO there, the greatest b first, until what is
left fits the SLO, in one round. A replica that joins or leaves changes hands on the adjacent arcs alone.

Parameters: `ttft_s` (SLO, 5 s in the paper) and `key_tokens` (two blocks of 512 tokens) are the paper's; the length of
its window was not found, so `window` is ours. `slo_gate`, `rebalancing` and `within` are the paper's ablations: without
the gate `within` decides alone, with it only where both candidates are over the SLO. With `books` loads are those of
its own book, as in the paper; else they are as reported, but a rebalance takes the waiting requests from the control
side's own dispatches. Where a replica with waiting prompts has computed none for `stall_s` (3 in the paper; 0 here:
never), its decodes stall for memory, and that time counts as queueing. It differs from DualMap in these: the SLO counts
from arrival, or is the request's own deadline; what no other prompt shares is hashed by chance; the decode half of a
pair goes to the fewest requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, NamedTuple

from poise.core.action import Move, Route
from poise.core.chance import Chance
from poise.core.event import Cancelled, Event, Finished, FirstToken, MoveFailed, Prefilled, Refused
from poise.core.request import RequestView
from poise.core.units import SECOND, ps, seconds
from poise.core.view import ClusterView
from poise.policies.kit.hash_ring import HashRing, kept, spot
from poise.policies.kit.hotness import Hotness
from poise.policies.kit.loads import prefill_rates
from poise.policies.kit.prompt_book import PromptBook

_DONE_WAITING = (FirstToken, Prefilled, Finished, Cancelled, Refused, MoveFailed)
"""Events after which a request must not be moved; `MoveFailed`, because then its prompt is under way."""


class _Sent(NamedTuple):
    """A request without a first token: prompt tokens to compute where it was sent, and its other candidate."""

    work: int
    other: int


class _Gain(NamedTuple):
    """What a move would save: -b in seconds, so that the greatest benefit sorts first, then by id."""

    minus_b: float
    id: int
    request: RequestView
    sent: _Sent
    here_s: float
    work: int


@dataclass(slots=True)
class DualMap:
    """Route within the pair of a prefix, and move waiting requests off an overloaded pair.

    ttft_s: SLO of requests that bring no deadline.  within: `min_ttft` or `least_loaded`.
    slo_gate: prefer the longer cache hit while the SLO holds.  rebalancing: move waiting requests.
    key_tokens: prompt tokens that the shortest key covers.  window: requests over which hotness is counted.
    books: loads are what it sent itself and saw no first token of.
    stall_s: seconds without a computed prompt from which on a stall counts; 0: never.
    """

    without_prefixes: ClassVar[str] = "two replicas drawn for each request"
    eager: ClassVar[bool] = True

    ttft_s: float = 5.0
    slo_gate: bool = True
    rebalancing: bool = True
    within: str = "min_ttft"
    key_tokens: int = 1024
    window: int = 1000
    books: bool = False
    stall_s: float = 0.0
    _ring: HashRing | None = field(default=None, init=False, repr=False)
    _hotness: dict[int, Hotness] = field(default_factory=dict, init=False, repr=False)
    _sent: dict[int, _Sent] = field(default_factory=dict, init=False, repr=False)
    _hot: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _book: PromptBook = field(default_factory=PromptBook, init=False, repr=False, compare=False)
    _computed_at: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.within not in ("min_ttft", "least_loaded"):
            raise ValueError(f"within {self.within!r} is no rule for a pair; give min_ttft or least_loaded")
        if self.ttft_s <= 0 or self.window < 1:
            raise ValueError(f"ttft_s {self.ttft_s}, window {self.window}: give seconds above 0 and at least 1 request")
        if self.stall_s < 0:
            raise ValueError(f"stall_s {self.stall_s} is no time; give seconds above 0, or 0 for never")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", *(() if self.books else ("queued_tokens",)), "cached_tokens", "flights")

    def observe(self, event: Event) -> None:
        """Forget requests that no longer wait."""
        if isinstance(event, _DONE_WAITING):
            self._sent.pop(event.request, None)
        if self.stall_s and isinstance(event, FirstToken | Prefilled):
            self._computed_at[event.replica] = event.at

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """One of the pair."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(chance.least(able, cluster.requests))
        pair = self._pair(request, able, chance)
        cached = cluster.cached_tokens(request) if request.ids else (0,) * (max(pair) + 1)
        chosen = self._choose(request, pair, cached, cluster, chance)
        work = request.prompt_tokens - cached[chosen]
        if self.books:
            self._book.send(request.id, work)
        if self.rebalancing:
            other = pair[1] if chosen == pair[0] else pair[0]
            self._sent[request.id] = _Sent(work, other)
        return Route(chosen)

    def _pair(self, request: RequestView, able: Sequence[int], chance: Chance) -> tuple[int, int]:
        """The two candidates; twice the same where there is no other."""
        ring = self._ring = kept(self._ring, chance.seed)
        if request.ids:
            hotness = self._hotness.get(request.model)
            if hotness is None:
                hotness = self._hotness[request.model] = Hotness(self.window, self.key_tokens)
            ids, ends = request.ids, request.ends
            if ends[-1] < request.prompt_tokens:
                ids = (*ids, chance.bits("key"))
            key = hotness.key(ids, ends, len(able))
        else:
            key = chance.bits("key")
        first = ring.successor(spot(key), able)
        return first, ring.successor(spot(key, 1), able, first)

    def _choose(
        self, request: RequestView, pair: tuple[int, int], cached: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int:
        """The gate, then the rule within the pair; a pair that is over on both sides is noted."""
        rates, prompt = prefill_rates(cluster), request.prompt_tokens
        queued = self._book.queued(cluster) if self.books else cluster.queued_tokens
        if self.stall_s:
            queued = self._with_stalls(queued, pair, rates, cluster)  # type: ignore[assignment]
        first, second = pair
        slack = self._due(request) - cluster.now
        over = [queued[replica] / rates[replica] * SECOND > slack for replica in pair]
        if over[0] and over[1] and self.rebalancing and first != second:
            self._hot = dict.fromkeys(pair, max(slack, 0))
        if self.slo_gate and cached[first] != cached[second]:
            better = 0 if cached[first] > cached[second] else 1
            if not over[better]:
                return pair[better]
            if not over[1 - better]:
                return pair[1 - better]
        if self.within == "min_ttft":
            return chance.least(pair, lambda replica: (queued[replica] + prompt - cached[replica]) / rates[replica])
        return chance.least(pair, lambda replica: queued[replica] / rates[replica])

    def _with_stalls(
        self, queued: Sequence[float], pair: Sequence[int], rates: Sequence[float], cluster: ClusterView
    ) -> Sequence[float]:
        """The tokens queued at the pair, those of a stall at the rate of its replica counted in."""
        counted = list(queued)
        for replica in {*pair}:
            since = min(
                [each.sent_at for each in cluster.flights(replica) if each.first_token_at < 0], default=cluster.now
            )
            stall = seconds(cluster.now - max(since, self._computed_at.get(replica, 0)))
            if stall > self.stall_s:
                counted[replica] += stall * rates[replica]
        return counted

    def _due(self, request: RequestView) -> int:
        return request.deadline_at or request.arrived_at + ps(self.ttft_s)

    # Rebalancing -----------------------------------------------------------------------------------------------------

    def move(self, cluster: ClusterView) -> list[Move]:
        """Move waiting requests of a pair overloaded on both sides, the more loaded side first."""
        hot, self._hot = self._hot, {}
        if not hot:
            return []
        waits = {replica: self._work(replica, cluster) for replica in hot}
        rates = prefill_rates(cluster)
        order = sorted(hot, key=lambda replica: (-waits[replica] / rates[replica], replica))
        return [move for source in order for move in self._relieve(source, hot[source], waits, cluster)]

    def _waiting(self, replica: int, cluster: ClusterView) -> list[tuple[RequestView, _Sent]]:
        """Requests sent to `replica` without a first token that are not moving, in order of dispatch."""
        sent = self._sent
        return [
            (flight.request, sent[flight.request.id])
            for flight in cluster.flights(replica)
            if flight.target < 0 and flight.request.id in sent
        ]

    def _relieve(self, source: int, slack: int, waits: dict[int, int], cluster: ClusterView) -> list[Move]:
        """Moves off `source`, the greatest benefit first, until what waits there is done within `slack`."""
        moves: list[Move] = []
        rate = prefill_rates(cluster)[source]
        for gain in sorted(self._gains(source, waits, cluster)):
            if waits[source] / rate * SECOND <= slack:
                break
            other = gain.sent.other
            if self._there(gain.request, gain.work, other, waits, cluster) >= gain.here_s:
                continue  # an earlier move took the place
            moves.append(Move(gain.id, source, other))
            self._sent[gain.id] = _Sent(gain.work, source)
            if self.books:
                self._book.send(gain.id, gain.work)
            waits[source] -= gain.sent.work
            waits[other] += gain.work
        return moves

    def _gains(self, source: int, waits: dict[int, int], cluster: ClusterView) -> list[_Gain]:
        """What its other candidate would save each waiting request, where that is something."""
        gains: list[_Gain] = []
        ahead, rate = 0, prefill_rates(cluster)[source]
        for request, sent in self._waiting(source, cluster):
            ahead += sent.work
            other = sent.other
            if other not in cluster.peers(request, source):
                continue
            if other not in waits:
                waits[other] = self._work(other, cluster)
            work = request.prompt_tokens - (cluster.cached_tokens(request)[other] if request.ids else 0)
            benefit = ahead / rate - self._there(request, work, other, waits, cluster)
            if benefit > 0:
                gains.append(_Gain(-benefit, request.id, request, sent, ahead / rate, work))
        return gains

    def _work(self, replica: int, cluster: ClusterView) -> int:
        return sum([sent.work for _, sent in self._waiting(replica, cluster)])

    def _there(self, request: RequestView, work: int, other: int, waits: dict[int, int], cluster: ClusterView) -> float:
        """Predicted seconds to the first token on the other candidate; infinite where it would miss the SLO."""
        seconds = (waits[other] + work) / prefill_rates(cluster)[other]
        return seconds if cluster.now + ps(seconds) < self._due(request) else inf
