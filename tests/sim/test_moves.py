"""Requests that move: taken back from a queue, or migrated while they decode; and what comes between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poise.core.action import Move, Route
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.errors import PolicyError
from poise.core.event import Moved, MoveFailed
from poise.core.records.records import FINISHED, Run
from poise.core.records.trace import Trace
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool, ReplicaSpec
from poise.core.units import SECOND, ps, seconds
from poise.core.view import ClusterView
from poise.policies import Policies
from poise.policies.route.round_robin import RoundRobin
from poise.sim.terms import Saving, Watching
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_exact import assert_equal

COST = LinearCost(step_s=0.01, prompt_s=1e-4, token_bytes=1000)
BELIEF = Belief(0.1, 0.0)


class First:
    """Send everything to one replica."""

    needs: tuple[str, ...] = ()

    def route(self, request: Any, cluster: ClusterView, chance: Any) -> Any:
        return Route(cluster.able(request)[0])


class Script:
    """Move each of these requests once, when it was sent at least so long ago."""

    needs = ("flights",)

    def __init__(self, **targets: tuple[int, float]) -> None:
        self.targets = {int(name.removeprefix("r")): where for name, where in targets.items()}

    def move(self, cluster: ClusterView) -> list[Move]:
        moves = []
        for replica in range(len(cluster.total_blocks)):
            for flight in cluster.flights(replica):
                target, after = self.targets.get(flight.request.id, (replica, 0.0))
                old_enough = cluster.now - flight.sent_at >= ps(after)
                if target != replica and old_enough and flight.target < 0:
                    del self.targets[flight.request.id]
                    moves.append(Move(flight.request.id, replica, target))
        return moves


class Evacuate:
    """Move everything away from replica 0."""

    needs = ("flights",)

    def move(self, cluster: ClusterView) -> list[Move]:
        away = [each for each in cluster.flights(0) if each.first_token_at >= 0 and each.target < 0]
        return [Move(each.request.id, 0, cluster.peers(each.request, 0)[0]) for each in away]


def a_load(*rows: tuple[float, int, int]) -> Workload:
    """Requests of (arrival in s, prompt tokens, output tokens)."""
    arrival, prompt, output = zip(*rows, strict=True)
    return Workload(np.array(arrival) * SECOND // 1, np.array(prompt, "i4"), np.array(output, "i4"))


def run(
    workload: Workload,
    mover: Any,
    *,
    router: Any = None,
    blocks: tuple[int, ...] = (500, 500),
    link_bw: float = 1e8,
    faults: tuple[Fault, ...] = (),
    roles: tuple[str, ...] = ("mixed", "mixed"),
    sequences: int = 8,
    trace: Trace | None = None,
) -> Run:
    """Fast and step by step, every invariant checked after each event."""
    engine = Engine(token_budget=512, max_sequences=sequences)
    limits = [each * engine.block_tokens for each in blocks]
    pools = tuple(Pool(MODEL, DEVICE, role=role, engine=engine) for role in roles)  # type: ignore[arg-type]
    cluster = Cluster(pools, link_bw=link_bw, link_latency_s=0.001, faults=faults)
    runs = []
    for one_step in (True, False):
        replicas = [
            Replica(engine, COST, each, Policies(), sends=role == "prefill", one_step=one_step)
            for each, role in zip(blocks, roles, strict=True)
        ]  # fmt: skip
        specs = [
            ReplicaSpec(role=role, capacity_tokens=limit, blocks=each)  # type: ignore[arg-type]
            for each, limit, role in zip(blocks, limits, roles, strict=True)
        ]
        control = Control(Policies(router=router or First(), mover=mover), specs, belief=BELIEF)
        world = World(
            cluster,
            workload,
            control,
            replicas,
            limits,
            saving=Saving(trace=None if one_step else trace),
            watching=Watching(after_event=check_world),
        )
        runs.append(world.simulate())
    assert_equal(*runs)
    return runs[0]


def of_kind(trace: Trace, kind: type) -> list[Any]:
    return [item for item in trace.items() if isinstance(item, kind)]


def e2e(outcome: Run, row: int = 0) -> float:
    return seconds(outcome.records.ended_at[row] - outcome.records.arrived_at[row])


@pytest.mark.parametrize("prompt", [100, 1000, 4000])
def test_a_live_migration_stops_a_request_shortly_whatever_its_length(prompt: int) -> None:
    """Its last part is at most 16 blocks: 256 tokens of 1,000 bytes at 100 MB/s, 1 ms of latency, and one step."""
    load = a_load((0, prompt, 300))
    still = run(load, Script())
    moved = run(load, Script(r0=(1, 0.5)))
    records = moved.records
    assert (records.status[0], records.migrations[0]) == (FINISHED, 1)
    assert (records.replica[0], records.decode_replica[0]) == (0, 1)
    assert moved.replicas[0].decode_tokens + moved.replicas[1].decode_tokens == 299
    assert moved.replicas[1].prompt_tokens == 0, "nothing is computed twice"
    assert 0 < e2e(moved) - e2e(still) <= 0.00256 + 0.001 + 0.01


def test_blocks_are_reserved_part_by_part() -> None:
    """30 steps of 10 ms pass while 3,000 tokens travel at 10 MB/s: the second part is those."""
    trace = Trace()
    outcome = run(a_load((0, 3000, 300)), Script(r0=(1, 0.5)), link_bw=1e7, trace=trace)
    (moved,) = of_kind(trace, Moved)
    started = next(item.at for item in trace.items() if getattr(item, "measured_at", 0) >= ps(0.5))
    assert 0.3 < seconds(moved.at - started) < 0.36
    assert outcome.records.migrations[0] == 1


def test_a_waiting_request_is_taken_back_and_queued_elsewhere() -> None:
    outcome = run(a_load((0, 100, 200), (0.01, 100, 200)), Script(r1=(1, 0.05)), sequences=1)
    records = outcome.records
    assert (records.replica[1], records.decode_replica[1]) == (1, 1)
    assert records.first_token_at[1] < records.ended_at[0]
    assert records.migrations[1] == 1


def test_a_prompt_under_way_stays() -> None:
    trace = Trace()
    run(a_load((0, 4000, 20)), Script(r0=(1, 0.05)), trace=trace)
    assert [stayed.reason for stayed in of_kind(trace, MoveFailed)] == ["its prompt is being computed"]


def test_without_room_at_the_target_it_stays() -> None:
    trace = Trace()
    load = a_load((0, 1000, 50), (0, 900, 50))
    outcome = run(load, Script(r0=(1, 0.2)), router=RoundRobin(), blocks=(500, 70), trace=trace)
    assert [stayed.reason for stayed in of_kind(trace, MoveFailed)] == ["there is no room at the target"]
    assert list(outcome.records.status) == [FINISHED, FINISHED]
    assert list(outcome.records.migrations) == [0, 0]


def test_a_target_that_could_never_hold_it_is_refused() -> None:
    trace = Trace()
    run(a_load((0, 1000, 100)), Script(r0=(1, 0.25)), blocks=(500, 66), trace=trace)
    assert [stayed.reason for stayed in of_kind(trace, MoveFailed)] == ["the target cannot hold it"]


def test_a_slow_link_is_given_up_after_three_parts() -> None:
    """At 0.1 MB/s a token (10 ms) is made as fast as one is carried, so that the rest never gets short."""
    trace = Trace()
    outcome = run(a_load((0, 600, 2500)), Script(r0=(1, 0.3)), link_bw=1e5, trace=trace)
    assert [stayed.reason for stayed in of_kind(trace, MoveFailed)] == ["it decodes faster than it is copied"]
    assert (outcome.records.status[0], outcome.records.decode_replica[0]) == (FINISHED, 0)


def test_a_request_that_ends_on_the_way_ends_where_it_was() -> None:
    outcome = run(a_load((0, 1000, 40)), Script(r0=(1, 0.25)), link_bw=1e6)
    assert (outcome.records.status[0], outcome.records.migrations[0]) == (FINISHED, 0)
    assert outcome.replicas[1].decode_tokens == 0


@pytest.mark.parametrize(("at", "lost"), [(0.75, 1), (0.75, 0), (1.0, 1), (1.2, 0)])
def test_a_replica_lost_on_the_way(at: float, lost: int) -> None:
    """The target's loss costs nothing; the source's sends the request elsewhere, to be computed again."""
    faults = (Fault(at, "lost", lost),)
    outcome = run(a_load((0, 2000, 200)), Script(r0=(1, 0.5)), link_bw=3e6, faults=faults)
    still = run(a_load((0, 2000, 200)), Script())
    assert outcome.records.status[0] == FINISHED
    assert outcome.records.decode_replica[0] == 1 - lost
    if lost == 1:
        assert e2e(outcome) == e2e(still) and outcome.records.retries[0] == 0
    else:
        assert outcome.records.retries[0] == 1


def test_who_leaves_while_moving_frees_both_ends() -> None:
    load = a_load((0, 2000, 200), (0, 50, 300))
    load.timeout = np.array([ps(0.9), 0], "i8")
    outcome = run(load, Script(r0=(1, 0.5)), link_bw=3e6)
    assert outcome.records.status[1] == FINISHED and outcome.records.migrations[0] == 0


def test_a_drained_replica_is_free_sooner_when_its_requests_move() -> None:
    load = a_load(*[(0.01 * row, 200, 400) for row in range(4)])
    faults = (Fault(0.5, "drain", 0),)
    still, moved = run(load, Script(), faults=faults), run(load, Evacuate(), faults=faults)
    assert seconds(moved.replicas[0].up_until) < 1.0 < 4.0 < seconds(still.replicas[0].up_until)
    assert list(moved.records.status) == [FINISHED] * 4


def test_decode_halves_of_pairs_move_between_decode_replicas() -> None:
    load = a_load((0, 500, 300))
    outcome = run(load, Script(r0=(2, 0.5)), roles=("prefill", "decode", "decode"), blocks=(300, 300, 300))
    assert (outcome.records.replica[0], outcome.records.decode_replica[0]) == (0, 2)
    assert outcome.replicas[1].decode_tokens + outcome.replicas[2].decode_tokens == 299


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Move(7, 0, 1), "in no replica"),
        (Move(0, 1, 0), "at replica 0"),
        (Move(0, 0, 0), r"only the peers \[1\]"),
        (Move(0, 0, 2), r"only the peers \[1\]"),
    ],
)
def test_an_impossible_move_is_the_policys_mistake(move: Move, message: str) -> None:
    class Wrong:
        needs = ("flights",)

        def move(self, cluster: ClusterView) -> list[Move]:
            return [move]

    with pytest.raises(PolicyError, match=message):
        run(a_load((0, 500, 300)), Wrong(), roles=("mixed", "mixed", "decode"), blocks=(300, 300, 300))


def test_a_move_is_ordered_once() -> None:
    class Twice:
        needs = ("flights",)

        def move(self, cluster: ClusterView) -> list[Move]:
            return [Move(each.request.id, 0, 1) for each in cluster.flights(0)] * 2

    with pytest.raises(PolicyError, match="is moving to replica 1 already"):
        run(a_load((0, 500, 300)), Twice(), router=RoundRobin())
