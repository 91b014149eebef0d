"""Sub-agents whose requests stand among those of the agent that started them: found by whose prompt continues whose.

The rule is that of AIPerf 0.13 (`dataset/loader/weka_agent_chains.py`). A request extends the chain whose last prompt
is the longest complete prefix of its own, of the same model, and answered by then. Else it forks from the chain whose
last prompt shares most with it. A chain that no request extends goes on with the fork that shares most of those that
begin after its end: that is an agent whose context was edited. All other forks are agents of their own.

Two differences: prompts are compared by their full blocks, and a first request that shares no prefix with any other is
left to the main chain whatever blocks it has (AIPerf: unless it answers more than 64 tokens and a block of it returns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from poise.workload.readers.hash_chains import Extents
from poise.workload.readers.weka import Entry

SEAM_GAP_S, SEAM_OVERLAP = 3600.0, 0.5
"""A fork that begins more seconds after the end, and shares a smaller part, is another session (AIPerf's defaults)."""

TOUCHING_S = 1e-6


def chains_of(requests: Sequence[Entry], prompts: Sequence[Extents]) -> list[int]:
    """For each request of one agent's record, in order of time, its chain: 0 is the agent's own.

    The others are numbered by their first requests. Requests without ids belong to the agent's own chain.
    """
    search = _Search(requests, prompts, [0] * len(requests))
    for row in range(_preambles(prompts), len(requests)):
        search.place(row)
    search.continue_ended()
    number = {0: 0}
    return [number.setdefault(chain, len(number)) for chain in search.chain_of]


def shared(one: Extents, other: Extents) -> int:
    """Tokens of the prefix that two prompts have in common."""
    most = min(len(one.ids), len(other.ids))
    alike = int(np.count_nonzero(one.ids[:most] == other.ids[:most]))
    return int(one.ends[alike - 1]) if alike else 0


def tokens(prompt: Extents) -> int:
    """Tokens that the ids of a prompt cover."""
    return int(prompt.ends[-1]) if len(prompt.ends) else 0


def _preambles(prompts: Sequence[Extents]) -> int:
    """1 where the first prompt has ids and shares nothing with any other, as one that asks for a title does; else 0."""
    if len(prompts) < 2 or not len(prompts[0].ids):
        return 0
    first = prompts[0].ids[0]
    return int(not any(len(each.ids) and each.ids[0] == first for each in prompts[1:]))


@dataclass(slots=True)
class _Chain:
    """One agent. first, last: rows of its first request, and of its last one with ids (-1: none).

    fork, depth: the row that it forked from (-1: none), and the tokens that both share.
    """

    first: int
    last: int = -1
    fork: int = -1
    depth: int = 0
    joined: bool = False


@dataclass(slots=True)
class _Search:
    """Puts requests into chains, in order of time."""

    requests: Sequence[Entry]
    prompts: Sequence[Extents]
    chain_of: list[int]
    chains: list[_Chain] = field(default_factory=list)
    forks: dict[int, list[int]] = field(default_factory=dict)

    def place(self, row: int) -> None:
        """Extend a chain with a request, or fork one from another."""
        if not self.chains:
            self.chains.append(_Chain(row))
        if not len(self.prompts[row].ids):
            return
        chain = 0 if self.chains[0].last < 0 else self._extended(row)
        if chain is None:
            chain = self._forked(row)
        self.chains[chain].last = row
        self.chain_of[row] = chain

    def _ended(self, row: int, by: int) -> bool:
        """Whether a request was answered when another began. Unknown times of service count as none."""
        request = self.requests[row]
        return request.t + (request.api_time or 0.0) <= self.requests[by].t + TOUCHING_S

    def _same_model(self, row: int, other: int) -> bool:
        return self.requests[row].model == self.requests[other].model

    def _extended(self, row: int) -> int | None:
        """The chain that a request extends."""
        best, longest, mine = None, 0, self.prompts[row].ids
        for number, chain in enumerate(self.chains):
            tail = self.prompts[chain.last]
            size = len(tail.ids)
            deeper = longest < tokens(tail) and size <= len(mine) and tail.ids[-1] == mine[size - 1]
            if deeper and self._same_model(chain.last, row) and self._ended(chain.last, row):
                best, longest = number, tokens(tail)
        return best

    def _forked(self, row: int) -> int:
        """A new chain, from the one whose last prompt shares most with that of a request."""
        depth, _, before = max(
            (shared(tail, self.prompts[row]), tokens(tail), -number)
            for number, tail in enumerate(self.prompts[chain.last] for chain in self.chains)
        )
        number, fork = len(self.chains), self.chains[-before].last if depth else -1
        self.chains.append(_Chain(row, fork=fork, depth=depth))
        if depth:
            self.forks.setdefault(fork, []).append(number)
        return number

    def continue_ended(self) -> None:
        """Join to each chain that no request extended the fork that continues it, in order of time."""
        left, seen = sorted(self.forks), set[int]()
        while left:
            last = heappop(left)
            chain = self.chain_of[last]
            done = last in seen or self.chains[chain].last != last
            seen.add(last)
            if done:
                continue
            forks = [each for each in self.forks[last] if not self.chains[each].joined]
            chosen = self._continuation(last, forks)
            if chosen is None:
                continue
            self._join(chosen, chain)
            behind = self.chains[chain].last
            if self._moved([each for each in forks if each != chosen], behind):
                seen.discard(behind)
                heappush(left, behind)

    def _continuation(self, last: int, forks: Sequence[int]) -> int | None:
        """The fork that continues the chain which ends with the request `last`; None where all are agents."""
        whole, end = tokens(self.prompts[last]), self.requests[last].ends or self.requests[last].t
        able = []
        for number in forks:
            fork = self.chains[number]
            first = self.requests[fork.first]
            another = first.t - end > SEAM_GAP_S and fork.depth < SEAM_OVERLAP * whole
            if self._ended(last, fork.first) and self._same_model(last, fork.first) and not another:
                able.append((fork.depth, -first.t, -number))
        return -max(able)[2] if able else None

    def _join(self, fork: int, chain: int) -> None:
        self.chains[chain].last = self.chains[fork].last
        self.chains[fork].joined = True
        self.chain_of[:] = [chain if each == fork else each for each in self.chain_of]

    def _moved(self, forks: Sequence[int], last: int) -> bool:
        """Whether forks of a request that a chain went on from share something with the chain's new end, too."""
        found = False
        for number in forks:
            fork = self.chains[number]
            depth = shared(self.prompts[last], self.prompts[fork.first])
            if depth:
                fork.fork, fork.depth, found = last, depth, True
                self.forks.setdefault(last, []).append(number)
        return found
