"""Expert-as-a-Service: some devices of a replica attend, the others serve experts, of which each has several copies.

Expert-as-a-Service (arXiv 2509.17863). A step is the clients' part (attention, dense blocks, shared experts, the output
head), the servers' part (routed experts) and the hops between, layer by layer. Cut into batches that take turns, both
sides compute at once; a step that would be longer that way is left whole.

One copy of each expert is used at a time, so that all servers share the work evenly and copies cost memory alone. When
a server is lost, those that have its copies take its part over: while `lost` are away, none more than copies − 1,
experts and hops take servers/(servers − lost) times as long, and no step takes longer than that. So a step with less
of them is slowed too much, which is on the safe side. A lost device is counted as a server: that of a client takes the
KV of its requests along, and is the fault `lost` of the replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost.efficiency import Efficiencies
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.expert_parts import Clients, Share, alone, share
from poise.cost.lines import Line, pieces
from poise.cost.memory import footprint, kv_blocks
from poise.cost.step import RooflineEstimator
from poise.cost.work import efficiencies


@dataclass(frozen=True, slots=True)
class ExpertAsAService:
    """servers: devices of a replica that serve experts (0: half of them); the others are clients, each a data rank.

    copies: servers that hold each expert.  batches: that a step is cut into to take turns; 1: none does.
    """

    hides: ClassVar[tuple[str, ...]] = ("arithmetic", "links", "memory")
    takes: ClassVar[tuple[str, ...]] = ("layout", "KV")
    servers: int = 0
    copies: int = 2
    batches: int = 2

    def __post_init__(self) -> None:
        if self.servers < 0:
            raise ScenarioError(f"servers {self.servers} is below 0; give how many devices of a replica serve experts")
        if self.copies < 1:
            raise ScenarioError(f"copies {self.copies}: nobody holds an expert; give 1 or more")
        if self.batches < 1:
            raise ScenarioError(f"batches {self.batches} is no number of parts; give 1 or more")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with experts on servers of their own."""
        return Served(inner, pool, self)

    def held(self, pool: Pool) -> Pool:
        """The pool with the KV blocks of its clients, without routed experts; CapacityError where none are left."""
        clients = alone(pool, pool.data - self.of(pool))
        self._fits(pool)
        return replace(pool, engine=replace(pool.engine, kv_blocks=kv_blocks(clients)))

    def of(self, pool: Pool) -> int:
        """The servers of a replica; ScenarioError for a pool without experts, ranks or servers enough."""
        if pool.model.moe is None:
            raise ScenarioError(f"pool.model {pool.model.name} has no experts to serve; give a mixture of experts")
        if pool.tensor > 1 or pool.pipeline > 1 or pool.data < 2:
            raise ScenarioError(
                f"term expert_as_a_service wants devices that are clients or servers, tensor 1, pipeline 1 and data 2 "
                f"or more; the pool has tensor {pool.tensor}, pipeline {pool.pipeline}, data {pool.data}"
            )
        servers = self.servers or pool.data // 2
        if not self.copies <= servers < pool.data:
            raise ScenarioError(
                f"term expert_as_a_service: {servers} servers of {pool.data} devices with {self.copies} copies of each "
                f"expert; give servers from copies up to {pool.data - 1}"
            )
        return servers

    def _fits(self, pool: Pool) -> None:
        """CapacityError where a server's experts are more than its memory has room for."""
        moe, servers = pool.model.moe, self.of(pool)
        assert moe is not None
        experts = ceil(self.copies * moe.experts / servers) * moe.layers * pool.model.expert_parameters
        taken = experts * pool.precision.experts.bits / 8 + footprint(alone(pool, 1)).workspace
        room = pool.device.memory_bytes * pool.engine.memory_fraction
        if taken > room:
            raise CapacityError(
                f"pool.model {pool.model.name}: {self.copies} copies of its experts on {servers} servers take "
                f"{taken / 1e9:.1f} GB of each, which has {room / 1e9:.1f} GB; give more servers or fewer copies"
            )


class Served(EstimatorWrapper):
    """Steps of clients and servers in turns, or one after another where that is shorter.

    With A, E and H picoseconds of the clients, the servers and the hops of all batches and o of the host and the output
    head, m batches that take turns through L layers take o + max(A, E, H, (A + E + H)/m) + (A + E + H)/(m·L): who is
    busiest, or the way of one batch, and the last batch's way through the last layer. What another cost than the
    roofline makes of a whole step and of its KV, it makes of the parts.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: ExpertAsAService) -> None:
        super().__init__(inner)
        self.term, self.pool, self.servers = term, pool, term.of(pool)
        self.use: Efficiencies = efficiencies(inner)
        self.whole = RooflineEstimator(pool, self.use)
        self.clients = Clients(pool, self.use, pool.data - self.servers)
        self._shares: dict[float, Share] = {}
        self._known: dict[tuple[int, float], Piece] = {}

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`; those of decodes alone are remembered."""
        if shape.chunks:
            return self._step(shape)
        known = self._known.get((shape.decodes, shape.share))
        if known is None:
            known = self._known[shape.decodes, shape.share] = self._step(shape)
        return known

    def after_loss(self, lost: int) -> float | None:
        """servers/(servers − lost), as long as each expert has a server."""
        return self.servers / (self.servers - lost) if lost < self.term.copies else None

    def _step(self, shape: StepShape) -> Piece:
        if not (shape.decodes or shape.chunks):
            return self.inner.step(shape)
        given, usual, own = (each.step(shape) for each in (self.inner, self.whole, self.clients))
        slower = given.base / usual.base
        per_kv = own.per_kv * (given.per_kv / usual.per_kv if usual.per_kv else 1.0)
        per_window = own.per_window * (given.per_window / usual.per_window if usual.per_window else 1.0)
        lines = [Line(slower * base, part * per_kv) for base, part in self._ways(shape, own.base)]
        return pieces(lines, _shorter, round(per_window))

    def _ways(self, shape: StepShape, base: float) -> list[tuple[float, float]]:
        """Picoseconds of a step and how often its KV is read: whole, then in turns by what binds."""
        stretches, sides, m = self.clients.stretches(shape), self._share(shape.share), self.term.batches
        computed, sent = (sum(n * each(t) for n, t in stretches) for each in (sides.computed, sides.hops))
        ways = [(base + computed + sent, 1.0)]
        if m == 1 or any(t < m * self.clients.pool.data for _, t in stretches):
            return ways  # a client with fewer tokens than batches has nothing to take turns with
        layers = sum(n for n, _ in stretches)
        outside = self.clients.outside(shape)
        own = base - outside + sum(n * self.clients.cut(t, m, shape.share) for n, t in stretches)
        computed, sent = (m * sum(n * each(t / m) for n, t in stretches) for each in (sides.computed, sides.hops))
        round_ = own + computed + sent
        rest, last = outside + round_ / (m * layers), 1 / (m * layers)
        turns = [(own, 1.0), (computed, 0.0), (sent, 0.0), (round_ / m, 1 / m)]
        return [*ways, *((rest + busy, last + reads) for busy, reads in turns)]

    def _share(self, sms: float) -> Share:
        found = self._shares.get(sms)
        if found is None:
            found = self._shares[sms] = share(self.pool, self.use, self.clients.pool.data, sms)
        return found

    def describe(self) -> dict[str, object]:
        """The inner one's, and how many devices do what."""
        facts = {"clients": self.clients.pool.data, "servers": self.servers, "copies": self.term.copies}
        return {**self.inner.describe(), "expert_as_a_service": {**facts, "batches": self.term.batches}}


def _shorter(values: Sequence[float]) -> float:
    whole, *turns = values
    return min(whole, max(turns, default=whole))
