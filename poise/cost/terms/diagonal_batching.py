"""Diagonal batching: a recurrent-memory transformer computes prompts by the anti-diagonals of its segments and layers.

Sivtsov et al. (arXiv 2506.05229). `poise.cost.diagonal_batching` has the cells and their sums; here are the steps that
a batcher makes of them. The model differs from one with full attention: later segments have a memory of constant
size in place of the KV of all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.diagonal_batching import Cells, diagonal_s, sequential_s
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.work import efficiencies


@dataclass(frozen=True, slots=True)
class DiagonalBatching:
    """segment, memory: tokens of a segment, and of the memory that it reads and writes (those of the paper's ARMT).
    reached: the part of a device's rate that a single cell reaches; below 1 grouping fills what is idle.
    grouped: false for its baseline, segment by segment.

    A chunk of the batcher is computed by its own diagonals, after those before it: let the token budget be many
    segments. Its last segment is padded to a whole one, as cells of a group are equal. Memory is counted as for the
    pool, though a request would keep one segment's KV.
    """

    hides: ClassVar[tuple[str, ...]] = ("arithmetic", "links", "memory")
    takes: ClassVar[tuple[str, ...]] = ("prompts", "KV")
    first: ClassVar[bool] = True
    segment: int = 1024
    memory: int = 128
    reached: float = 1.0
    grouped: bool = True

    def __post_init__(self) -> None:
        if self.segment < 1 or self.memory < 0:
            raise ScenarioError(
                f"segment {self.segment} and memory {self.memory} count tokens; give a segment of 1 or more, and a "
                "memory of 0 or more"
            )
        if not 0 < self.reached <= 1:
            raise ScenarioError(f"reached {self.reached} is no part of a device's rate; give above 0 up to 1")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with a recurrent memory; ScenarioError for stages or data ranks, over which no diagonal is laid."""
        if pool.pipeline > 1 or pool.data > 1:
            raise ScenarioError(
                f"a diagonal has cells of all layers on one tensor group; the pool has pipeline {pool.pipeline}, data "
                f"{pool.data}: give 1 of each, and replicas"
            )
        return Recurrent(inner, pool, self)


class Recurrent(EstimatorWrapper):
    """Steps of decodes, in one pass of the inner estimator, and then of each chunk's cells.

    A decode reads the memory and the half of its segment, in the mean, so that no step grows with KV; once a segment it
    writes the memory, which is spread evenly over its steps.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: DiagonalBatching) -> None:
        super().__init__(inner)
        self.pool, self.term, self.use = pool, term, efficiencies(inner)
        self.read = term.segment // 2 + term.memory
        self._cells: dict[float, Cells] = {}
        self._known: dict[tuple[int, int, float], int] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, the same at any KV."""
        if not shape.decodes and not shape.chunks:
            return self.inner.step(shape)
        return Piece(max(self._decoded(shape) + self._prompts(shape), 1))

    def _decoded(self, shape: StepShape) -> int:
        """Decodes alone."""
        if not shape.decodes:
            return 0
        kv = shape.decodes * self.read
        piece = self.inner.step(shape._replace(chunks=())).at(kv)
        windowed = shape.decodes * min(self.read, self.window)
        whole = piece.base + piece.per_kv * kv + piece.per_window * windowed
        if not self.term.memory:
            return whole
        written = self.inner.step(StepShape(0, (Chunk(self.term.memory, self.term.segment),), shape.share)).base
        return whole + round(written * shape.decodes / self.term.segment)

    def _prompts(self, shape: StepShape) -> int:
        """Chunks one after another, with their host time and head."""
        if not shape.chunks:
            return 0
        layers = self.pool.model.layers
        _, k = self._lane(shape.share).works.lane(shape.share)
        beside = k.sequence * len(shape.chunks) + (0.0 if shape.decodes else k.step)
        ending = sum(each.last_layer in (0, layers) for each in shape.chunks)
        if ending:
            beside += k.last(ending)
        passed = ((each.tokens, (each.last_layer or layers) - each.first_layer) for each in shape.chunks)
        return round(beside) + sum(self._chunk(tokens, some, shape.share) for tokens, some in passed)

    def _chunk(self, tokens: int, layers: int, share: float) -> int:
        """The cells of `tokens` tokens in `layers` layers."""
        segments = ceil(tokens / self.term.segment)
        known = self._known.get((segments, layers, share))
        if known is None:
            joined = diagonal_s if self.term.grouped else sequential_s
            cell = partial(self._lane(share).grouped_s, reached=self.term.reached)
            known = self._known[segments, layers, share] = round(joined(segments, layers, cell) * SECOND)
        return known

    def _lane(self, share: float) -> Cells:
        found = self._cells.get(share)
        if found is None:
            found = self._cells[share] = Cells(self.pool, self.term.segment, self.term.memory, self.use, share)
        return found

    def describe(self) -> dict[str, object]:
        """The inner one's, and the segments."""
        facts = {name: getattr(self.term, name) for name in ("segment", "memory", "reached", "grouped")}
        return {**self.inner.describe(), "diagonal_batching": facts}
