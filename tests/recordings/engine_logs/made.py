"""Logs of an engine whose step cost is known: it steps, and writes what vLLM or SGLang would have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from poise.cost import Fitted

CAPACITY = 400_000
EVERY = 5.0
INTERVAL = 40
START = (
    "INFO 11-22 09:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 400,000 tokens\n"
    "INFO 11-22 09:00:00 [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 48.83x\n"
)
SGLANG_START = (
    "[2026-11-22 09:00:00 TP0] max_total_num_tokens=400000, chunked_prefill_size=8192, max_prefill_tokens=16384\n"
)


def phases(seed: int, many: int) -> list[int]:
    """How many requests are under way, phase by phase."""
    return np.random.default_rng(seed).choice([2, 5, 10, 20, 40, 80], size=many).tolist()  # type: ignore[no-any-return]


@dataclass(slots=True)
class Step:
    """What a step held, at its end."""

    now: float
    seconds: float
    prompts: list[int]
    decodes: int
    context: int
    held: int


class Made:
    """An engine that keeps as many requests under way as the phase says.

    together: prompts and decodes share a step, as in vLLM; else prompts have steps of their own, as in SGLang.
    """

    def __init__(self, cost: Fitted, together: bool, seed: int = 1, noise: float = 0.0) -> None:
        self.cost, self.together, self.noise = cost, together, noise
        self.random = np.random.default_rng(seed)
        self.held = np.zeros(0, dtype=np.int64)
        self.left = np.zeros(0, dtype=np.int64)
        self.now = 0.0

    def steps(self, many: int, target: int, length: float) -> Iterator[Step]:
        """So many steps with `target` requests under way, prompts of about `length` tokens."""
        for _ in range(many):
            wanted = min(target - len(self.held), 4)
            prompts = [max(int(self.random.lognormal(np.log(length), 0.7)), 1) for _ in range(wanted)]
            if not prompts or self.together:
                yield self._step(prompts, len(self.held))
            else:
                yield self._step(prompts, 0)

    def _step(self, prompts: list[int], decodes: int) -> Step:
        cost, context = self.cost, int(self.held.sum()) if decodes else 0
        pairs = sum(each * (each + 1) // 2 for each in prompts)
        seconds = cost.step_s + cost.prompt_token_s * sum(prompts) + cost.pair_s * pairs
        seconds += cost.sequence_s * decodes + cost.kv_token_s * context
        seconds *= 1 + self.noise * float(self.random.standard_normal())
        self.now += seconds
        if decodes:
            self.held, self.left = self.held + 1, self.left - 1
            going = self.left > 0
            self.held, self.left = self.held[going], self.left[going]
        self.held = np.append(self.held, prompts).astype(np.int64)
        self.left = np.append(self.left, self.random.geometric(1 / 150, len(prompts))).astype(np.int64)
        return Step(self.now, seconds, prompts, decodes, context, int(self.held.sum()))


def _run(engine: Made, seed: int, many: int, write: Callable[[Step], Iterator[str]]) -> Iterator[str]:
    random = np.random.default_rng(seed)
    for target in phases(seed, many):
        length = float(random.choice([150, 400, 1000]))
        for step in engine.steps(600, target, length):
            yield from write(step)


def vllm(cost: Fitted, seed: int = 1, noise: float = 0.0, iterations: bool = False, many: int = 40) -> str:
    """The log of vLLM."""
    engine = Made(cost, together=True, seed=seed, noise=noise)
    begun, prompts, given, number = 0.0, 0, 0, 0

    def write(step: Step) -> Iterator[str]:
        nonlocal begun, prompts, given, number
        if iterations:
            yield (
                f"(EngineCore_DP0 pid=10) INFO 11-22 09:00:01 [core.py:359] Iteration({number}): {len(step.prompts)} "
                f"context requests, {sum(step.prompts)} context tokens, {step.decodes} generation requests, "
                f"{step.decodes} generation tokens, iteration elapsed time: {step.seconds * 1000:.2f} ms\n"
            )
        number += 1
        prompts, given = prompts + sum(step.prompts), given + step.decodes + len(step.prompts)
        if (span := step.now - begun) >= EVERY:
            begun = step.now
            yield vllm_line(prompts / span, given / span, len(engine.held), step.held / CAPACITY)
            prompts = given = 0

    return START + "".join(_run(engine, seed, many, write))


def vllm_line(prompts: float, generated: float, running: int, usage: float, hits: float = 0.0) -> str:
    """A line of `loggers.py`."""
    return (
        f"(APIServer pid=1) INFO 11-22 09:00:05 [loggers.py:259] Engine 000: Avg prompt throughput: {prompts:.1f} "
        f"tokens/s, Avg generation throughput: {generated:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs, "
        f"GPU KV cache usage: {usage * 100:.1f}%, Prefix cache hit rate: {hits * 100:.1f}%\n"
    )


def sglang(cost: Fitted, seed: int = 1, noise: float = 0.0, dot: str = ".", many: int = 40) -> str:
    """The log of SGLang's scheduler; its lines of prompts are written when a batch is made."""
    engine = Made(cost, together=False, seed=seed, noise=noise)
    begun, given, decoded = 0.0, 0, 0

    def write(step: Step) -> Iterator[str]:
        nonlocal begun, given, decoded
        if step.prompts:
            yield (
                f"[2026-11-22 09:00:01 TP0] Prefill batch{dot} #new-seq: {len(step.prompts)}, #new-token: "
                f"{sum(step.prompts)}, #cached-token: 0, token usage: {step.held / CAPACITY:.2f}, #running-req: "
                f"{len(engine.held) - len(step.prompts)}, #queue-req: 0, \n"
            )
            return
        given, decoded = given + step.decodes, decoded + 1
        if decoded % INTERVAL == 0:
            yield sglang_line(len(engine.held), step.held, given / (step.now - begun), dot)
            begun, given = step.now, 0

    return SGLANG_START + "".join(_run(engine, seed, many, write))


def sglang_line(running: int, tokens: int, generated: float, dot: str = ".") -> str:
    """A line of a window."""
    return (
        f"[2026-11-22 09:00:01 TP0] Decode batch{dot} #running-req: {running}, #token: {tokens}, token usage: "
        f"{tokens / CAPACITY:.2f}, cuda graph: True, gen throughput (token/s): {generated:.2f}, #queue-req: 0\n"
    )
