"""The launches of a step with prompts, and graphs of short prompts that spare them.

LAPS (arXiv 2601.11589, MLSys 2026): prompts have shapes of their own, so engines launch their kernels one by one. A
step of short prompts alone is captured for a grid of lengths and numbers of prompts, and runs as the next larger graph
of both: what is padded is computed, too. As in the paper's own model, launches are added to the device's time; where
they hide behind it (`poise.cost.launch`), 0 is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import ps
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.launch import floor_s


@dataclass(frozen=True, slots=True)
class PromptGraphs:
    """layer_us: microseconds that launches of a layer add (150: vLLM without graphs, `catalogue/engines.json`).
    tokens, prompts: of the largest graph, both in powers of two from 8 and from 1; no graphs with `captured` false.
    """

    takes: ClassVar[tuple[str, ...]] = ("prompts",)
    layer_us: float = 150.0
    captured: bool = True
    tokens: int = 256
    prompts: int = 64

    def __post_init__(self) -> None:
        if self.layer_us < 0 or min(self.tokens, self.prompts) < 1:
            raise ScenarioError(f"{self}: layer_us is 0 or more, tokens and prompts are 1 or more; correct them")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with launches and graphs."""
        return Launched(inner, pool, self)


class Launched(EstimatorWrapper):
    """Steps with prompts take their launches longer, or what the graph takes that holds them, if that is less."""

    def __init__(self, inner: Estimator, pool: Pool, term: PromptGraphs) -> None:
        super().__init__(inner)
        self.term, self.launches = term, ps(floor_s(pool.model.layers, term.layer_us / 1e6))

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`; decodes alone are as they were."""
        piece = self.inner.step(shape)
        if not shape.chunks:
            return piece
        eager = longer(piece, self.launches)
        graph = self.graph(shape)
        if graph is None:
            return eager
        whole = self.inner.step(graph)
        return whole if whole.base < eager.base else eager

    def graph(self, shape: StepShape) -> StepShape | None:
        """The captured shape that a step runs as; None where none holds it."""
        chunks, term = shape.chunks, self.term
        longest = max(chunk.tokens for chunk in chunks)
        if not term.captured or shape.decodes or longest > term.tokens or len(chunks) > term.prompts:
            return None
        if any(chunk.first_layer or chunk.last_layer for chunk in chunks):
            return None
        tokens, many = max(8, power(longest)), power(len(chunks))
        padded = [Chunk(tokens, chunk.context) for chunk in chunks] + [Chunk(tokens, 0)] * (many - len(chunks))
        return StepShape(0, tuple(padded), shape.share)

    def describe(self) -> dict[str, object]:
        """The inner one's, and the launches."""
        facts = {"layer_us": self.term.layer_us, "captured": self.term.captured}
        return {**self.inner.describe(), "prompt_graphs": facts}


def longer(piece: Piece, time: int) -> Piece:
    """A piece, and those that follow it, by so many picoseconds."""
    return piece._replace(base=piece.base + time, then=longer(piece.then, time) if piece.then else None)


def power(count: int) -> int:
    """The least power of two that is no less."""
    return 1 << (count - 1).bit_length()
