"""MoE-Gen: weights and KV of a mixture of experts lie on the host, and each module runs on all tokens of a step.

MoE-Gen (arXiv 2503.09716). A step takes the longest path through the tasks of its layers (`poise.cost.moe_gen`):
fetches run ahead over the link, the CPU attends to a part of the KV, the device does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper, scaled
from poise.cost.lines import EVER, Line, pieces
from poise.cost.moe_gen import Host, Offloaded

_HOST = Host()


@dataclass(frozen=True, slots=True)
class MoeGen:
    """on_cpu: ω, the part of decodes' attention that the CPU does; None: at each step the part that is shortest.

    kept: the part of all experts' weights that stays on the device; None: what fits half of it.  host_gb: memory of the
    host, which weights and KV share.  cpu_gb_s: at which its CPU reads KV.  flops_part, bandwidth_part: the parts of
    the device's peaks that are reached.
    whole: instead, what MoE-Gen is compared with: the whole model on each batch, whose KV stays on the device, with all
    experts fetched and layers one after another.

    The batch is the batcher's: give engine.max_sequences and token_budget as many as a plan has. Steps are those of a
    run under way: the fetch of an idle device's first layer is left out, at most one layer of all. What sliding windows
    read is fetched after everything else. A lane has its share of the link and the CPU, too. Nothing is taken from the
    cost that it is around but bytes of KV.
    """

    hides: ClassVar[tuple[str, ...]] = ("arithmetic", "links", "memory")
    takes: ClassVar[tuple[str, ...]] = ("layout", "KV")
    first: ClassVar[bool] = True
    on_cpu: float | None = None
    kept: float | None = None
    host_gb: float = _HOST.memory / 1e9
    cpu_gb_s: float = _HOST.cpu_bw / 1e9
    flops_part: float = _HOST.flops_part
    bandwidth_part: float = _HOST.bandwidth_part
    whole: bool = False

    def __post_init__(self) -> None:
        for name in ("on_cpu", "kept"):
            part = getattr(self, name)
            if part is not None and not 0 <= part <= 1:
                raise ScenarioError(f"{name} {part} is no part of a whole; give 0 up to 1, or leave it out")
        for name in ("flops_part", "bandwidth_part"):
            if not 0 < getattr(self, name) <= 1:
                raise ScenarioError(f"{name} {getattr(self, name)} is no part of a peak; give above 0 up to 1")
        for name in ("host_gb", "cpu_gb_s"):
            if getattr(self, name) <= 0:
                raise ScenarioError(f"{name} {getattr(self, name)}; give more than 0")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with weights and KV fetched from the host."""
        return Fetched(inner, pool, self)

    def held(self, pool: Pool) -> Pool:
        """The pool with KV blocks from host memory less weights; if `whole`, next to one layer's on the device."""
        engine, offloaded = pool.engine, self.offloaded(pool)
        tokens = offloaded.device_tokens() if self.whole else offloaded.host_tokens(engine.max_sequences)
        if tokens < engine.block_tokens:
            needed = pool.weight_bytes / 1e9
            raise CapacityError(
                f"moe_gen.host_gb {self.host_gb:g}: {needed:.0f} GB of weights and the states of "
                f"{engine.max_sequences} requests leave no KV block; give more, or narrower weights"
            )
        return replace(pool, engine=replace(engine, kv_blocks=int(tokens / engine.block_tokens)))

    def offloaded(self, pool: Pool) -> Offloaded:
        """The pool's model on its device; ScenarioError for more than one."""
        if pool.devices > 1:
            raise ScenarioError(
                f"moe_gen offloads to the host of one device; the pool has tensor {pool.tensor}, pipeline "
                f"{pool.pipeline}, data {pool.data}: give 1 of each, and replicas"
            )
        host = Host(self.host_gb * 1e9, self.cpu_gb_s * 1e9, self.flops_part, self.bandwidth_part)
        return Offloaded(pool.model, pool.device, host, pool.precision.experts.bits, BITS[pool.kv])


class Fetched(EstimatorWrapper):
    """Steps of a model whose weights come over the link."""

    def __init__(self, inner: Estimator, pool: Pool, term: MoeGen) -> None:
        super().__init__(inner)
        self.offloaded, self.term, self.layers = term.offloaded(pool), term, pool.model.layers
        self.kept = self.offloaded.keepable() if term.kept is None else term.kept
        self._known: dict[int, Piece] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: the largest of its lines, over stretches of layers that the same prompts pass."""
        if shape.chunks:
            piece = self._stretches(shape.decodes, shape.chunks)
        elif shape.decodes:
            known = self._known.get(shape.decodes)
            piece = known or self._known.setdefault(shape.decodes, self._passed(shape.decodes, (), self.layers))
        else:
            return self.inner.step(shape)
        return piece if shape.share == 1 else scaled(piece, 1 / shape.share)

    def _stretches(self, decodes: int, chunks: tuple[Chunk, ...]) -> Piece:
        edges = {0, self.layers, *(at for each in chunks for at in each[2:])}
        found = None
        for low, high in pairwise(sorted(edges)):
            passing = [each for each in chunks if each.first_layer <= low < (each.last_layer or self.layers)]
            if decodes or passing:
                piece = self._passed(decodes, passing, high - low)
                found = piece if found is None else _added(found, piece)
        return found or Piece(1)

    def _passed(self, decodes: int, chunks: Sequence[Chunk], layers: int) -> Piece:
        layer, times = self.offloaded.layer(decodes, chunks, 0.0 if self.term.whole else self.kept), layers * SECOND
        lines = layer.alone() if self.term.whole else layer.lines(self.term.on_cpu)
        bandwidth = self.offloaded.memory_bw if self.term.whole else self.offloaded.device.host_bw
        window = round(self.offloaded.window_bytes / bandwidth * times) if decodes else 0
        return pieces([Line(line.base * times, line.per_kv * times) for line in lines], max, window)

    def describe(self) -> dict[str, object]:
        """The inner one's, and where weights and attention are."""
        on_cpu = "shortest" if self.term.on_cpu is None else self.term.on_cpu
        facts = {"on_cpu": on_cpu, "kept": self.kept, "host_gb": self.term.host_gb, "whole": self.term.whole}
        return {**self.inner.describe(), "moe_gen": facts}


def _added(one: Piece, two: Piece) -> Piece:
    """The sum of two pieces, each going on behind the sooner end."""
    until = min(one.until_kv, two.until_kv)
    then = None if until >= EVER else _added(one.at(until + 1), two.at(until + 1))
    base, per_kv, per_window = (a + b for a, b in zip(one[:3], two[:3], strict=True))
    return Piece(base, per_kv, per_window, until, then)
