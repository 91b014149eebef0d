"""Nano-batches of a step side by side, each kind of operator with its part of the SMs, and the search for a plan.

Zhu et al. (arXiv 2408.12757, OSDI 2025), section 4: a step is cut into nano-batches that pass the layers one behind the
other, so that products of one run beside attention of decodes and beside messages of another. Here a layer of a
nano-batch is a chain of operators, of which one of each kind runs at a time. What a part of the SMs reaches, and how
operators that share the bandwidth slow one another, is that of `poise.cost.sm_share`. Messages reach of their link what
memory operators reach of the bandwidth with as many SMs, for want of a measured curve of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import NamedTuple

from poise.core.estimate import StepShape
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import TOKEN_PARTS
from poise.cost.sm_share import Use, reached, slowed
from poise.cost.work import Works

ARITHMETIC, MEMORY, LINKS = range(3)
"""Kinds of operators by what binds them."""
NAMES = ("arithmetic", "memory", "links")
LAYERS = (2, 6)
"""The time of a layer is taken between the ends of these, when all nano-batches have passed them."""

Shares = Mapping[tuple[int, ...], tuple[float, ...]]
"""The parts of the SMs of kinds that run side by side."""


class Operator(NamedTuple):
    """kind: what binds it.  arithmetic, memory, links: picoseconds of each on a device of its own."""

    kind: int
    arithmetic: float
    memory: float
    links: float = 0.0

    def time(self, share: float, use: Efficiencies) -> float:
        """Picoseconds with a part of the SMs, alone."""
        band = reached(share, use.share_bandwidth)
        return max(self.arithmetic / reached(share, use.share_arithmetic), self.memory / band, self.links / band)


class Plan(NamedTuple):
    """parts: the share of a step's tokens that each nano-batch has.  shares: as `Shares`."""

    parts: tuple[float, ...]
    shares: Shares


def layer(works: Works, shape: StepShape, kv: float, part: float) -> list[Operator]:
    """An average layer of a nano-batch with `part` of the tokens and of the KV that decodes read; zeros left out."""
    builder, k = works.lane(1.0)
    slopes, layers = works.slopes(1.0), works.pool.model.layers
    tokens = works.tokens(shape)
    mine, rank = tokens.all * part, tokens.decodes / shape.decodes if shape.decodes else 0.0
    prompts = [each * part / layers for each in works.prompts(shape)]
    read, computed = k.experts(mine) if k.expert_weights else (0.0, 0.0)
    weights = [builder.part.of(each) for each in TOKEN_PARTS]
    first, second = (each / (sum(weights) or 1.0) for each in weights[:2])
    rest = 1 - first - second
    sent = (works.reduced(1.0, mine) + slopes.sent_fixed + slopes.sent * mine) / 2 if mine else 0.0
    light = slopes.light * mine
    spread = builder.pool.device.scaleup_bw * 2 / builder.pool.device.memory_bw
    message = Operator(LINKS, 0.0, sent * min(spread, 1.0), sent)
    some = [
        Operator(ARITHMETIC, k.token * mine * first, k.weights * first),
        Operator(ARITHMETIC, *prompts),
        Operator(MEMORY, slopes.flops * rank * kv * part / layers, slopes.read * rank * kv * part / layers + light / 2),
        Operator(ARITHMETIC, k.token * mine * second, k.weights * second),
        message,
        Operator(ARITHMETIC, k.token * mine * rest + computed, k.weights * rest + read),
        Operator(MEMORY, 0.0, light / 2),
        message,
    ]
    return [each for each in some if max(each[1:]) > 0]


@dataclass(slots=True)
class Play:
    """Chains of operators, one for each nano-batch, played through some layers."""

    chains: Sequence[Sequence[Operator]]
    shares: Shares
    use: Efficiencies
    _times: dict[tuple[tuple[int, int], ...], list[float]] = field(default_factory=dict, init=False, repr=False)

    def layer(self) -> float:
        """Picoseconds of a layer. Of one kind, what has begun goes on, then the nano-batch that waits longest."""
        many = range(len(self.chains))
        lengths = [len(chain) for chain in self.chains]
        at, left, layers = [0] * len(many), [1.0] * len(many), [0] * len(many)
        order, now, begun = list(many), 0.0, 0.0
        while min(layers) < LAYERS[1]:
            running: list[int] = [-1, -1, -1]
            for chain in order:
                kind = self.chains[chain][at[chain]].kind
                if running[kind] < 0 or (left[chain] < 1.0 and left[running[kind]] == 1.0):
                    running[kind] = chain
            some = [chain for chain in running if chain >= 0]
            times = self._of(tuple([(chain, at[chain]) for chain in some]))
            span = min([left[chain] * time for chain, time in zip(some, times, strict=True)])
            now += span
            for chain, time in zip(some, times, strict=True):
                left[chain] -= span / time
                if left[chain] <= 1e-9:
                    left[chain], at[chain] = 1.0, at[chain] + 1
                    order.remove(chain)
                    order.append(chain)
                    if at[chain] == lengths[chain]:
                        at[chain], layers[chain] = 0, layers[chain] + 1
                        begun = now if layers[chain] == min(layers) == LAYERS[0] else begun
        return (now - begun) / (LAYERS[1] - LAYERS[0])

    def _of(self, some: tuple[tuple[int, int], ...]) -> list[float]:
        """Picoseconds of operators that run side by side, were they to do so throughout."""
        known = self._times.get(some)
        if known is None:
            each = [self.chains[chain][at] for chain, at in some]
            shares = self.shares.get(tuple(one.kind for one in each), (1.0,))
            alone = [one.time(share, self.use) for one, share in zip(each, shares, strict=True)]
            uses = [
                Use(min(one.arithmetic / t, 1.0), min(one.memory / t, 1.0)) for one, t in zip(each, alone, strict=True)
            ]
            factors = slowed(uses, self.use.share_friction) if len(each) > 1 else [1.0]
            known = self._times[some] = [t * factor for t, factor in zip(alone, factors, strict=True)]
        return known


def played(works: Works, plan: Plan, shape: StepShape, kv: float) -> float:
    """Picoseconds of a step's layers under a plan, and of one more in which nano-batches begin and end."""
    chains = [layer(works, shape, kv, part) for part in plan.parts]
    return Play(chains, plan.shares, works.use).layer() * (works.pool.model.layers + 1) if all(chains) else 0.0


def search(works: Works, shape: StepShape, kv: float, nano: Sequence[int] = (2, 3, 4)) -> Plan:
    """The plan of the shortest step: numbers and sizes of nano-batches, then the shares of one set after another."""
    kinds = [(ARITHMETIC, MEMORY), (ARITHMETIC, LINKS), (MEMORY, LINKS), (ARITHMETIC, MEMORY, LINKS)]
    best, least = Plan((1.0,), {}), inf
    for parts in _parts(nano):
        plan = Plan(parts, {each: tuple(1 / len(each) for each_ in each) for each in kinds})
        time = played(works, plan, shape, kv)
        for each in kinds:
            for shares in _shares(len(each)):
                tried = Plan(parts, {**plan.shares, each: shares})
                taken = played(works, tried, shape, kv)
                if taken < time:
                    plan, time = tried, taken
        if time < least:
            best, least = plan, time
    return best


def _parts(nano: Sequence[int]) -> Iterator[tuple[float, ...]]:
    for many in nano:
        yield (1 / many,) * many
    if 2 in nano:
        yield from ((0.4, 0.6), (0.3, 0.7))


def _shares(many: int) -> Iterator[tuple[float, ...]]:
    """All ways to hand out the SMs in tenths."""
    for some in product(range(1, 10), repeat=many - 1):
        if sum(some) < 10:
            yield (1 - sum(some) / 10, *(each / 10 for each in some))
