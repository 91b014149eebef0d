"""`simulate`: problem, policies, cost, belief and stopping are separate values; each default is the recommendation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from poise.core.control.control import Control
from poise.core.control.prefix_index import PrefixIndex
from poise.core.engine.replica import Replica
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.records.records import Run
from poise.core.spec import Belief, Cluster, Pool, ReplicaSpec
from poise.core.units import seconds
from poise.cost import Roofline, held_tokens, kv_blocks
from poise.cost.adapters import Adapters
from poise.cost.encoder import Media, expanded
from poise.cost.states import state_blocks
from poise.cost.term import held
from poise.policies import Policies
from poise.scenario.combination import (
    check_adapters,
    check_batcher,
    check_evictions,
    check_heads,
    check_prefixes,
    check_work,
)
from poise.scenario.hazards import drawn
from poise.scenario.scaling import arrivals_of, check_scaling, pool_specs
from poise.sim.encoding import Encoding
from poise.sim.network import link_bw
from poise.sim.terms import NOTHING, TO_THE_END, UNSEEN, Saving, Stopping, Watching
from poise.sim.world import World

if TYPE_CHECKING:
    from poise.workload.table import Workload


ALONE = 2000
"""Tokens of the request whose decode rate distinguishes replicas."""


class Cost(Protocol):
    """A recipe that makes an estimator for each pool."""

    def build(self, pool: Pool) -> Estimator:
        """The estimator for one pool."""
        ...


def simulate(
    cluster: Cluster,
    workload: Workload,
    policies: Policies | None = None,
    *,
    cost: Cost | None = None,
    belief: Belief | None = None,
    seed: int = 0,
    stopping: Stopping = TO_THE_END,
    saving: Saving = NOTHING,
    watching: Watching = UNSEEN,
    one_step: bool = False,
    known: Sequence[ReplicaSpec] | None = None,
) -> Run:
    """Simulate one run.

    policies: what decides (default: least requests, vLLM's batches).  cost: default `Roofline()`.
    stopping: when it ends (default: when all are finished).  saving: what is kept besides the requests' records
    (nothing).  watching: callbacks (none).
    one_step: the slow reference, every held batch cut to one step.
    known: what the control side knows of each replica beforehand (default: what the cost model says).
    Raises CapacityError when a model does not fit, ScenarioError for faults that cannot be.
    """
    if workload.endless is not None:
        if stopping.until_s is None:
            raise ScenarioError(
                "workload: the arrivals have no end; give requests or duration_s, or simulate with `until`"
            )
        workload = workload.endless(stopping.until_s)
    world = build_world(
        cluster, workload, policies or Policies(), cost or Roofline(), belief or Belief(),
        seed=seed, stopping=stopping, saving=saving, watching=watching, one_step=one_step, known=known,
    )  # fmt: skip
    run = world.simulate()
    for number, replica in enumerate(world.replicas):
        run.slices += [(start, end, number, lane, n, tokens) for start, end, lane, n, tokens in replica.slices or ()]
    return run


def build_world(
    cluster: Cluster,
    workload: Workload,
    policies: Policies,
    cost: Cost,
    belief: Belief,
    *,
    seed: int = 0,
    stopping: Stopping = TO_THE_END,
    saving: Saving = NOTHING,
    watching: Watching = UNSEEN,
    one_step: bool = False,
    known: Sequence[ReplicaSpec] | None = None,
) -> World:
    """The world that `simulate` runs, for callers that inspect it."""
    workload, media = expanded(workload, cluster.pools[0].model)
    cluster = drawn(cluster, workload, seed, stopping.until_s)
    cluster = replace(cluster, pools=tuple(held(cost, pool) for pool in cluster.pools))
    for pool in cluster.pools:
        check_heads(pool, cost)
        check_batcher(pool, policies.batcher, cost)
        check_adapters(pool, policies.batcher, workload.adapter_ranks)
        check_prefixes(pool, cost)
    check_evictions(policies.cache, cluster.pools)
    replicas: list[Replica] = []
    limits: list[int] = []
    estimators = [cost.build(pool) for pool in cluster.pools]
    encodings = [_encoded_by(pool, media, cluster) for pool in cluster.pools]
    ranks = workload.adapter_ranks
    for pool, estimator, encoding in zip(cluster.pools, estimators, encodings, strict=True):
        blocks = kv_blocks(pool)
        check_work(pool, estimator, blocks, policies.batcher)
        limits += [held_tokens(pool)] * pool.slots
        replicas += [_replica(pool, estimator, blocks, policies, one_step, ranks, encoding) for _ in range(pool.slots)]
    specs = replica_specs(cluster, estimators, workload.models) if known is None else known
    pools = pool_specs(cluster) if policies.scaler is not None else []
    check_scaling(cluster, policies, belief)
    index = PrefixIndex(len(replicas)) if belief.prefix == "oracle" else None  # the truth is one for all gateways
    controls = [
        Control(policies, specs, pools=pools, belief=belief, seed=seed, index=index) for _ in range(belief.gateways)
    ]

    for control in controls:
        control.state.adapter_ranks = workload.adapter_ranks

    def away(row: int) -> int:
        return world.clients.arrivals.away(row)

    for replica in replicas:
        _reveal(replica, away)

    def renew(number: int) -> Replica:
        at = cluster.pool_of(number)
        pool = cluster.pools[at]
        made = _replica(pool, estimators[at], kv_blocks(pool), policies, one_step, ranks, encodings[at])
        return _reveal(made, away)

    world = World(
        cluster, workload, controls, replicas, limits, renew=renew,
        stopping=stopping, saving=saving, watching=watching, encoding=_apart(cluster, media),
    )  # fmt: skip
    truth = world.clients.arrivals.truth
    for predictor in [control.predictor for control in controls]:
        if predictor is not None and hasattr(predictor, "reveal"):
            predictor.reveal(lambda row: truth(row))  # a function, so that copies of a control share it
    for forecast in [control.scaling.forecast for control in controls if control.scaling is not None]:
        if forecast is not None and hasattr(forecast, "reveal"):
            forecast.reveal(arrivals_of(workload))
    return world


def replica_specs(cluster: Cluster, estimators: Sequence[Estimator], models: tuple[str, ...] = ()) -> list[ReplicaSpec]:
    """What the control side knows of each replica beforehand.

    estimators: one for each pool.  models: those that the workload names.
    """
    absent, returning = set(cluster.absent), cluster.returning
    specs: list[ReplicaSpec] = []
    for at, (pool, estimator) in enumerate(zip(cluster.pools, estimators, strict=True)):
        blocks, limit = kv_blocks(pool), held_tokens(pool)
        known = ReplicaSpec(
            _serves(pool, models), pool.role, limit, blocks * pool.engine.block_tokens,
            blocks=blocks,
            prefill_rate=_prefill_rate(pool, estimator, limit),
            kv_token_bytes=estimator.kv_bytes(limit) / limit,
            link_bw=link_bw(cluster, pool),
            link_latency_s=cluster.link_latency_s,
            pool=at,
            decode_rate=_decode_rate(estimator),
            tenants=pool.tenants,
            adapter_slots=pool.engine.max_loras,
        )  # fmt: skip
        first = len(specs)
        absent |= set(range(first + pool.replicas, first + pool.slots))
        specs += [
            known._replace(up=number not in absent, returns=number in returning)
            for number in range(first, first + pool.slots)
        ]
    return specs


def _encoded_by(pool: Pool, media: Media | None, cluster: Cluster) -> list[int] | None:
    """Picoseconds that a replica of `pool` encodes each request, None where it does not."""
    if media is None or cluster.encoders is not None or pool.role == "decode":
        return None
    return media.times(pool.model, pool.device)


def _apart(cluster: Cluster, media: Media | None) -> Encoding | None:
    """The encoders of a cluster that has some apart from its pools."""
    pool = cluster.encoders
    if pool is None or media is None:
        return None
    model, bandwidth = cluster.pools[0].model, pool.link_bw or pool.device.scaleout_bw
    if bandwidth <= 0:
        raise ScenarioError(
            f"cluster.encoders: {pool.device.name} states no scaleout_bw, over which embeddings are handed over; "
            "give link_gb_s"
        )
    handed = media.handed(model, bandwidth, cluster.link_latency_s)
    return Encoding(pool.replicas, media.times(model, pool.device), handed)


def _replica(
    pool: Pool,
    estimator: Estimator,
    blocks: int,
    policies: Policies,
    one_step: bool,
    ranks: tuple[int, ...],
    encoding: list[int] | None,
) -> Replica:
    """One engine instance with its own copies of the policies that decide inside it; ranks: of the adapters."""
    made = Replica(
        pool.engine, estimator, blocks, policies.for_engine(),
        layers=pool.model.layers, sends=pool.role == "prefill", one_step=one_step,
        adapters=Adapters(pool, ranks) if pool.engine.max_loras else None, state_blocks=state_blocks(pool),
    )  # fmt: skip
    made.encoding = encoding
    return made


def _reveal(replica: Replica, away: Callable[[int], int]) -> Replica:
    """Give a cache policy that needs it the sessions' times away."""
    if replica.cache is not None and hasattr(replica.cache, "reveal"):
        replica.cache.reveal(away)
    return replica


def _prefill_rate(pool: Pool, estimator: Estimator, limit: int) -> float:
    """Prompt tokens per second at a full token budget."""
    tokens = min(pool.engine.token_budget, limit)
    return tokens / seconds(estimator.step(StepShape(0, (Chunk(tokens, 0),))).base)


def _decode_rate(estimator: Estimator) -> float:
    """Output tokens per second of one request of `ALONE` tokens that decodes alone."""
    piece = estimator.step(StepShape(1))
    seen = min(ALONE, estimator.window) if estimator.window else 0
    return 1 / seconds(piece.base + piece.per_kv * ALONE + piece.per_window * seen)


def _serves(pool: Pool, models: tuple[str, ...]) -> int:
    """The workload's index of the pool's model; -1 (all of it) where the workload names no models."""
    if not models:
        return -1
    if pool.model.name in models:
        return models.index(pool.model.name)
    return len(models)  # serves none of them
