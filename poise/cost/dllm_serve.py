"""Serving diffusion models: steps that recompute a whole sequence and steps that compute one block share a device.

dLLM-Serve (arXiv 2512.17077). A request denoises block by block; at regular steps it refreshes the KV of its whole
sequence, which arithmetic binds, and in between it reuses that KV and computes the current block alone, which memory
binds. Logits of all positions would fill memory; computed in parts under a cap, they leave it to requests. So does each
head that keeps the KV of those tokens alone that matter to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from poise.core.errors import UserError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.units import SECOND


class Request(NamedTuple):
    """prompt, output: tokens.  at_s: when it arrives."""

    prompt: int
    output: int
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Denoising:
    """block: tokens of a block.  steps: of each block.  every: steps from one refresh to the next.  kept: the part of
    its tokens whose KV each head keeps between refreshes, densely stored (head-centric sparsity).
    """

    block: int = 32
    steps: int = 32
    every: int = 8
    kept: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.kept <= 1:
            raise UserError(f"{self}: kept is a part of a sequence; give above 0 up to 1")
        if min(self.block, self.steps, self.every) < 1:
            raise UserError(f"{self}: blocks, steps and refreshes are counted; give 1 or more")

    def work(self, request: Request) -> Iterator[tuple[int, int]]:
        """Of each step of a request: tokens that it computes, and tokens of KV that it reads besides."""
        whole = request.prompt + request.output
        blocks = -(-request.output // self.block)
        for step in range(blocks * self.steps):
            yield (whole, 0) if step % self.every == 0 else (self.block, round(whole * self.kept))


@dataclass(slots=True)
class Running:
    """A request under way: what each of its steps is, and how many are done."""

    request: Request
    steps: Sequence[tuple[int, int]]
    done: int = 0

    @property
    def tokens(self) -> int:
        """Tokens that its next step computes."""
        return self.steps[self.done][0]


class Composer(Protocol):
    """Choose the requests of a step."""

    def compose(self, running: Sequence[Running], budget: int) -> list[Running]:
        """Some of `running`, which are in the order of their arrival; at least one."""
        ...


class Aligned:
    """All together: no request continues until all of a batch can, so refreshes fall on one step (static batches)."""

    def compose(self, running: Sequence[Running], budget: int) -> list[Running]:
        """Those that have done the fewest steps within their refresh, as many as there are."""
        least = min(each.done for each in running)
        return [each for each in running if each.done == least]


class Multiplexed:
    """First come, first served within the budget of tokens, up to the first that does not fit; phases mix."""

    def compose(self, running: Sequence[Running], budget: int) -> list[Running]:
        """As many as fit from the head on; one that alone exceeds the budget runs alone."""
        found, left = [running[0]], budget - running[0].tokens
        for each in running[1:]:
            if each.tokens > left:
                break
            found.append(each)
            left -= each.tokens
        return found


class Memory(NamedTuple):
    """Bytes of a device left for KV and logits; of KV and logits of a token; `cap` for logits in parts, 0 for whole."""

    free: float
    kv: float
    logit: float
    cap: float = 0.0

    def fits(self, running: Sequence[Request]) -> bool:
        """Whether requests fit with their KV and the logits of as many positions as may be computed at once."""
        tokens = sum(each.prompt + each.output for each in running)
        logits = min(self.cap, tokens * self.logit) if self.cap else tokens * self.logit
        return tokens * self.kv + logits <= self.free


class Served(NamedTuple):
    """latencies: seconds of each request, in the order given.  ends_s: of the last."""

    latencies: list[float]
    ends_s: float


def serve(
    requests: Sequence[Request],
    composer: Composer,
    estimator: Estimator,
    memory: Memory,
    denoising: Denoising,
    budget: int = 4096,
    static: bool = False,
) -> Served:
    """Play requests, which are in order of arrival, on one device.

    budget: tokens of a step.  static: none joins before a whole batch has ended.
    """
    ends: dict[int, float] = {}
    waiting = list(range(len(requests)))
    running: dict[int, Running] = {}
    now = 0.0
    while waiting or running:
        if not (static and running):
            _admit(requests, waiting, running, memory, denoising, now)
        if not running:
            if requests[waiting[0]].at_s <= now:
                raise UserError(f"{requests[waiting[0]]} does not fit memory alone; give more, or a cap on logits")
            now = requests[waiting[0]].at_s
            continue
        chosen = composer.compose(list(running.values()), budget)
        now += step_s(estimator, chosen)
        for each in chosen:
            each.done += 1
        for at in [at for at, each in running.items() if each.done == len(each.steps)]:
            del running[at]
            ends[at] = now
    return Served([ends[at] - each.at_s for at, each in enumerate(requests)], now)


def step_s(estimator: Estimator, chosen: Sequence[Running]) -> float:
    """Seconds of a step: refreshes are prompts, blocks are chunks after the tokens that they read."""
    chunks = tuple(Chunk(tokens, read) for tokens, read in (each.steps[each.done] for each in chosen))
    return estimator.step(StepShape(0, chunks)).base / SECOND


def _admit(
    requests: Sequence[Request],
    waiting: list[int],
    running: dict[int, Running],
    memory: Memory,
    denoising: Denoising,
    now: float,
) -> None:
    """Let requests in by arrival while memory lasts."""
    while waiting and requests[waiting[0]].at_s <= now:
        first = requests[waiting[0]]
        if not memory.fits([*(each.request for each in running.values()), first]):
            return
        running[waiting.pop(0)] = Running(first, tuple(denoising.work(first)))
