"""Small queues of requests, and what a simulated engine does with them step by step."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from poise.core.engine.outcome import PREEMPTED
from poise.core.engine.replica import Replica
from poise.core.request import RequestView, Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER, SECOND
from poise.scenario.serve.inside import policies
from poise.testing.cost import LinearCost

BLOCK: Final = 32
"""Tokens of a KV block: vLLM takes multiples of 32 on CPUs."""

WORDS: Final = 3000
"""Tokens that prompts are made of, of the tiny model's vocabulary."""

Step = tuple[int, dict[int, int], list[int]]
"""Its number, the tokens of each request that takes part, and who was preempted for it."""


@dataclass(frozen=True)
class Ask:
    """A request that arrives before step `at`. shared: prompt tokens that it has in common with others of its group."""

    at: int
    prompt: int
    output: int
    group: int = 0
    shared: int = 0
    priority: int = 0

    def tokens(self, id: int) -> list[int]:
        """The prompt: what its group shares, then what it alone has."""
        group, own = random.Random(f"group {self.group}"), random.Random(f"own {id}")
        return [group.randrange(5, WORDS) for _ in range(self.shared)] + [
            own.randrange(5, WORDS) for _ in range(self.prompt - self.shared)
        ]


@dataclass(frozen=True)
class World:
    """An engine, its policies as vLLM's configuration names them (None: vLLM's own scheduler), and its requests.

    ahead: whether each step is scheduled before the last has ended (asynchronous scheduling).
    """

    chosen: dict[str, Any] | None
    asks: tuple[Ask, ...]
    blocks: int = 200
    budget: int = 128
    sequences: int = 8
    caching: bool = True
    reserve: bool = True
    ahead: bool = False

    def simulated(self) -> list[Step]:
        """What the replica of the simulator does, each step a second long."""
        engine = Engine(
            token_budget=self.budget, max_sequences=self.sequences, block_tokens=BLOCK, prefix_caching=self.caching,
            reserve_prompt=self.reserve,
        )  # fmt: skip
        named, _ = policies(self.chosen or {})
        replica = Replica(engine, LinearCost(step_s=1.0), self.blocks, named, one_step=True)
        ahead = [(ask.at * SECOND, id, ask) for id, ask in enumerate(self.asks)]
        steps: list[Step] = []
        gave_way: list[int] = []
        while ahead or replica.next_at < NEVER:
            if ahead and ahead[0][0] <= replica.next_at:
                now, id, ask = ahead.pop(0)
                replica.add(Sequence(_request(id, ask), ask.output), now)
                continue
            now = replica.next_at
            gave_way += [sequence.id for code, sequence in replica.turn(now) if code == PREEMPTED]
            lane = replica.lanes[0]
            tokens = {sequence.id: entry.tokens for sequence, entry in lane.chunks}
            tokens |= dict.fromkeys(lane.group.members, 1) if lane.decoded else {}
            if lane.steps:  # else the batcher is asked again at once
                steps.append((now // SECOND, tokens, gave_way))
                gave_way = []
        assert not replica.sequences, "all requests end"
        return steps


def _request(id: int, ask: Ask) -> RequestView:
    ends = list(range(BLOCK, ask.shared + 1, BLOCK))  # an extent names the whole prefix up to its end
    ids = [1000 * (1 + ask.group) + end for end in ends]
    return RequestView(
        id,
        ask.at * SECOND,
        ask.prompt,
        ask.output,
        (*ids, id),
        (*ends, ask.prompt),
        priority=ask.priority,
        begun_at=ask.at * SECOND,
    )


def a_world(seed: int, chosen: dict[str, Any] | None, *, crowded: bool = False, **given: Any) -> World:
    """A world drawn by `seed`. crowded: few KV blocks, so that requests are preempted."""
    draw = random.Random(seed)
    asks = []
    at = 0
    for _ in range(draw.randint(6, 14)):
        at += draw.choice((0, 0, 0, 1, 2, 5, 30))
        shared = draw.choice((0, 0, 32, 64, 80))
        prompt = shared + draw.randint(1, 150)
        asks.append(Ask(at, prompt, draw.randint(1, 70), draw.randrange(2), shared, draw.randrange(3)))
    most = max(-(-(ask.prompt + ask.output) // BLOCK) for ask in asks)
    blocks = most + draw.randint(0, 6) if crowded else 200
    budget, sequences = draw.choice((32, 64, 128)), draw.choice((2, 4, 8))
    return World(chosen, tuple(asks), blocks, budget, sequences, **given)


def in_order(steps: list[Step]) -> list[Step]:
    """The steps with their requests in order of id: within one step, order says nothing."""
    return [(at, dict(sorted(tokens.items())), sorted(gave_way)) for at, tokens, gave_way in steps]
