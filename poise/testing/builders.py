"""Inputs for tests of policies: requests, replicas, cluster views, chance and engine lanes, each in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from poise.core.action import NONE, Batch, Hold
from poise.core.chance import Chance
from poise.core.control.flight import InFlight
from poise.core.control.scaling import PoolState
from poise.core.engine.lane import LaneState
from poise.core.engine.replica import Replica
from poise.core.estimate import Estimator
from poise.core.policy import Bundle, Victim
from poise.core.request import RequestView, Sequence
from poise.core.spec import Engine, Role
from poise.core.view import ClusterView, InFlightView, LaneView, PoolView
from poise.testing.columns import ClusterColumns, ReplicaColumns, SomeAdapters
from poise.testing.cost import LinearCost


def a_request(
    *,
    id: int = 0,
    prompt_tokens: int = 100,
    arrived_at: int = 0,
    max_tokens: int = 0,
    ids: tuple[int, ...] | None = None,
    ends: tuple[int, ...] | None = None,
    model: int = 0,
    session: int = -1,
    tenant: int = -1,
    lora: int = -1,
    priority: int = 0,
    deadline_at: int = 0,
    predicted_tokens: int = 0,
    turn: int = 0,
    stage: int = -1,
    begun_at: int | None = None,
) -> RequestView:
    """Build a request; instants in picoseconds. It begins its session unless `begun_at` says otherwise.

    ids, ends: its prompt as extents. By default one extent, named by the request's id, covers the whole prompt;
    `ids=()` is a prompt without identity, and ids without `ends` share the prompt evenly.
    """
    if ids is None:
        ids, ends = (id,), (prompt_tokens,)
    elif ends is None:
        ends = tuple(prompt_tokens * (place + 1) // len(ids) for place in range(len(ids)))
    if len(ids) != len(ends) or any(end > prompt_tokens for end in ends) or list(ends) != sorted(ends):
        raise ValueError(f"ends {ends} must rise, one for each of the ids {ids}, up to prompt_tokens {prompt_tokens}")
    return RequestView(
        id, arrived_at, prompt_tokens, max_tokens, ids, ends, model, session, tenant, lora, priority, deadline_at,
        predicted_tokens, turn=turn, stage=stage, begun_at=arrived_at if begun_at is None else begun_at,
    )  # fmt: skip


def a_replica(
    *,
    requests: int = 0,
    tokens: int = 0,
    queued_tokens: int = 0,
    waiting: int = 0,
    running: int = 0,
    free_blocks: int = 1000,
    cached_tokens: int = 0,
    role: Role = "mixed",
    able: bool = True,
    model: int = -1,
    capacity_tokens: int = 1 << 40,
    total_blocks: int = 1000,
    prefill_rate: float = 10_000.0,
    measured_at: int = 0,
    flights: tuple[InFlightView, ...] = (),
    decode_rate: float = 50.0,
    tenants: tuple[int, ...] = (),
    adapter_slots: int = 0,
    running_adapters: tuple[int, ...] = (),
    waiting_adapters: tuple[int, ...] = (),
    resident_adapters: tuple[int, ...] | None = None,
) -> ReplicaColumns:
    """Build one replica of `a_cluster`: its entry in each column (idle by default) and whether it takes requests."""
    return ReplicaColumns(
        requests,
        tokens,
        queued_tokens,
        waiting,
        running,
        free_blocks,
        cached_tokens,
        role,
        able,
        model,
        capacity_tokens,
        total_blocks,
        prefill_rate,
        measured_at,
        flights,
        decode_rate,
        tenants,
        SomeAdapters(
            adapter_slots,
            running_adapters,
            waiting_adapters,
            running_adapters if resident_adapters is None else resident_adapters,
        ),
    )


def a_flight(
    request: RequestView, *, replica: int = 0, sent_at: int = 0, first_token_at: int = -1, target: int = -1
) -> InFlightView:
    """Build what the view shows of a request that was sent and has not ended; instants in picoseconds."""
    flight = InFlight(request, replica, replica, (), sent_at)
    flight.first_token_at, flight.target = first_token_at, target
    return flight


def a_pool(
    *serving: int,
    name: str = "",
    wanted: int | None = None,
    min_replicas: int = 0,
    max_replicas: int = 100,
    held: int = 0,
    warm: int = 0,
    start_s: float = 60.0,
    warm_start_s: float = 10.0,
    group: int = 0,
) -> PoolView:
    """Build a pool for scalers, in which these serve; `wanted` is its target size (default: as many as these)."""
    target = len(serving) if wanted is None else wanted
    return PoolState(name, min_replicas, max_replicas, target, warm, start_s, warm_start_s, serving, held, group)


def a_cluster(
    *replicas: ReplicaColumns,
    now: int = 0,
    stage: str = "serve",
    needs: Iterable[str] | None = None,
    kv_rate: float = 100_000.0,
    pools: Iterable[PoolView] = (),
    rate: float = -1.0,
    loans: Mapping[tuple[int, int], int] | None = None,
    adapter_ranks: Iterable[int] = (),
) -> ClusterColumns:
    """Build a `ClusterView` of the replicas in order (one idle replica by default); `now` in picoseconds.

    needs: the columns that may be read (None: all); reading another one raises `RuleBroken`.
    kv_rate: KV tokens per second that a link between two replicas carries.  pools, rate: what scalers read besides.
    loans: KV blocks lent, by debtor and creditor.  adapter_ranks: of each adapter by its number.
    """
    return ClusterColumns(
        replicas or (a_replica(),), now=now, stage=stage, needs=needs, kv_rate=kv_rate, pools=tuple(pools), rate=rate,
        loans=loans, adapter_ranks=tuple(adapter_ranks),
    )  # fmt: skip


def a_chance(seed: int = 0, key: int = 0) -> Chance:
    """Build the chance that a router gets for the request with id `key`."""
    return Chance(seed, key)


class _Unasked:
    """A router for bundles of which only an engine's policies are used."""

    needs = ()

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Hold:
        return Hold("no router was given")


def a_bundle(**policies: Any) -> Bundle:
    """Build a bundle by slot; a slot that is not given has a policy that does nothing, or none.

    PolicyError for an object that cannot fill its slot.
    """
    still = _Nothing()
    return Bundle(**{"router": _Unasked(), "batcher": still, "preempt": still, **policies})


class _Nothing:
    """A batcher and a preemption rule for lanes that never run."""

    def batch(self, lane: LaneView) -> Batch:
        return Batch(decode=NONE)

    def preempt(self, lane: LaneView) -> Victim:
        return newest(lane)


def newest(lane: LaneView) -> Victim:
    """The request admitted last: the last running prompt, else the newest decode."""
    return Victim(lane.prefilling[-1].id if lane.prefilling else lane.newest().id)


def a_lane(
    *,
    waiting: Iterable[RequestView] = (),
    prefilling: Iterable[tuple[RequestView, int]] = (),
    decoding: Iterable[tuple[RequestView, int]] = (),
    engine: Engine | None = None,
    blocks: int = 1000,
    cost: Estimator | None = None,
    layers: int = 1,
    output_tokens: int = 1000,
    now: int = 0,
) -> LaneState:
    """Build a lane of a real replica between two steps, in the situation given; `lane.replica` is the replica.

    waiting: requests in its queue.  prefilling: admitted requests, each with the prompt tokens computed so far.
    decoding: requests with the output tokens that each has produced (at least 1).  blocks: KV blocks in all.
    output_tokens: after how many tokens each request ends.  now: the instant, in picoseconds.  The lane is the
    engine's first.
    """
    still = _Nothing()
    replica = Replica(
        engine or Engine(), cost or cast("Estimator", LinearCost()), blocks, a_bundle(batcher=still, preempt=still),
        layers=layers,
    )  # fmt: skip
    lane = replica.lanes[0]
    for request, produced in decoding:
        if produced < 1:
            raise ValueError(f"request {request.id} decodes, so it has produced at least 1 token, not {produced}")
        sequence = Sequence(request, output_tokens, produced - 1)
        _admit(replica, lane, sequence, sequence.need)
    for request, computed in prefilling:
        if computed >= request.prompt_tokens:
            raise ValueError(
                f"request {request.id}: {computed} of {request.prompt_tokens} prompt tokens leave nothing to prefill"
            )
        _admit(replica, lane, Sequence(request, output_tokens), computed)
    for request in waiting:
        replica.add(Sequence(request, output_tokens), 0)
    lane.space.now = now
    lane.start(now)  # what was handed over joins the decodes
    return lane


def _admit(replica: Replica, lane: LaneState, sequence: Sequence, computed: int) -> None:
    """Take a sequence in and compute its prompt up to `computed` tokens, cached ones included."""
    replica.add(sequence, 0)
    replica.admit(sequence, lane)
    tokens = max(computed - sequence.computed, 0)
    if not lane.room(lane.blocks_for(sequence, tokens)):
        raise ValueError(f"request {sequence.id} does not fit the replica's KV blocks; give more `blocks`")
    if tokens:
        replica.pool.grow(sequence, tokens)
        replica.advance(sequence, tokens, lane)
