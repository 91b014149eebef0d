"""BlockLLM: a replica holds several fine-tuned variants of its model, and keeps the blocks that are equal once.

BlockLLM (arXiv 2404.18322). k variants of which a part s of the blocks is shared take s + k·(1 − s) models of memory,
so KV has (k − 1)·(1 − s) models less. A layer with shared weights passes the whole batch, a layer of their own one
variant after another. Whose requests a replica serves are the `tenants` of its pool (`poise.cost.variants.spread`).
That shared blocks may run on another device first is not part of it, but of the event model in `poise.cost.block_llm`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost.estimator_wrapper import EstimatorWrapper, longer
from poise.cost.memory import footprint, kv_blocks
from poise.cost.step import RooflineEstimator
from poise.cost.variants import distinct, popularity
from poise.cost.work import Works, efficiencies


@dataclass(frozen=True, slots=True)
class BlockLlm:
    """variants: that a replica holds (0: as many as its pool has tenants, 1 where it names none).

    shared: the part of the blocks that all have in common; 0: whole models side by side.  skew: how the popularity of
    those that are held falls, by the power of the rank; 0, all equal, has the most of them in a batch.
    """

    variants: int = 0
    shared: float = 0.75
    skew: float = 0.0

    def __post_init__(self) -> None:
        if self.variants < 0:
            raise ScenarioError(f"variants {self.variants} is below 0; give how many a replica holds")
        if not 0 <= self.shared <= 1:
            raise ScenarioError(f"shared {self.shared} is no part of the blocks; give 0 up to 1")
        if self.skew < 0:
            raise ScenarioError(f"skew {self.skew} is below 0; give 0 for variants that are alike")

    def of(self, pool: Pool) -> int:
        """The variants of a replica."""
        return self.variants or len(pool.tenants) or 1

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with the blocks of several variants; itself where nothing is more than once."""
        return inner if self.of(pool) == 1 or self.shared == 1 else Blocks(inner, pool, self)

    def held(self, pool: Pool) -> Pool:
        """The pool with the KV blocks that are left; CapacityError where the variants do not fit."""
        more = (self.of(pool) - 1) * (1 - self.shared) * footprint(pool).weights
        if not more:
            return pool
        if pool.engine.kv_blocks:
            left = pool.engine.kv_blocks - ceil(more / footprint(pool).block) * pool.data
        else:
            left = _left(pool, more)
        if left < 1:
            raise CapacityError(
                f"pool.model {pool.model.name}: {self.of(pool)} variants with {self.shared:.0%} of their blocks shared "
                f"take {more / 1e9:.1f} GB more of a device than one, which is more than it has left; give fewer "
                "variants to a replica, a larger device or tensor"
            )
        return replace(pool, engine=replace(pool.engine, kv_blocks=left))


def _left(pool: Pool, more: float) -> int:
    """KV blocks where weights take more bytes of each device; 0 where nothing is left."""
    memory = pool.device.memory_bytes - ceil(more / pool.engine.memory_fraction)
    try:
        return kv_blocks(replace(pool, device=replace(pool.device, memory_bytes=memory)))
    except CapacityError:
        kv_blocks(pool)  # raises where not even one variant fits
        return 0


class Blocks(EstimatorWrapper):
    """Steps in which d variants meet: a layer of t tokens that is not shared takes d times as long as one of t/d.

    d is the mean number of different variants among the sequences of a rank (`variants.distinct`), for a step does not
    say whose tokens it has. All of a layer is done once for each: its weights are read, its kernels start and its
    all-reduces run d times, which for attention is more than need be. Embeddings and the output head are shared.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: BlockLlm) -> None:
        super().__init__(inner)
        self.term, self.variants = term, term.of(pool)
        self.part = 1 / (pool.data * pool.pipeline)
        self.works = Works(pool, efficiencies(inner))
        self.whole = RooflineEstimator(pool, efficiencies(inner))
        self._popular = popularity(self.variants, term.skew)

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: what the roofline takes longer for d variants, another cost takes longer as well."""
        piece = self.inner.step(shape)
        sequences = max(1.0, (shape.decodes + len(shape.chunks)) * self.part)
        met = distinct(self._popular, sequences)
        if met == 1:
            return piece
        _, k = self.works.lane(shape.share)
        more = 0.0
        for layers, tokens in self.whole.stretches(shape):
            rank = max(1.0, tokens * self.part)
            more += layers * (met * k.layer(rank / met) - k.layer(rank))
        return longer(piece, (1 - self.term.shared) * more * piece.base / self.whole.step(shape).base)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what is held."""
        facts = {"variants": self.variants, "shared": self.term.shared, "skew": self.term.skew}
        return {**self.inner.describe(), "block_llm": facts}
