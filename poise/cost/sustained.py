"""The highest rate of equal requests that one replica sustains: what a placement divides a demand by."""

from __future__ import annotations

from math import ceil

from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import seconds
from poise.cost.memory import kv_blocks


def sustained(pool: Pool, estimator: Estimator, prompt_tokens: int, output_tokens: int, tpot_s: float) -> float:
    """Requests per second at which the mean TPOT of equal requests is `tpot_s` at most; 0 where not even one meets it.

    With B requests running, each is decoded n = output − 1 times, and while that goes on every other slot is filled
    again once: B requests take n·d(B) + B·p seconds, with d a step of B decodes at half of the output, and p what one
    prompt adds to steps. A request waits for all prompts but its own, so its TPOT is d(B) + (B − 1)·p/n. B is at most
    the largest that meets the limit, that KV blocks hold at full length and that the engine runs; of it and of smaller
    ones (1, 2, 4 and multiples of 8) the fastest counts, for a step may grow faster than its batch. This is Mélange's
    `MaxTput` (arXiv 2404.14527, section 5) for engines that chunk prompts; requests of one output token have no TPOT.
    """
    blocks = ceil((prompt_tokens + output_tokens) / pool.engine.block_tokens)
    most = min(pool.engine.max_sequences, kv_blocks(pool) // blocks)
    steps = output_tokens - 1
    low, high = 0, most if steps else min(most, 1)
    while low < high:
        running = (low + high + 1) // 2
        step, prompt = _times(pool, estimator, prompt_tokens, output_tokens, running)
        if steps and step + (running - 1) * prompt / steps > tpot_s:
            high = running - 1
        else:
            low = running
    best = 0.0
    for running in {low, *(size for size in (1, 2, 4, *range(8, low, 8)) if size <= low)} - {0}:
        step, prompt = _times(pool, estimator, prompt_tokens, output_tokens, running)
        best = max(best, running / (steps * step + running * prompt))
    return best


def _times(pool: Pool, estimator: Estimator, prompt: int, output: int, running: int) -> tuple[float, float]:
    """Seconds of a step of `running` decodes half-way through their outputs, and what one prompt adds to steps."""
    context = prompt + output // 2
    beside = running - 1

    def step(decodes: int, chunks: tuple[Chunk, ...] = ()) -> float:
        piece = estimator.step(StepShape(decodes, chunks))
        kept = piece.per_kv * context + piece.per_window * min(context, estimator.window)
        return seconds(piece.base + decodes * kept)

    chunk = max(pool.engine.token_budget - beside, 1)
    parts = [Chunk(min(chunk, prompt - done), done) for done in range(0, prompt, chunk)]
    added = sum(step(beside, (part,)) - (step(beside) if beside else 0.0) for part in parts)
    return step(running), added
