"""The highest rate of equal requests that one replica sustains: what a placement divides a demand by."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, inf

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
    low, steps = _within(pool, estimator, prompt_tokens, output_tokens, tpot_s), output_tokens - 1
    best = 0.0
    for running in {low, *(size for size in (1, 2, 4, *range(8, low, 8)) if size <= low)} - {0}:
        step, prompt = _times(pool, estimator, prompt_tokens, output_tokens, running)
        best = max(best, running / (steps * step + running * prompt))
    return best


def sustained_share(
    pool: Pool, estimator: Estimator, prompt_tokens: int, output_tokens: int, tpot_s: float, share: float
) -> float:
    """Requests per second that come by chance at which `share` of them find few enough others for `tpot_s`.

    `sustained` is of even arrivals. By Poisson arrivals the number that run is a birth-death chain: n of them leave at
    μ(n) = n / (steps·d(n) + n·p) a second, so that n run with π(n) ∝ Π λ/μ(k), k up to n, whatever the distribution of
    sizes (Kelly, "Reversibility and Stochastic Networks", 1979, section 3.3). An arriving request finds n with π(n); it
    is in time where it and they are at most the B of `sustained`. μ is taken as linear between the batches of that, and
    beyond B as at B. So they wait for no place either, where KV blocks or the engine bound B. 0 where B is 1 or less:
    such a replica fails whenever two requests meet. Those who come later count as the mean, so that by simulation a few
    in a hundred fewer are in time.
    """
    most, steps = _within(pool, estimator, prompt_tokens, output_tokens, tpot_s), output_tokens - 1
    if most < 2:
        return 0.0
    sizes = sorted({1, most, *(size for size in (2, 4, *range(8, most, 8)) if size < most)})
    rates = []
    for running in sizes:
        step, prompt = _times(pool, estimator, prompt_tokens, output_tokens, running)
        rates.append(running / (steps * step + running * prompt))
    leaving = [rates[0]]
    for (size, rate), (larger, next_) in pairwise(zip(sizes, rates, strict=True)):
        leaving += [rate + (next_ - rate) * at / (larger - size) for at in range(1, larger - size + 1)]
    low, high = 0.0, leaving[-1]
    while high - low > 1e-4 * leaving[-1]:
        rate = (low + high) / 2
        low, high = (rate, high) if found_few(leaving, rate) >= share else (low, rate)
    return low


def found_few(leaving: list[float], rate: float) -> float:
    """The chance that an arriving request finds fewer than there may be, with so many leaving a second of each number
    that runs; those beyond the last leave as it does."""
    weights = [1.0]
    for each in leaving:
        weights.append(weights[-1] * rate / each)
    beyond = weights[-1] / (1 - rate / leaving[-1]) if rate < leaving[-1] else inf
    few = sum(weights[:-1])
    return few / (few + beyond)


def _most(pool: Pool, prompt_tokens: int, output_tokens: int) -> int:
    """The most requests that KV blocks and the engine admit; one where they only prefill."""
    blocks = ceil((prompt_tokens + output_tokens) / pool.engine.block_tokens)
    most = min(pool.engine.max_sequences, kv_blocks(pool) // blocks)
    return most if output_tokens > 1 else min(most, 1)


def _within(pool: Pool, estimator: Estimator, prompt_tokens: int, output_tokens: int, tpot_s: float) -> int:
    """The most requests that may run, by the limit, KV blocks and the engine."""
    steps = output_tokens - 1
    low, high = 0, _most(pool, prompt_tokens, output_tokens)
    while low < high:
        running = (low + high + 1) // 2
        step, prompt = _times(pool, estimator, prompt_tokens, output_tokens, running)
        if steps and step + (running - 1) * prompt / steps > tpot_s:
            high = running - 1
        else:
            low = running
    return low


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
