"""Decoding with lent KV, for what the lender of a simulation cannot do: requests longer than an instance's memory.

Infinite-LLM (arXiv 2401.02669): the KV of a long request lies at several instances, each of which computes its part of
the attention. An instance steps by itself; a step takes the time of its batch and of the KV tokens that it reads, its
own or lent, and where KV of its own is elsewhere at least what that holder reads of it, and `hop_s` for queries and
partial results. The KV of prompts comes from elsewhere, to wherever it is to lie.

The planner looks at the instances every `period_s`. The instance that is to lend grants a loan if it has the room now,
or refuses; a loan that is not used by the next round is void. KV of a running request moves at `move_tokens` a step: 16
are free, 32 take 8.6 % of a step (the paper), in proportion beyond 16.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from statistics import fmean

from poise.policies.kit.lending import Greedy, Status, StepSeconds

FREE_MOVE = 16
"""KV tokens that move in a decode step for nothing."""
MOVE_COST = 0.086 / 16
"""The part of a step that each further token takes."""
SEEN = 32
"""Requests at the head of a queue whose mean length is reported."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal instances. capacity: KV tokens of each.  most: requests that it decodes at once."""

    instances: int
    capacity: int
    most: int
    step_s: StepSeconds
    hop_s: float = 0.0
    period_s: float = 1.0
    move_tokens: int = FREE_MOVE


@dataclass(slots=True)
class Running:
    """A request. away: its KV tokens by the instance that holds them; the rest, and what it will make, lies at home."""

    prompt: int
    output: int
    ends: int = 0
    away: dict[int, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """KV tokens at its end, which are set aside when it is admitted."""
        return self.prompt + self.output


@dataclass(slots=True)
class Instance:
    """One instance. own: tokens set aside here for its own requests.  lent: those promised to others.

    read: KV tokens of its own that lie here now.  hosted: those of others.  credit: granted to it, and not used.  away:
    of its own, by the instance that holds them.
    """

    queue: Iterator[Running]
    waiting: deque[Running] = field(default_factory=deque)
    running: list[tuple[int, int, Running]] = field(default_factory=list)
    own: int = 0
    lent: int = 0
    read: int = 0
    hosted: int = 0
    steps: int = 0
    count: int = 0
    credit: dict[int, int] = field(default_factory=dict)
    away: dict[int, int] = field(default_factory=dict)

    def look(self) -> deque[Running]:
        """Its queue, filled up as far as it is looked at."""
        self.waiting.extend(islice(self.queue, SEEN - len(self.waiting)))
        return self.waiting


@dataclass(slots=True)
class Outcome:
    """tokens_per_s: output tokens a second.  loans, refused: requests to creditors, and refusals.  longest: tokens of
    the longest request that was decoded to its end."""

    tokens_per_s: float = 0.0
    loans: int = 0
    refused: int = 0
    longest: int = 0


class Cluster:
    """The instances at work, each with a queue of its own that may be endless."""

    def __init__(self, fleet: Fleet, queues: list[Iterator[Running]], planner: Greedy | None = None) -> None:
        self.fleet = fleet
        self.planner = planner
        self.all = [Instance(queue) for queue in queues]
        self.outcome = Outcome()

    def run(self, until_s: float) -> Outcome:
        """Step every instance until `until_s`."""
        fleet, made, last = self.fleet, 0, 0.0
        heap = [(0.0, -1)] if self.planner else []
        heap += [(0.0, place) for place in range(fleet.instances)]
        while heap:
            at, place = heappop(heap)
            if at >= until_s:
                break
            if place < 0:
                self._round()
                if heap:
                    heappush(heap, (at + fleet.period_s, -1))
                continue
            one = self.all[place]
            self._admit(place)
            if one.running:
                ends = at + self._step(place)
                heappush(heap, (ends, place))
                last = max(last, ends)
                made += len(one.running)
                self._commit(place)
            elif one.look():
                heappush(heap, (at + fleet.period_s, place))
        ended_s = min(last, until_s)
        self.outcome.tokens_per_s = made / ended_s if ended_s else 0.0
        return self.outcome

    def free(self, place: int) -> int:
        """Unreserved KV tokens of an instance."""
        one = self.all[place]
        return self.fleet.capacity - one.own - one.lent

    def _admit(self, place: int) -> None:
        """Take the head of the queue while it fits, by memory here or by what others granted."""
        one = self.all[place]
        while len(one.running) < self.fleet.most and one.look():
            head, free = one.waiting[0], self.free(place)
            lacks = head.length - free
            if lacks > min(sum(one.credit.values()), head.prompt):
                return
            one.waiting.popleft()
            if lacks > 0:  # what lies elsewhere leaves room here for those behind it
                for creditor in one.credit:
                    self._put(place, head, creditor, head.prompt - sum(head.away.values()))
            here = head.length - sum(head.away.values())
            one.own += here
            one.read += here - head.output
            one.count += 1
            head.ends = one.steps + head.output
            heappush(one.running, (head.ends, one.count, head))

    def _put(self, place: int, request: Running, creditor: int, tokens: int) -> int:
        """Lend up to `tokens` KV tokens of a creditor to a request; return how many."""
        one = self.all[place]
        tokens = max(0, min(tokens, one.credit[creditor]))
        one.credit[creditor] -= tokens
        if tokens:
            request.away[creditor] = request.away.get(creditor, 0) + tokens
            one.away[creditor] = one.away.get(creditor, 0) + tokens
            self.all[creditor].hosted += tokens
        return tokens

    def _step(self, place: int) -> float:
        """Seconds of its next step, and the KV that moves during it."""
        fleet, one = self.fleet, self.all[place]
        reads = max([one.read + one.hosted, *one.away.values()])
        took = fleet.step_s(len(one.running), reads) + (fleet.hop_s if any(one.away.values()) else 0.0)
        moved = self._move(place) if any(one.credit.values()) else 0
        return took * (1 + MOVE_COST * max(0, moved - FREE_MOVE))

    def _move(self, place: int) -> int:
        """Move KV of the longest running request to where it was granted room; how many tokens."""
        one, moved = self.all[place], 0
        longest = max((each for _, _, each in one.running), key=lambda each: each.length)
        for creditor in one.credit:
            left = longest.prompt - sum(longest.away.values())
            moved += self._put(place, longest, creditor, min(left, self.fleet.move_tokens - moved))
        one.own -= moved
        one.read -= moved
        return moved

    def _commit(self, place: int) -> None:
        """Add a token to each; finished requests leave, and free their KV everywhere."""
        one = self.all[place]
        one.steps += 1
        one.read += len(one.running)
        while one.running and one.running[0][0] <= one.steps:
            _, _, request = heappop(one.running)
            away = sum(request.away.values())
            one.own -= request.length - away
            one.read -= request.length - away
            for creditor, tokens in request.away.items():
                one.away[creditor] -= tokens
                self.all[creditor].lent -= tokens
                self.all[creditor].hosted -= tokens
            self.outcome.longest = max(self.outcome.longest, request.length)

    def _round(self) -> None:
        """Cancel unused grants, report to the planner, and request the loans that it plans."""
        assert self.planner is not None
        for one in self.all:
            for creditor, tokens in one.credit.items():
                self.all[creditor].lent -= tokens
            one.credit.clear()
        table = [self._status(place) for place in range(self.fleet.instances)]
        for debtor, creditor, tokens in self.planner.plan(table):
            self._request(debtor, creditor, tokens)

    def _request(self, debtor: int, creditor: int, tokens: int) -> None:
        """Reserve what the creditor has; what it has not, it refuses, and the next round may ask again."""
        self.outcome.loans += 1
        one, other = self.all[debtor], self.all[creditor]
        if tokens > self.free(creditor) or self._borrows(other) or one.lent:
            self.outcome.refused += 1
            return
        other.lent += tokens
        one.credit[creditor] = tokens

    def _borrows(self, one: Instance) -> bool:
        return any(one.credit.values()) or any(one.away.values())

    def _status(self, place: int) -> Status:
        one = self.all[place]
        waiting, used = one.look(), one.own + one.lent
        blocked = bool(waiting) and waiting[0].length > self.fleet.capacity - used
        behind = [each.length for each in islice(waiting, int(blocked), None)]
        mean = fmean(behind) if behind else float(bool(waiting))
        head = waiting[0].length if blocked else 0
        borrows = self._borrows(one)
        return Status(len(one.running), used, one.read + one.hosted, head, mean, borrows, one.lent > 0)
