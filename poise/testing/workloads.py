"""Small random engines with small random work, for the conformance of batchers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from poise.core.spec import Engine, Lane
from poise.core.units import SECOND
from poise.testing.builders import a_request
from poise.testing.cost import LinearCost
from poise.testing.solo import Client

_TWO = Lane("prefill", True, False, 0.5), Lane("decode", False, True, 0.5)
_LAYERS = 4


class Case(NamedTuple):
    """An engine, its KV blocks, its costs and its clients."""

    engine: Engine
    blocks: int
    cost: LinearCost
    clients: tuple[Client, ...]
    swap: bool
    layers: int = _LAYERS

    def __str__(self) -> str:
        engine, requests = self.engine, [client.request for client in self.clients]
        return (
            f"budget {engine.token_budget}, at most {engine.max_sequences} sequences, {self.blocks} blocks of "
            f"{engine.block_tokens} tokens, lanes {[lane.name for lane in engine.lanes]}, "
            f"prompts {[request.prompt_tokens for request in requests]}, "
            f"outputs {[client.output_tokens for client in self.clients]}"
        )


def a_case(seed: int, chunks: bool = True) -> Case:
    """Draw a case: every request fits the replica when alone, and with `chunks=False` the budget of one step too."""
    rng = random.Random(seed)
    tick = rng.choice((10**3, SECOND // 1000))  # coarse times, so that things coincide
    clients = _clients(rng, tick)
    longest = max(client.request.prompt_tokens + client.output_tokens for client in clients)
    sequences = rng.randint(1, 6)
    block = rng.choice((1, 2, 4, 16))
    engine = Engine(
        token_budget=max(rng.randint(sequences, 40), 0 if chunks else longest + sequences),
        max_sequences=sequences,
        block_tokens=block,
        prefix_caching=rng.random() < 0.7,
        reserve_prompt=rng.random() < 0.5,
        host_kv_bytes=rng.choice((0, 50_000)),
        lanes=rng.choice(((Lane(),), (Lane(),), _TWO, _TWO[::-1])),
    )
    fits = -(-longest // block) + 1
    unit = tick / SECOND
    cost = LinearCost(
        step_s=rng.choice((1, 3, 10)) * unit,
        decode_s=rng.choice((0, 1)) * unit,
        prompt_s=rng.choice((0, 1)) * unit,
        kv_s=rng.choice((0, 1)) * unit,
        layers=_LAYERS,
        swap_bw=1e6 / unit,
    )
    window = rng.choice((0, 0, 16))
    if window:
        cost = replace(cost, window=window, window_s=unit)
    return Case(engine, rng.choice((fits, fits, 3 * fits // 2, 2 * fits, 6 * fits)), cost, clients, rng.random() < 0.5)


def _clients(rng: random.Random, tick: int) -> tuple[Client, ...]:
    spread = rng.choice((1, 20, 60, 200))
    families = rng.choice((0, 1, 3))
    clients: list[Client] = []
    at = 0
    for number in range(rng.randint(2, 12)):
        at += rng.randrange(spread) * tick
        prompt = rng.randint(1, 50)
        ids, ends = _extents(rng, prompt, rng.randrange(families)) if families else ((), ())
        request = a_request(
            id=number, prompt_tokens=prompt, arrived_at=at, ids=ids, ends=ends, priority=rng.randrange(3)
        )
        leaves = at + rng.randrange(1, 100) * tick if rng.random() < 0.1 else 0
        clients.append(Client(request, rng.randint(1, 30), leaves))
    return tuple(clients)


def _extents(rng: random.Random, prompt: int, family: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The head of the family's one endless prompt, cut into extents of 8 tokens, with a tail of its own behind."""
    shared = rng.randint(0, prompt) // 8
    return tuple(family * 1000 + place for place in range(shared)), tuple(8 * (place + 1) for place in range(shared))
