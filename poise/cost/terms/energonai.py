"""EnergonAI: no padding within a batch, stages that hand over without waiting, and weights that lie on a peer device.

Du et al. (arXiv 2209.02341). The engines that are simulated pad nothing and wait for nothing, so this term says what
they would cost if they did: the engine that EnergonAI was compared with. Weights in another device's memory are fetched
while earlier layers compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper, longer
from poise.cost.layout import shard
from poise.cost.lines import Line, pieces
from poise.cost.memory import footprint, kv_blocks
from poise.cost.work import Works, efficiencies


@dataclass(frozen=True, slots=True)
class EnergonAI:
    """padding: every prompt of a step costs what its longest does.  blocking: a stage sends before it continues, so
    that neither side computes meanwhile.  pooled: the part of each device's layers that lies in a peer's memory, in
    [0, 1), which leaves the device as much for KV.  host: in the host's memory instead.
    Without all of them, costs are those of the inner estimator.
    """

    padding: bool = False
    blocking: bool = False
    pooled: float = 0.0
    host: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.pooled < 1:
            raise ScenarioError(f"pooled {self.pooled} is no part of a device's layers; give 0 up to 1, without 1")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with what EnergonAI takes away or fetches; ScenarioError where no link to the host is known."""
        return Waiting(inner, pool, self) if self.padding or self.blocking or self.pooled else inner

    def fetched(self, pool: Pool) -> float:
        """Bytes of a device's weights that lie elsewhere."""
        part, store = shard(pool), pool.precision
        layer = part.stored(store) + part.experts * store.experts.bits / 8
        return self.pooled * layer * pool.model.layers / pool.pipeline

    def held(self, pool: Pool) -> Pool:
        """The pool with KV blocks in the room that pooled weights leave; CapacityError where there is none."""
        if not self.pooled:
            return pool
        more = self.fetched(pool)
        if pool.engine.kv_blocks:
            blocks = pool.engine.kv_blocks + int(more / footprint(pool).block)
        else:
            memory = pool.device.memory_bytes + int(more / pool.engine.memory_fraction)
            blocks = kv_blocks(replace(pool, device=replace(pool.device, memory_bytes=memory)))
        return replace(pool, engine=replace(pool.engine, kv_blocks=blocks))


class Waiting(EstimatorWrapper):
    """Steps of padded prompts, of stages that wait for their sends, or of weights that are fetched.

    A microbatch's way has a hop a stage, which the inner estimator counts. A blocking sender is kept from its next
    microbatch by as much again. Fetching takes a device's link as long as its bytes do, and shows where that is longer
    than its step.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: EnergonAI) -> None:
        super().__init__(inner)
        self.works, self.term, self.layers = Works(pool, efficiencies(inner)), term, pool.model.layers
        self.fetch = self._fetch(pool) if term.pooled else 0.0

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        if self.term.padding and shape.chunks:
            shape = shape._replace(chunks=padded(shape.chunks))
        piece = self.inner.step(shape)
        if self.term.blocking:
            piece = longer(piece, self._sends(shape))
        return self._fetched(piece) if self.fetch else piece

    def _fetched(self, piece: Piece) -> Piece:
        """A piece no shorter than its fetching; of one in several parts each part without its KV."""
        if piece.then is None:
            return pieces([Line(*piece[:2]), Line(self.fetch)], max, piece.per_window)
        return piece._replace(base=max(piece.base, round(self.fetch)), then=self._fetched(piece.then))

    def _sends(self, shape: StepShape) -> float:
        tokens = self.works.tokens(shape).all
        return send_s(self.works, shape.share, tokens) * self.works.pool.pipeline * SECOND if tokens else 0.0

    def _fetch(self, pool: Pool) -> float:
        builder, _ = self.works.lane(1.0)
        if self.term.host and not pool.device.host_bw:
            raise ScenarioError(f"pool.device {pool.device.name} states no link to its host; give host_gb_s")
        bandwidth = pool.device.host_bw * self.works.use.host_link if self.term.host else builder.link(2).bandwidth
        return self.term.fetched(pool) / bandwidth * SECOND

    def describe(self) -> dict[str, object]:
        """The inner one's, and what is waited for."""
        facts: dict[str, object] = {"padding": self.term.padding, "blocking": self.term.blocking}
        if self.term.pooled:
            facts |= {"pooled": self.term.pooled, "host": self.term.host}
        return {**self.inner.describe(), "energonai": facts}


def send_s(works: Works, share: float, tokens: float) -> float:
    """Seconds of one send of a rank's `tokens` from one stage to the next."""
    line = works.lane(share)[0].hop()
    return works.pool.model.layers / works.pool.pipeline * (line.fixed_s + line.per_byte_s * tokens)


def padded(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    """Chunks as long as the longest of them."""
    longest = max(each.tokens for each in chunks)
    return tuple(each._replace(tokens=longest) for each in chunks)


def flow_s(steps: Sequence[float], sends: Sequence[float], stages: int, *, blocking: bool) -> float:
    """Seconds until the last batch has left a pipeline of equal stages.

    steps: what a batch takes each stage.  sends: what handing it over takes.
    blocking: both sides stand still for a send, and it begins when the next stage has handed on what it had; else a
    stage goes on at once and its batch arrives later.
    """
    free = [0.0] * stages
    for step, send in zip(steps, sends, strict=True):
        ready = free[0]
        for stage in range(stages):
            ready = max(ready, free[stage]) + step
            if stage + 1 == stages or not blocking:
                free[stage] = ready
                ready += send
            else:
                ready = free[stage] = max(ready, free[stage + 1]) + send
    return free[-1]
