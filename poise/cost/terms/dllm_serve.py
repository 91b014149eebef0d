"""dLLM-Serve: diffusion models, whose requests refresh their whole sequence now and then and else compute one block.

dLLM-Serve (arXiv 2512.17077). Refreshes are bound by arithmetic and blocks by memory, so a step is shorter where phases
mix; logits of all positions fill memory unless they are computed in parts under a cap. Steps in which each request has
its own phase and place are played by `poise.cost.dllm_serve`; here a step has the mean of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost.dllm_serve import Denoising
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.lines import EVER
from poise.cost.memory import footprint, kv_blocks

LOGIT_BYTES = 4 + 4
"""A logit and its probability in 32 bits."""

NEAR = 0.005
"""How far a chord may be from the cost at its middle, as a part of its lower end; of what is convex and does not fall
it is nowhere twice as far."""

REFRESHES = ("mixed", "aligned")


@dataclass(frozen=True, slots=True)
class DllmServe:
    """block, steps: tokens of a block and steps for each, so a step makes block/steps tokens.  every: steps from one
    refresh to the next.  output: masked positions of a request at first, which is how long outputs are in the mean.
    refresh: "mixed", requests refresh spread evenly over steps; "aligned", all in the same one.
    cap_mb: memory for logits in parts; 0: those of all positions at once.  kept: the part of its tokens whose KV each
    head keeps.

    A prompt's chunk is the first refresh, masked positions included. Later a request counts with what it has and with
    half of `output`, so a run over outputs of that length is right in the mean, while a step of its first (last) tokens
    is too short (long) by up to half of `output`. Requests of a step have the mean length: attention's square is short
    by the square of their lengths' coefficient of variation, times its part of the cost. In length the cost is a chain
    of chords, for which see `NEAR`.

    Left out: the end of a last block that an output does not fill (less than one block); that a first refresh counts as
    one of `every` (less than one refresh of each request); a budget of tokens that cuts steps; KV of masked positions,
    so have engine.max_sequences no more than whole sequences fit. KV of a prefix depends on what follows:
    turn engine.prefix_caching off. It changes what is computed, so among terms it comes last.
    """

    takes: ClassVar[tuple[str, ...]] = ("prompts", "decodes")
    prefixes: ClassVar[bool] = False
    block: int = 32
    steps: int = 32
    every: int = 8
    output: int = 128
    refresh: str = "mixed"
    cap_mb: float = 256.0
    kept: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.kept <= 1:
            raise ScenarioError(f"kept {self.kept} is a part of a sequence; give above 0 up to 1")
        Denoising(self.block, self.steps, self.every)
        if self.output < 0 or self.cap_mb < 0:
            raise ScenarioError(f"output {self.output} and cap_mb {self.cap_mb} count tokens and MB; give 0 or more")
        if self.refresh not in REFRESHES:
            raise ScenarioError(f"refresh {self.refresh!r}; give one of {', '.join(REFRESHES)}")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with decodes that refresh and reuse."""
        return Denoised(inner, pool, self)

    def held(self, pool: Pool) -> Pool:
        """The pool with what logits leave of its KV blocks."""
        need = footprint(pool)
        every = need.block + need.window_block
        kept = every * self.kept
        logits = pool.engine.block_tokens * pool.model.vocab * LOGIT_BYTES / pool.tensor
        room = kv_blocks(pool) / pool.data * every
        blocks = room / (kept + logits)
        if self.cap_mb and kept:
            blocks = max(blocks, (room - self.cap_mb * 1e6) / kept)
        if blocks < 1:
            raise CapacityError(
                f"dllm_serve.cap_mb {self.cap_mb:g}: logits leave nothing of {room / 1e9:.1f} GB for KV; give another "
                "cap, or a device with more memory"
            )
        return replace(pool, engine=replace(pool.engine, kv_blocks=int(blocks) * pool.data))


class Denoised(EstimatorWrapper):
    """Decodes as refreshes and blocks, by the mean over the steps from one refresh to the next."""

    def __init__(self, inner: Estimator, pool: Pool, term: DllmServe) -> None:
        super().__init__(inner)
        self.term, self.longest = term, max(pool.model.max_context, 2)
        self.makes = term.block / term.steps
        self._known: dict[tuple[int, float], Piece] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: the part of a step that yields each request one token, and its prompts."""
        prompts = tuple(map(self._masked, shape.chunks))
        if not shape.decodes:
            return self.inner.step(shape._replace(chunks=prompts))
        if not prompts:
            known = self._known.get((shape.decodes, shape.share))
            if known is None:
                known = self._known[shape.decodes, shape.share] = self._piece(shape)
            return known
        return self._piece(shape._replace(chunks=prompts))

    def _masked(self, chunk: Chunk) -> Chunk:
        """A prompt with the positions that it is to fill, where it begins."""
        return chunk if chunk.context else chunk._replace(tokens=chunk.tokens + self.term.output)

    def _piece(self, shape: StepShape) -> Piece:
        """Chords over the length of sequences, each a piece in KV tokens."""

        def at(length: int) -> float:
            whole = self._mean(shape, length)
            if not shape.chunks or self.makes == 1:
                return whole / self.makes
            alone = self._mean(shape._replace(chunks=()), length)
            return alone / self.makes + whole - alone

        piece = None
        for low, high in reversed(list(pairwise(chords(at, 1, self.longest)))):
            until = self._kv(shape.decodes, high[0]) if piece else EVER
            if until < 0:
                break
            slope = round((high[1] - low[1]) / (high[0] - low[0]) / shape.decodes)
            base = round(low[1] - slope * (low[0] - self.term.output / 2) * shape.decodes)
            piece = Piece(base, slope, 0, until, piece)
        assert piece is not None
        return piece

    def _kv(self, decodes: int, length: float) -> int:
        """KV tokens of requests of that length, as far as they are unmasked."""
        return int(decodes * (length - self.term.output / 2))

    def _mean(self, shape: StepShape, length: int) -> float:
        """Picoseconds of a step with sequences of one length, over the refreshes that it may have."""
        return sum(
            part * self.inner.step(self._with(shape, refreshes, length)).base
            for refreshes, part in self._refreshes(shape.decodes)
            if part
        )

    def _refreshes(self, decodes: int) -> tuple[tuple[int, float], tuple[int, float]]:
        """How many refresh in a step, and in which part of all steps."""
        if self.term.refresh == "aligned":
            return (0, 1 - 1 / self.term.every), (decodes, 1 / self.term.every)
        few, more = divmod(decodes, self.term.every)
        return (few, 1 - more / self.term.every), (few + 1, more / self.term.every)

    def _with(self, shape: StepShape, refreshes: int, length: int) -> StepShape:
        """A step of prompts, refreshes and blocks after the tokens that they read."""
        blocks = (Chunk(self.term.block, round(length * self.term.kept)),) * (shape.decodes - refreshes)
        return StepShape(0, (*shape.chunks, *(Chunk(length, 0),) * refreshes, *blocks), shape.share)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what a step is."""
        names = ("block", "steps", "every", "output", "refresh", "cap_mb", "kept")
        return {**self.inner.describe(), "dllm_serve": {name: getattr(self.term, name) for name in names}}


def chords(at: Callable[[int], float], low: int, high: int) -> list[tuple[int, float]]:
    """Points of a function between whole numbers, so near that it is close to a straight line between two (`NEAR`)."""

    def between(one: tuple[int, float], two: tuple[int, float]) -> list[tuple[int, float]]:
        place = (one[0] + two[0]) // 2
        if place == one[0]:
            return [one]
        middle = place, at(place)
        chord = one[1] + (two[1] - one[1]) * (place - one[0]) / (two[0] - one[0])
        if abs(chord - middle[1]) <= NEAR * min(one[1], two[1]):
            return [one]
        return [*between(one, middle), *between(middle, two)]

    last = high, at(high)
    return [*between((low, at(low)), last), last]
