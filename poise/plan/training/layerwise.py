"""A plan with a strategy for each layer: Galvatron's programme within every stage of the best uniform layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, Prediction
from poise.cost.training.columns import even_split
from poise.cost.training.layout import check
from poise.cost.training.step import safe_bytes
from poise.plan.training.galvatron import choose
from poise.plan.training.layer_strategies import Strategy, ends, strategies
from poise.plan.training.search import must_fit, search
from poise.plan.training.space import Space, divisors

TRIED = 8
"""Best uniform layouts whose stages are optimised."""


@dataclass(frozen=True, slots=True)
class Layerwise:
    """The strategy of each layer, in order of depth, on the stages and microbatches of `base`; seconds of a step.

    uniform_s: of the best layout that is the same for all layers.  vocab: tensor ranks of embedding and head.
    shared: layers whose tensor ranks share sequences (Ulysses) in place of weights.
    """

    base: Layout
    each: tuple[Layout, ...]
    seconds: float
    uniform_s: float
    vocab: int = 1
    shared: tuple[bool, ...] = ()

    def line(self) -> str:
        """The plan in a sentence."""
        shared = self.shared or (False,) * len(self.each)
        kinds = Counter((one.tensor, sp, one.zero, one.recompute) for one, sp in zip(self.each, shared, strict=True))
        parts = ", ".join(
            f"{n} layers {'sp' if sp else 'tp'} {t} zero {z} recompute {r}" for (t, sp, z, r), n in kinds.items()
        )
        return (
            f"A strategy for each layer (Galvatron), pp {self.base.pipeline}, {parts}, embedding and head tp "
            f"{self.vocab}: {self.seconds:.3f} s a step, "
            f"{1 - self.seconds / self.uniform_s:.1%} less than the best that is the same for all"
        )


def layerwise(job: Job, space: Space) -> Layerwise:
    """The fastest strategies for each layer; those of the best uniform layout where nothing is faster.

    Only what Galvatron's file can state is searched: 1F1B, no context or expert ranks, layers recomputed whole or not.
    """
    whole = tuple(each for each in space.recompute if each in ("none", "full")) or ("none",)
    plain = replace(
        space, context=(1,), expert=(1,), expert_tensor=(1,), chunks=(1,), schedule=("one_f_one_b",), recompute=whole,
        counted=False, offload=False, offload_activations=(0.0,),
    )  # fmt: skip
    found = search(job, plain, count=TRIED)
    must_fit(found)
    best = found.best[0]
    tried = [each for base in found.best if (each := _chosen(job, plain, base, best.seconds)) is not None]
    uniform = Layerwise(best.layout, _uniform(job, best.layout), best.seconds, best.seconds, best.layout.tensor)
    return min([uniform, *tried], key=lambda each: each.seconds)


def _uniform(job: Job, layout: Layout) -> tuple[Layout, ...]:
    """The strategy of each layer under a layout that recomputes the first layers of each stage."""
    some = layout.recompute_layers
    whole, plain = replace(layout, recompute_layers=None), replace(layout, recompute="none", recompute_layers=None)
    split = layout.split or even_split(job.model.layers, layout.pipeline)
    return tuple(whole if some is None or at < some else plain for count in split for at in range(count))


def _chosen(job: Job, space: Space, base: Prediction, uniform_s: float) -> Layerwise | None:
    """Strategies by stage in the place of the base's, with the best tensor degree of embedding and head."""
    options = _options(job, space, base.layout)
    degrees = {base.layout.tensor: base.layout}
    for each in options:
        same = replace(each.layout, recompute=base.layout.recompute, zero=base.layout.zero)
        degrees.setdefault(each.layout.tensor, same)
    found = [_staged(job, base, options, uniform_s, vocab) for vocab in degrees.values()]
    return min((each for each in found if each is not None), key=lambda each: each.seconds, default=None)


def _staged(
    job: Job, base: Prediction, options: Sequence[Strategy], uniform_s: float, vocab: Layout
) -> Layerwise | None:
    """Strategies by stage, in the memory of the base's layers, of its embedding and head, and what is free."""
    ranks = base.layout.pipeline
    count, split = base.layout.microbatches(job), even_split(job.model.layers, ranks)
    before = _uniform(job, base.layout)
    begins = np.cumsum([0, *split])
    found: list[Strategy] = []
    slowest = [0.0, 0.0]
    room = 0.0
    for stage, layers in enumerate(split):
        time, held, reshard = strategies(job, options, alive=min(count, ranks - stage))
        own = [options.index(Strategy(each)) for each in before[begins[stage] : begins[stage + 1]]]
        if not stage:  # the fullest, whose layers' part of the peak is theirs to use again
            room = safe_bytes(job) - base.memory + float(held[0, own].sum())
        flags = {"first": stage == 0, "last": stage == ranks - 1}
        top, usual = ends(job, vocab, **flags), ends(job, base.layout, **flags)
        try:
            choice = choose(time[:layers], held[:layers], reshard, room + usual[1] - top[1])
        except ScenarioError:  # rounded to units of memory even the base's own may not fit
            return None
        found += [options[each] for each in choice.strategies]
        now, then = choice.seconds + top[0], float(time[0, own].sum()) + usual[0]
        slowest = [max(slowest[0], now), max(slowest[1], then)]
    seconds = base.seconds + (slowest[0] - slowest[1]) * (count + ranks - 1) / count
    each, shared = tuple(one.layout for one in found), tuple(one.shared for one in found)
    return Layerwise(base.layout, each, seconds, uniform_s, vocab.tensor, shared)


def _options(job: Job, space: Space, base: Layout) -> Sequence[Strategy]:
    """Strategies on the base's stages and microbatches: its own, every tensor degree, of weights or of sequences,
    sharding and recomputation."""
    own = dict.fromkeys(map(Strategy, _uniform(job, base)))
    each_batch = job.batch // base.microbatches(job)
    for tensor in space.tensor or divisors(job.inside):
        data, rest = divmod(job.devices, base.pipeline * tensor)
        if rest or not data or each_batch % data:
            continue
        for zero in {base.zero, 3} if base.pipeline == 1 and 3 in space.zero else {base.zero}:
            for recompute in space.recompute:
                layout = replace(
                    base, tensor=tensor, data=data, micro_batch=each_batch // data, zero=zero, recompute_layers=None,
                    recompute=recompute, split=(),  # type: ignore[arg-type]
                )  # fmt: skip
                try:
                    check(job, layout)
                except ScenarioError:
                    continue
                own[Strategy(layout)] = None
                if tensor > 1 and job.model.kv_heads % tensor == 0 and job.sequence % tensor == 0:
                    own[Strategy(layout, shared=True)] = None
    return list(own)
