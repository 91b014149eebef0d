"""Small queues of requests and the settings of the SGLang that serves them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

WORDS: Final = 3000
"""Tokens that prompts are made of."""

Step = tuple[int, dict[int, int], list[int]]
"""Its number, the tokens of each request that takes part, and who was retracted for it."""


@dataclass(frozen=True)
class Ask:
    """A request that arrives before step `at` and ends after `output` tokens; it may make `limit`.

    shared: prompt tokens that it has in common with others of its group.
    """

    at: int
    prompt: int
    output: int
    limit: int
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
    """An engine's settings, by SGLang's names where it has one, and its requests.

    tokens: KV tokens of the pool, a multiple of `page`.  chunk: chunked_prefill_size, 0 for whole prompts.
    sequences: max_running_requests.  scarce: whether `tokens` are few.
    prefills: prefill_max_requests, 0 for no limit.
    order: schedule_policy, or `priority` for its priority scheduling, the lowest first and without preemption.
    """

    asks: tuple[Ask, ...]
    tokens: int = 4000
    page: int = 1
    chunk: int = 64
    max_prefill: int = 256
    sequences: int = 8
    prefills: int = 0
    mixed: bool = False
    caching: bool = False
    conservativeness: float = 1.0
    ignore_eos: bool = False
    order: str = "fcfs"
    scarce: bool = False


def a_world(seed: int) -> World:
    """A world drawn by `seed`: in half of them KV is scarce, so that requests wait for it or are retracted."""
    draw = random.Random(seed)
    caching, ignore_eos, scarce = draw.random() < 0.5, draw.random() < 0.15, draw.random() < 0.5
    asks = []
    at = 0
    for _ in range(draw.randint(6, 20)):
        at += draw.choice((0, 0, 0, 1, 2, 5, 30))
        shared = draw.choice((0, 0, 32, 64, 80)) if caching else 0
        prompt = shared + draw.randint(1, 150)
        limit = draw.randint(1, draw.choice((90, 300)))
        output = limit if ignore_eos else draw.randint(1, limit)
        asks.append(Ask(at, prompt, output, limit, draw.randrange(2), shared, draw.randrange(3)))
    page = draw.choice((1, 1, 4, 16))
    most = max(ask.prompt + ask.limit for ask in asks) + 2 * page + 2
    tokens = most + draw.randint(0, 200) if scarce else 20_000
    order = draw.choice(("fcfs", "fcfs", "lof", "priority", "lpm" if caching else "fcfs"))
    return World(
        tuple(asks), -(-tokens // page) * page, page,
        chunk=draw.choice((0, 32, 64, 128)), max_prefill=draw.choice((64, 256)), sequences=draw.choice((2, 4, 8, 16)),
        prefills=draw.choice((0, 0, 0, 1, 2)), mixed=draw.random() < 0.3, caching=caching,
        conservativeness=draw.choice((0.01, 0.1, 0.3, 1.0, 1.4)), ignore_eos=ignore_eos, order=order,
        scarce=scarce,
    )  # fmt: skip
