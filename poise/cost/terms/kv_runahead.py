"""KV-Runahead: a prompt's tokens are cut over a chain of devices, each of which hands the KV so far to the next.

Cho et al. (arXiv 2405.05329). Device i computes keys and values of its own tokens, waits for those before them, layer
by layer, and the last one emits the first token. Causal attention makes later cuts dearer, so the first are longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import ClassVar, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.efficiency import Efficiencies
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.layout import kv_bytes_per_layer
from poise.cost.one_step import step_s
from poise.cost.work import Works, efficiencies


def least(tokens: float, devices: int, pair: float = 1.0) -> float:
    """TTFT*(p) = α·C²/2·(1/p + 1/p²), the least time of attention alone over C tokens; a pair takes `pair`."""
    return pair * tokens**2 / 2 * (1 / devices + 1 / devices**2)


def sent(tokens: float, devices: int) -> tuple[float, float]:
    """Tokens whose KV crosses links, by the chain and by tensor parallelism of sequences: (p − 1)·C/2 and (p − 1)·C."""
    return (devices - 1) * tokens / 2, (devices - 1) * tokens


@dataclass(slots=True)
class Chain:
    """A chain of as many devices as `pool` has in a tensor group, each with all weights; seconds."""

    pool: Pool
    use: Efficiencies = field(default_factory=Efficiencies)
    works: Works = field(init=False)
    _cuts: dict[tuple[int, int], tuple[int, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.pool.tensor < 2 or self.pool.data > 1 or self.pool.pipeline > 1:
            raise ScenarioError(
                f"a chain wants one tensor group of 2 devices or more; the pool has tensor {self.pool.tensor}, data "
                f"{self.pool.data}, pipeline {self.pool.pipeline}: give tensor: 2 or more alone"
            )
        self.works = Works(replace(self.pool, tensor=1), self.use)

    def layer_s(self, tokens: int, context: int) -> float:
        """Seconds of one layer of `tokens` tokens after `context` others on one device."""
        _, k = self.works.lane(1.0)
        attention = k.attention(tokens, context, self.works.window) / self.pool.model.layers
        return (k.layer(tokens) + attention) / SECOND

    def prefill_s(self, cuts: Sequence[int], context: int = 0) -> float:
        """Seconds until the last device is through all layers, if device i has `cuts[i]` tokens.

        A layer of device i begins when its own last layer has ended and when KV of the layer has come from before; KV
        is sent when the layer begins, for projections come first.
        """
        builder, k = self.works.lane(1.0)
        link, kv = builder.link(self.pool.tensor), kv_bytes_per_layer(self.works.pool)
        layers, arrived = self.pool.model.layers, [0.0] * self.pool.model.layers
        starts = list(accumulate(cuts, initial=context))
        end = 0.0
        for tokens, before in zip(cuts, starts, strict=False):
            each, end, free = self.layer_s(tokens, before), 0.0, 0.0
            message = link.latency_s + kv * (before + tokens) / link.bandwidth
            for layer in range(layers):
                begin = max(end, arrived[layer])
                end = begin + each
                free = arrived[layer] = max(begin, free) + message
        return end + (k.step + k.sequence + k.last(1.0)) / SECOND

    def even(self, tokens: int) -> tuple[int, ...]:
        """Cuts of equal length."""
        n = self.pool.tensor
        return tuple(tokens * (at + 1) // n - tokens * at // n for at in range(n))

    def uneven(self, tokens: int, context: int = 0) -> tuple[int, ...]:
        """Cuts that take equally long, the last what is left: the least T such that devices of T seconds a layer
        get through all tokens, by bisection.
        """
        known = self._cuts.get((tokens, context))
        if known is None:
            known = self._cuts[tokens, context] = self._uneven(tokens, context)
        return known

    def best_s(self, tokens: int, context: int = 0) -> float:
        """Seconds of a prompt by the shorter of both ways to cut it."""
        return min(self.prefill_s(cuts, context) for cuts in (self.even(tokens), self.uneven(tokens, context)))

    def _uneven(self, tokens: int, context: int) -> tuple[int, ...]:
        low, high = 0.0, self.layer_s(tokens, context)
        for _ in range(40):
            middle = (low + high) / 2
            if sum(self._within(middle, tokens, context)) < tokens:
                low = middle
            else:
                high = middle
        return tuple(self._within(high, tokens, context))

    def _within(self, limit: float, tokens: int, context: int) -> list[int]:
        """Tokens that each device can pass through a layer within `limit` seconds, until none are left."""
        found: list[int] = []
        for _ in range(self.pool.tensor):
            low, high = 0, tokens - sum(found)
            while low < high:
                middle = (low + high + 1) // 2
                if self.layer_s(middle, context + sum(found)) <= limit:
                    low = middle
                else:
                    high = middle - 1
            found.append(low)
        return found


class Ways(NamedTuple):
    """Seconds of a prompt by a chain with uneven cuts and with even ones, and by tensor parallelism."""

    uneven_s: float
    even_s: float
    tensor_s: float


def ways(pool: Pool, tokens: int) -> Ways:
    """Each way to prefill `tokens` tokens on the devices of a pool."""
    chain = Chain(pool)
    uneven, even = (chain.prefill_s(cuts) for cuts in (chain.uneven(tokens), chain.even(tokens)))
    return Ways(uneven, even, step_s(pool, prompts=1, prompt_tokens=tokens))


@dataclass(frozen=True, slots=True)
class KvRunahead:
    """Prompts of `least_tokens` or more are computed by the chain, one after another, where that is shorter.

    Every device has all weights and its part of the KV: check that they fit, because memory is counted as for the pool.
    """

    takes: ClassVar[tuple[str, ...]] = ("prompts", "layout")
    least_tokens: int = 1024

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with prompts over a chain."""
        return Chained(inner, pool, self)


class Chained(EstimatorWrapper):
    """Steps whose prompts run through a chain, with decodes as they were; the inner steps where those are shorter."""

    def __init__(self, inner: Estimator, pool: Pool, term: KvRunahead) -> None:
        super().__init__(inner)
        self.chain, self.term, self.layers = Chain(pool, efficiencies(inner)), term, pool.model.layers
        self._known: dict[tuple[int, int], int] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        piece = self.inner.step(shape)
        if not shape.chunks or shape.share < 1 or piece.then is not None:
            return piece
        if any(each.tokens < self.term.least_tokens or each.last_layer for each in shape.chunks):
            return piece
        decodes = self.inner.step(shape._replace(chunks=())) if shape.decodes else Piece(0)
        base = decodes.base + sum(self._prompt(each.tokens, each.context) for each in shape.chunks)
        return piece._replace(base=min(piece.base, base))

    def _prompt(self, tokens: int, context: int) -> int:
        known = self._known.get((tokens, context))
        if known is None:
            known = self._known[tokens, context] = round(self.chain.best_s(tokens, context) * SECOND)
        return known

    def describe(self) -> dict[str, object]:
        """The inner one's, and from which length the chain is tried."""
        facts = {"least_tokens": self.term.least_tokens, "devices": self.chain.pool.tensor}
        return {**self.inner.describe(), "kv_runahead": facts}
