"""Hybrid partition: stages of a pipeline with tensor groups of their own sizes.

Inferflow (github.com/inferflow/inferflow). How many layers each stage has is in closed form in
`poise.cost.hybrid_partition`, which also has unequal devices; those of a pool are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.layer import resized
from poise.core.model import Model
from poise.core.spec import Pool
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.hybrid_partition import Hybrid
from poise.cost.lines import EVER, Line, pieces
from poise.cost.memory import kv_blocks

Build = Callable[[Pool], Estimator]
Sum = Sequence[tuple[float, Piece]]
"""Pieces, each as many times over."""


@dataclass(frozen=True, slots=True)
class HybridPartition:
    """tensors: devices of each stage, as in 4-2-1-1, all those of the pool; empty: the pool's own stages as they are.

    Layers are dealt such that a decode's slowest stage is as short as can be. Of the pool's `tensor` and `pipeline`
    their product counts.
    """

    takes: ClassVar[tuple[str, ...]] = ("layout", "KV")
    tensors: str = ""

    def __post_init__(self) -> None:
        if self.tensors and not all(each.isdecimal() and int(each) for each in self.tensors.split("-")):
            raise ScenarioError(f"tensors {self.tensors!r} names no stages; give the devices of each, as in 4-2-1-1")

    def over(self, build: Build, pool: Pool) -> Estimator:
        """The estimator of `pool` with these stages; ScenarioError for a pool that cannot have them."""
        if not self.tensors:
            return build(pool)
        sizes, layers = self._sizes(pool), self.layers(pool)
        groups = {size: build(_even(pool, size, len(sizes))) for size in sizes}
        parts = [some / pool.model.layers for some in layers]
        return Staged(build(pool), self.tensors, layers, list(zip(parts, map(groups.__getitem__, sizes), strict=True)))

    def held(self, pool: Pool) -> Pool:
        """The pool with the KV blocks of its fullest stage; each is taken to have both embedding and head."""
        if not self.tensors:
            return pool
        stages = [
            replace(pool, model=_cut(pool.model, some), tensor=size, pipeline=1)
            for some, size in zip(self.layers(pool), self._sizes(pool), strict=True)
        ]
        return replace(pool, engine=replace(pool.engine, kv_blocks=min(map(kv_blocks, stages))))

    def layers(self, pool: Pool) -> list[int]:
        """Layers of each stage; CapacityError where they do not fit."""
        sizes = self._sizes(pool)
        found = Hybrid(replace(pool, tensor=1, pipeline=1), (pool.device,) * pool.devices).sized(sizes)
        return [stage.layers for stage in found.stages]

    def _sizes(self, pool: Pool) -> list[int]:
        sizes = [int(each) for each in self.tensors.split("-")]
        if pool.data > 1 or pool.expert > 1:
            raise ScenarioError(
                f"tensors {self.tensors} are stages of one pipeline; the pool has data {pool.data}, expert "
                f"{pool.expert}: give 1 of each"
            )
        if sum(sizes) != pool.devices or len(sizes) > pool.model.layers:
            raise ScenarioError(
                f"tensors {self.tensors} have {sum(sizes)} devices in {len(sizes)} stages; a replica has "
                f"{pool.devices} (tensor × pipeline) and {pool.model.layers} layers: give stages that fit both"
            )
        return sizes


class Staged(EstimatorWrapper):
    """Steps of uneven stages: each stage does its part of what all stages would do if their groups were as its own.

    As even pipelines are counted (`Steps`), a step is a microbatch's way through all stages. Uneven ones may take
    longer: until the slowest has passed all microbatches, of which no more have chunks than there are chunks. Host time
    and head are spread over the layers.
    """

    def __init__(
        self, inner: Estimator, name: str, layers: Sequence[int], stages: Sequence[tuple[float, Estimator]]
    ) -> None:
        super().__init__(inner)
        self.name, self.layers, self.stages = name, layers, stages
        self._known: dict[StepShape, Piece] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        if not shape.decodes and not shape.chunks:
            return self.inner.step(shape)
        if shape.chunks:
            return _largest(self._sums(shape))
        found = self._known.get(shape)
        if found is None:
            found = self._known[shape] = _largest(self._sums(shape))
        return found

    def _sums(self, shape: StepShape) -> list[Sum]:
        """A microbatch's way through all stages, and each stage's time with all microbatches."""
        own = [(part, group.step(shape)) for part, group in self.stages]
        sequences, most = shape.decodes + len(shape.chunks), len(self.stages)
        if not shape.chunks or not shape.decodes:
            return [own, *([(part * min(most, sequences), piece)] for part, piece in own)]
        calm = shape._replace(chunks=())
        full = min(most, len(shape.chunks))
        left = min(most, sequences) - full
        stages = zip(own, self.stages, strict=True)
        return [own, *([(full * part, piece), (left * part, group.step(calm))] for (part, piece), (_, group) in stages)]

    def describe(self) -> dict[str, object]:
        """The inner one's, and what each stage has."""
        facts = {"tensors": self.name, "layers": list(self.layers)}
        return {**self.inner.describe(), "hybrid_partition": facts}


def _even(pool: Pool, size: int, stages: int) -> Pool:
    """A pool whose stages all have `size` devices, with hops as near as in the pool itself."""
    device, domain = pool.device, pool.device.scaleup_domain
    if pool.devices <= domain < size * stages:
        device = replace(device, scaleup_domain=size * stages)
    return replace(pool, device=device, tensor=size, pipeline=stages)


def _cut(model: Model, layers: int) -> Model:
    """A model of `layers` layers, with the same mix of kinds; odd ones keep all tokens, or have experts."""
    part = layers / model.layers
    moe = model.moe and replace(model.moe, layers=min(layers, ceil(model.moe.layers * part)))
    return replace(
        model,
        name=f"{layers} layers of {model.name}",
        layers=layers,
        window_layers=int(model.window_layers * part),
        linear_layers=int(model.linear_layers * part),
        moe=moe,
        extra_parameters=ceil(model.extra_parameters * part),
        stack=resized(model.stack, layers),
    )


def _largest(sums: Sequence[Sum]) -> Piece:
    """The largest of several sums of pieces, at each number of KV tokens."""
    until = min(piece.until_kv for each in sums for _, piece in each)
    lines = [Line(sum(n * one.base for n, one in each), sum(n * one.per_kv for n, one in each)) for each in sums]
    found = pieces(lines, max, max(round(sum(n * one.per_window for n, one in each)) for each in sums))
    if until >= EVER:
        return found
    return _until(found, until, _largest([[(n, one.at(until + 1)) for n, one in each] for each in sums]))


def _until(piece: Piece, until: int, then: Piece) -> Piece:
    """A piece up to a number of KV tokens, and another beyond them."""
    if piece.then is None or piece.until_kv >= until:
        return piece._replace(until_kv=until, then=then.at(until + 1))
    return piece._replace(then=_until(piece.then, until, then))
