"""Mnemosyne, later Medha: chunks of a prompt follow one another through a pipeline, and KV is spread over data ranks.

Agrawal et al. (arXiv 2409.17264). Sequence pipeline parallelism (SPP): a chunk enters the first stage as soon as the
one before it has left that stage, so one prompt keeps all stages busy. KV parallelism (KVP): each group of devices has
all weights and a part of every request's KV; queries go to all groups, which merge their partial attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.collective import Link, all_gather
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.layout import kv_bytes_per_layer
from poise.cost.lines import Line, pieces
from poise.cost.roofline import Roofline
from poise.cost.term import Termed
from poise.cost.work import Works, efficiencies

PARTIAL_BYTES = 4
"""Of a value of partial attention, and of its maximum and sum, which are merged in 32 bits."""


@dataclass(frozen=True, slots=True)
class Mnemosyne:
    """spp: a chunk is cut into one part for each stage, so that no stage waits for a whole one.  kvp: KV is spread over
    the pool's `data` ranks, in steps that are shorter so than with whole requests on each rank.

    A step is a microbatch's way through all stages; with `spp` each microbatch has its part of every chunk. The fill of
    an empty pipeline, at most one step of a prompt, is left out, as it is for decodes. With `kvp` every group computes
    all tokens of a step, and what attention to earlier tokens takes is divided by the groups; a chunk's attention to
    itself is not.
    """

    takes: ClassVar[tuple[str, ...]] = ("prompts", "layout")
    spp: bool = True
    kvp: bool = True

    def over(self, build: Callable[[Pool], Estimator], pool: Pool) -> Estimator:
        """The estimator of `pool`; one group's is made besides where KV is spread."""
        group = build(replace(pool, data=1)) if self.kvp and pool.data > 1 else None
        return Spread(build(pool), group, pool, self)


class Spread(EstimatorWrapper):
    """Steps of chunks that are cut by the stage, with KV where it is read soonest."""

    def __init__(self, inner: Estimator, group: Estimator | None, pool: Pool, term: Mnemosyne) -> None:
        super().__init__(inner)
        self.group, self.pool, self.term = group, pool, term
        self.parts = pool.pipeline if term.spp else 1
        self._merge = all_gather(pool.data, _far(pool, inner)) if group else None

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        chunks = tuple(part for each in shape.chunks for part in cut(each, self.parts))
        whole = self.inner.step(shape._replace(chunks=chunks))
        if self.group is None or whole.then is not None:
            return whole
        spread = self._spread(self.group, shape, chunks)
        return pieces([Line(whole.base, whole.per_kv), spread], min, whole.per_window)

    def _spread(self, group: Estimator, shape: StepShape, chunks: tuple[Chunk, ...]) -> Line:
        """A step of one group with its part of earlier tokens, and the merge of each layer."""
        groups = self.pool.data
        piece = group.step(shape._replace(chunks=chunks))
        first = tuple(each._replace(context=0) for each in chunks)
        alone = group.step(shape._replace(chunks=first)).base if chunks else piece.base
        tokens = shape.decodes + sum(each.tokens for each in chunks)
        base = alone + (piece.base - alone) / groups + self._merged(max(1.0, tokens / self.pool.pipeline))
        return Line(base, piece.per_kv / groups)

    def _merged(self, tokens: float) -> float:
        """Picoseconds in which all layers' partial results of a microbatch's tokens reach every group."""
        if self._merge is None:
            return 0.0
        model = self.pool.model
        values = model.heads / self.pool.tensor * (model.head_dim + 2)
        return model.layers * self._merge.at(tokens * values * PARTIAL_BYTES * self.pool.data) * SECOND

    def describe(self) -> dict[str, object]:
        """The inner one's, and what is cut and spread."""
        facts = {"parts": self.parts, "groups": self.pool.data if self.group else 1}
        return {**self.inner.describe(), "mnemosyne": facts}


def cut(chunk: Chunk, parts: int) -> list[Chunk]:
    """A chunk in `parts` parts, fewer where it has fewer tokens; whole where it passes some layers."""
    count = 1 if chunk.last_layer else min(parts, chunk.tokens)
    edges = [chunk.tokens * at // count for at in range(count + 1)]
    return [chunk._replace(tokens=high - low, context=chunk.context + low) for low, high in pairwise(edges)]


def _far(pool: Pool, inner: Estimator) -> Link:
    """The link between groups, which is that of all devices."""
    builder, _ = Works(pool, efficiencies(inner)).lane(1.0)
    return builder.link(pool.devices)


class Prompt(NamedTuple):
    """Seconds of a prompt: SPP; the same chunks one after another; the whole prompt by a ring of devices (context
    parallelism), which computes while it sends KV on; and that where it does one after the other.
    """

    spp_s: float
    chunked_s: float
    ring_s: float
    bare_ring_s: float


def prompt(pool: Pool, tokens: int, chunk: int = 4096) -> Prompt:
    """Each way to prefill `tokens` on a pool's devices, in chunks of `chunk` tokens for each stage.

    The ring is as long as there are stages, each place of it a tensor group.
    """
    stages = pool.pipeline
    plain = Roofline().build(pool)
    each = [plain.step(StepShape(0, (Chunk(min(chunk, tokens - at), at),))).base for at in range(0, tokens, chunk)]
    fill = each[-1] * (stages - 1) / stages
    return Prompt((sum(each) / stages + fill) / SECOND, sum(each) / SECOND, *_ring_s(pool, tokens))


def _ring_s(pool: Pool, tokens: int) -> tuple[float, float]:
    """Seconds of a prompt over a ring whose places have equal parts of every length (striped), so that all have as much
    attention; a layer has the longer of attention and of sending all KV round (arXiv 2310.01889), or both in turn.
    """
    places = pool.pipeline
    one = replace(pool, pipeline=1)
    builder, k = Works(one).lane(1.0)
    layers, share = pool.model.layers, tokens // places
    attention = k.attention(tokens, 0, 0) / layers / places
    link = builder.link(pool.devices)
    sent = (places - 1) * (link.latency_s + share * kv_bytes_per_layer(one) / link.bandwidth) * SECOND
    rest = k.step + k.sequence + layers * k.layer(share) + k.last(1.0)
    hidden, bare = ((rest + layers * each) / SECOND for each in (max(attention, sent), attention + sent))
    return hidden, bare


def token_s(pool: Pool, context: int, decodes: int = 1) -> float:
    """Seconds of a step of decodes that each read `context` tokens, spread over the data ranks."""
    piece = Termed(Roofline(), (Mnemosyne(),)).build(pool).step(StepShape(decodes)).at(decodes * context)
    return (piece.base + piece.per_kv * decodes * context) / SECOND
