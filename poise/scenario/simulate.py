"""`simulate`: problem, policies, cost, belief and stopping are separate values; each default is the recommendation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from poise.core.control import Control
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.prefix import PrefixIndex
from poise.core.records import Run
from poise.core.replica import Replica
from poise.core.spec import Belief, Cluster, Pool, ReplicaSpec
from poise.core.trace import Trace
from poise.core.units import seconds
from poise.cost import Roofline, kv_blocks
from poise.cost.term import held
from poise.policies import Policies
from poise.scenario.combination import check_batcher, check_heads, check_prefixes, check_work
from poise.scenario.hazards import drawn
from poise.scenario.scaling import arrivals_of, check_scaling, pool_specs
from poise.sim.network import link_bw
from poise.sim.world import World

if TYPE_CHECKING:
    from poise.core.diary import Diaries, Diary
    from poise.workload.table import Workload


ALONE = 2000
"""Tokens of the request by whose decode rate replicas are told apart."""


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
    until: float | None = None,
    drain: bool = True,
    sample_s: float = 0.0,
    slices: bool = False,
    trace: Trace | None = None,
    blame: bool = False,
    diary: Diary | Diaries | None = None,
    one_step: bool = False,
    told: Sequence[ReplicaSpec] | None = None,
    progress: Callable[[int, int], None] | None = None,
    enough: Callable[[Run, int], bool] | None = None,
    after_event: Callable[[World], None] | None = None,
) -> Run:
    """Simulate one run.

    policies: what decides (default: least requests, vLLM's batches).  cost: default `Roofline()`.
    until: seconds after which nobody arrives; with `drain` what has arrived is finished.
    sample_s, slices: keep a timeline of the replicas and of their batches.  trace: record events and actions.
    blame: charge the time of every request to its parts, for `Run.blame`.  diary: of some requests, instead of a trace.
    one_step: the slow reference, every held batch cut to one step.
    told: what the control side is told of each replica beforehand (default: what the cost model says).
    enough: asked now and then with the run so far and the instant (ps); true ends the run there, marked as interrupted.
    Raises CapacityError when a model does not fit, ScenarioError for faults that cannot be.
    """
    if workload.endless is not None:
        if until is None:
            raise ScenarioError(
                "workload: the arrivals have no end; give requests or duration_s, or simulate with `until`"
            )
        workload = workload.endless(until)
    world = build_world(
        cluster, workload, policies or Policies(), cost or Roofline(), belief or Belief(),
        seed=seed, until=until, drain=drain, sample_s=sample_s, trace=trace, blame=blame, diary=diary,
        one_step=one_step, told=told, progress=progress, enough=enough, after_event=after_event,
    )  # fmt: skip
    if slices:
        for replica in world.replicas:
            replica.slices = []
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
    until: float | None = None,
    drain: bool = True,
    sample_s: float = 0.0,
    trace: Trace | None = None,
    blame: bool = False,
    diary: Diary | Diaries | None = None,
    one_step: bool = False,
    told: Sequence[ReplicaSpec] | None = None,
    progress: Callable[[int, int], None] | None = None,
    enough: Callable[[Run, int], bool] | None = None,
    after_event: Callable[[World], None] | None = None,
) -> World:
    """The world that `simulate` runs, for whoever wants to look inside."""
    cluster = drawn(cluster, workload, seed, until)
    cluster = replace(cluster, pools=tuple(held(cost, pool) for pool in cluster.pools))
    for pool in cluster.pools:
        check_heads(pool, cost)
        check_batcher(pool, policies.batcher, cost)
        check_prefixes(pool, cost)
    replicas: list[Replica] = []
    limits: list[int] = []
    estimators = [cost.build(pool) for pool in cluster.pools]
    for pool, estimator in zip(cluster.pools, estimators, strict=True):
        blocks = kv_blocks(pool)
        check_work(pool, estimator, blocks, policies.batcher)
        limits += [_limit(pool)] * pool.slots
        replicas += [_replica(pool, estimator, blocks, policies, one_step) for _ in range(pool.slots)]
    specs = replica_specs(cluster, estimators, workload.models) if told is None else told
    pools = pool_specs(cluster) if policies.scaler is not None else []
    check_scaling(cluster, policies, belief)
    index = PrefixIndex(len(replicas)) if belief.prefix == "oracle" else None  # the truth is one for all gateways
    controls = [
        Control(
            policies.router, specs, mover=policies.mover, lender=policies.lender, order=policies.order,
            admission=policies.admission, predictor=policies.predictor, hedge=policies.hedge, scaler=policies.scaler,
            forecast=policies.forecast, recovery=policies.recovery, pools=pools, belief=belief, seed=seed, index=index,
        )
        for _ in range(belief.gateways)
    ]  # fmt: skip

    def away(row: int) -> int:
        return world.clients.arrivals.away(row)

    for replica in replicas:
        _reveal(replica, away)

    def renew(number: int) -> Replica:
        at = cluster.pool_of(number)
        pool = cluster.pools[at]
        return _reveal(_replica(pool, estimators[at], kv_blocks(pool), policies, one_step), away)

    world = World(
        cluster, workload, controls, replicas, limits, renew=renew,
        until_s=until, drain=drain, sample_s=sample_s, trace=trace, blame=blame, diary=diary,
        progress=progress, enough=enough, after_event=after_event,
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
    """What the control side is told of each replica beforehand.

    estimators: one for each pool.  models: those that the workload names.
    """
    absent, returning = set(cluster.absent), cluster.returning
    specs: list[ReplicaSpec] = []
    for at, (pool, estimator) in enumerate(zip(cluster.pools, estimators, strict=True)):
        blocks, limit = kv_blocks(pool), _limit(pool)
        told = ReplicaSpec(
            _serves(pool, models), pool.role, limit, blocks * pool.engine.block_tokens,
            blocks=blocks,
            prefill_rate=_prefill_rate(pool, estimator, limit),
            kv_token_bytes=estimator.kv_bytes(limit) / limit,
            link_bw=link_bw(cluster, pool),
            link_latency_s=cluster.link_latency_s,
            pool=at,
            decode_rate=_decode_rate(estimator),
            tenants=pool.tenants,
        )  # fmt: skip
        first = len(specs)
        absent |= set(range(first + pool.replicas, first + pool.slots))
        specs += [
            told._replace(up=number not in absent, returns=number in returning)
            for number in range(first, first + pool.slots)
        ]
    return specs


def _limit(pool: Pool) -> int:
    """The longest request that a replica can hold, in tokens."""
    return min(pool.model.max_context, kv_blocks(pool) * pool.engine.block_tokens)


def _replica(pool: Pool, estimator: Estimator, blocks: int, policies: Policies, one_step: bool) -> Replica:
    """One engine instance with its own copies of the policies that decide inside it."""
    return Replica(
        pool.engine,
        estimator,
        blocks,
        batcher=copy.deepcopy(policies.batcher),
        preempt=copy.deepcopy(policies.preempt),
        queue=copy.deepcopy(policies.queue),
        cache=copy.deepcopy(policies.cache),
        layers=pool.model.layers,
        sends=pool.role == "prefill",
        one_step=one_step,
    )


def _reveal(replica: Replica, away: Callable[[int], int]) -> Replica:
    """Tell a cache policy that asks for it how long sessions stay away."""
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
