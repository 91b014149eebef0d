"""The demand of a step on each resource of a device: arithmetic, memory and links, as the roofline counts them.

The parts that the roofline adds up one operator after the other (`Steps`), by the resource instead of the operator. So
no step can be shorter than the largest of the three, however its operators overlap.
"""

from __future__ import annotations

from typing import NamedTuple

from poise.core.estimate import Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.coefficients import Builder, Coefficients
from poise.cost.efficiency import Efficiencies
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.layout import check
from poise.cost.lines import Line
from poise.cost.spans import decode_s, reach


class Work(NamedTuple):
    """Picoseconds of one rank.  series: of all operators after one another, each by its own largest resource."""

    arithmetic: Line
    memory: Line
    network: Line
    series: Line

    def bound(self, kv: float) -> float:
        """The least that a step takes whose decodes read `kv` tokens."""
        return max(line.at(kv) for line in self[:3])


class Tokens(NamedTuple):
    """Of one rank's microbatch: decodes, new prompt tokens, sequences that pass the output head."""

    decodes: float
    new: float
    sampled: float

    @property
    def all(self) -> float:
        """Tokens that pass a layer."""
        return self.decodes + self.new


class Slopes(NamedTuple):
    """Picoseconds of a lane that no step changes.

    light: a token's elementwise kernels in a layer.  sent_fixed, sent: of a layer's exchange and hops, fixed and by the
    token.  flops, read: a decode's token of KV over all full layers.
    """

    light: float
    sent_fixed: float
    sent: float
    flops: float
    read: float


def efficiencies(estimator: Estimator) -> Efficiencies:
    """Those that an estimator, or the one that terms are around, counts with; the defaults where it has none."""
    while isinstance(estimator, EstimatorWrapper):
        estimator = estimator.inner
    found = getattr(estimator, "use", None)
    return found if isinstance(found, Efficiencies) else Efficiencies()


class Works:
    """The work of a pool's steps. Ranks are equally loaded; kernels' fixed times and the host are no part of it."""

    def __init__(self, pool: Pool, use: Efficiencies | None = None) -> None:
        check(pool)
        self.pool, self.use = pool, use or Efficiencies()
        self.part = 1 / (pool.data * pool.pipeline)
        self.window = reach(pool.model)
        self._lanes: dict[float, tuple[Builder, Coefficients]] = {}
        self._slopes: dict[float, Slopes] = {}

    def lane(self, share: float) -> tuple[Builder, Coefficients]:
        """The coefficients of a lane, made once for each share."""
        found = self._lanes.get(share)
        if found is None:
            builder = Builder(self.pool, self.use, share)
            found = self._lanes[share] = builder, builder.build()
        return found

    def tokens(self, shape: StepShape) -> Tokens:
        """What a rank has of a step; a chunk that passes some layers counts by their share."""
        layers = self.pool.model.layers
        new = sum(each.tokens * ((each.last_layer or layers) - each.first_layer) / layers for each in shape.chunks)
        decodes = max(1.0, shape.decodes * self.part) if shape.decodes else 0.0
        return Tokens(decodes, new * self.part, decodes + len(shape.chunks) * self.part)

    def of(self, shape: StepShape, parts: int = 1) -> Work:
        """The work of a step cut into equal parts: each of them reads the weights and reduces by itself."""
        _, k = self.lane(shape.share)
        slopes = self.slopes(shape.share)
        tokens, layers = self.tokens(shape), self.pool.model.layers
        dense = k.token * tokens.all, k.weights * parts
        read, computed = k.experts(tokens.all / parts) if k.expert_weights else (0.0, 0.0)
        experts = computed * parts, read * parts
        light = slopes.light * tokens.all
        sent = self.reduced(shape.share, tokens.all, parts)
        sent += slopes.sent_fixed * parts + slopes.sent * tokens.all if tokens.all else 0.0
        head = k.head_token * tokens.sampled, k.head_weights
        rank = tokens.decodes / shape.decodes if shape.decodes else 0.0
        prompts, decode = self.prompts(shape), (slopes.flops * rank, slopes.read * rank)
        pairs = [dense, experts]
        return Work(
            Line(layers * sum(each[0] for each in pairs) + head[0] + prompts[0], decode[0]),
            Line(layers * (sum(each[1] for each in pairs) + light) + head[1] + prompts[1], decode[1]),
            Line(layers * sent),
            Line(layers * (sum(map(max, pairs)) + light + sent) + max(head) + max(prompts), max(decode)),
        )

    def reduced(self, share: float, tokens: float, parts: int = 1) -> float:
        """Picoseconds of a layer's all-reduces over the tensor group, in `parts` parts."""
        _, k = self.lane(share)
        if not k.reduce or not tokens:
            return 0.0
        fixed, slope, other, rise = k.reduce
        return parts * min(fixed + slope * tokens / parts, other + rise * tokens / parts)

    def prompts(self, shape: StepShape) -> tuple[float, float]:
        """Arithmetic and reading of prompts' attention, of full layers; those with a window are left out."""
        _, k = self.lane(shape.share)
        if not shape.chunks:
            return 0.0, 0.0
        pairs = sum(each.tokens * each.context + each.tokens * (each.tokens + 1) / 2 for each in shape.chunks)
        read = sum(each.context + each.tokens for each in shape.chunks)
        layers = self.pool.model.layers
        whole = sum((each.last_layer or layers) - each.first_layer for each in shape.chunks)
        passed = whole / (layers * len(shape.chunks))
        return k.pair * pairs * self.part * passed, k.read * read * self.part * passed

    def slopes(self, share: float) -> Slopes:
        """The slopes of a lane."""
        return self._slopes.get(share) or self._sloped(share)

    def _sloped(self, share: float) -> Slopes:
        """The slopes of a lane, made once."""
        builder, _ = self.lane(share)
        each = [
            (span.count, decode_s(self.pool, self.use, builder.lane, span)) for span in builder.spans if not span.bound
        ]
        flops, read = (sum([count * seconds[at] for count, seconds in each]) for at in (0, 1))
        lines = builder.exchange(), builder.hop()
        found = self._slopes[share] = Slopes(
            builder.elementwise() * SECOND,
            sum(line.fixed_s for line in lines) * SECOND,
            sum(line.per_byte_s for line in lines) * SECOND,
            flops * SECOND,
            read * SECOND,
        )
        return found
