"""Four proofs that the shape is wide enough: layer ranges, lanes, pinned sessions and a lost replica.

Each is a small policy of its own, composed with every router, and the fast path equals the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from poise.core.action import ALL, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.records.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Engine, Fault, Lane, Pool, ReplicaSpec
from poise.core.units import SECOND
from poise.core.view import LaneView
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.sim.terms import Watching
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Prefixes, Workload
from tests.sim.cases import DEVICE, LAYERS, MODEL, ROUTERS
from tests.sim.test_exact import assert_equal

COST = LinearCost(step_s=0.010, decode_s=0.001, prompt_s=0.0005, kv_s=1e-6, layers=LAYERS)
BLOCKS = 200


@dataclass
class Layered:
    """Layered prefill (arXiv 2510.08055): a prompt passes `groups` groups of layers, one group a step, whole.

    Decodes run beside it in every step, so that no step is longer than one group of layers makes it.
    """

    groups: int = 2

    def batch(self, lane: LaneView) -> Batch:
        depth = lane.model_layers // self.groups
        for sequence in lane.prefilling:
            first = sequence.layer
            return Batch((Entry(sequence.id, sequence.need - sequence.computed, first, first + depth),))
        for sequence in lane.queue():
            tokens = sequence.need - lane.cached(sequence)
            if (
                lane.preempted
                or lane.running >= lane.engine.max_sequences
                or not lane.room(lane.blocks_for(sequence, tokens))
            ):
                return Batch((), ALL, UNTIL_HEAD)
            return Batch((Entry(sequence.id, tokens, 0, depth),))
        return Batch((), ALL, UNTIL_CHANGE)


class KeepForTool:
    """Pin a session's KV while its tool runs (Continuum's time-to-live)."""

    def __init__(self, ttl_s: float) -> None:
        self.ttl = round(ttl_s * SECOND)

    def cache(self, request: Any, sequence: Any, lane: Any) -> int:
        return self.ttl if request.session >= 0 else 0


def traffic(rows: int = 60, seed: int = 3) -> Workload:
    """Random requests, a third of them with shared prefixes."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(20, 120, rows).astype("i4")
    offsets = np.arange(rows + 1, dtype="i8")
    prefixes = Prefixes(offsets, rng.integers(0, 4, rows).astype("i8"), np.full(rows, 20, "i4"))
    arrival = np.cumsum(rng.exponential(0.05, rows) * SECOND).astype("i8")
    return Workload(arrival, prompt, rng.integers(1, 40, rows).astype("i4"), prefixes=prefixes)


def both(
    router: Callable[[], Any],
    workload: Workload,
    *,
    engine: Engine | None = None,
    batcher: Any = None,
    cache: Any = None,
    replicas: int = 3,
    blocks: int = BLOCKS,
    faults: tuple[Fault, ...] = (),
) -> Run:
    """Run fast and step by step, with every invariant checked after each event; they must be equal."""
    engine = engine or Engine(token_budget=256, max_sequences=16)
    runs: list[Run] = []
    for one_step in (False, True):
        made = [
            Replica(
                engine,
                COST,
                blocks,
                Policies(batcher=batcher or Chunked(), cache=cache),
                layers=LAYERS,
                one_step=one_step,
            )
            for _ in range(replicas)
        ]
        limit = blocks * engine.block_tokens
        spec = ReplicaSpec(capacity_tokens=limit, blocks=blocks, prefill_rate=1 / COST.prompt_s)
        control = Control(Policies(router=router()), [spec] * replicas, belief=Belief(0.1, 0.01), seed=1)
        cluster = Cluster((Pool(MODEL, DEVICE, replicas=replicas, engine=engine),), faults=faults)
        runs.append(
            World(
                cluster, workload, control, made, [limit] * replicas, watching=Watching(after_event=check_world)
            ).simulate()
        )
    assert_equal(*runs)
    return runs[0]


def finished(run: Run) -> int:
    return list(run.records.status).count(FINISHED)


@pytest.mark.parametrize("router", ROUTERS)
def test_layered_prefill(router: Callable[[], Any]) -> None:
    run = both(router, traffic(), batcher=Layered())
    assert finished(run) == 60


def test_layered_prefill_costs_each_layer_once() -> None:
    """A lone prompt takes its layers' time once, and one step overhead per group."""
    alone = Workload(np.zeros(1, "i8"), np.full(1, 100, "i4"), np.ones(1, "i4"))
    for groups in (1, 2, 4):
        run = both(ROUTERS[0], alone, batcher=Layered(groups), replicas=1)
        assert run.records.first_token_at[0] == round((groups * 0.010 + 100 * 0.0005) * SECOND)


LANES = (Lane("prefill", decode=False, share=0.5), Lane("decode", prefill=False, share=0.5))


@pytest.mark.parametrize("router", ROUTERS)
def test_two_lanes_share_a_device(router: Callable[[], Any]) -> None:
    run = both(router, traffic(), engine=Engine(token_budget=256, max_sequences=16, lanes=LANES))
    assert finished(run) == 60


def test_a_long_prompt_does_not_stretch_decodes_of_the_other_lane() -> None:
    """In one lane a prompt stalls the running decode for its whole step; in two lanes only its share slows it."""
    late = Workload(np.array([0, SECOND // 10], "i8"), np.array([16, 1000], "i4"), np.array([200, 1], "i4"))
    one = both(ROUTERS[0], late, engine=Engine(token_budget=2048, max_sequences=16), replicas=1)
    two = both(ROUTERS[0], late, engine=Engine(token_budget=2048, max_sequences=16, lanes=LANES), replicas=1)
    prefill = 0.010 + 1000 * 0.0005
    decode_steps = 199
    alone = Workload(np.zeros(1, "i8"), np.array([16], "i4"), np.array([200], "i4"))
    quiet = both(ROUTERS[0], alone, engine=Engine(token_budget=2048, max_sequences=16), replicas=1)
    stall = one.records.ended_at[0] - quiet.records.ended_at[0]
    assert stall == round((prefill - 0.010) * SECOND)  # one step was longer by the prompt's work
    halved = both(ROUTERS[0], alone, engine=Engine(token_budget=2048, max_sequences=16, lanes=LANES), replicas=1)
    assert two.records.ended_at[0] == halved.records.ended_at[0]  # the neighbour's prompt is not felt at all
    assert halved.records.ended_at[0] > quiet.records.ended_at[0] + decode_steps * SECOND // 100 // 2


def conversation(pause_s: float, noise: int) -> Workload:
    """A session of two turns with a tool call between, and other prompts that need the cache meanwhile."""
    rows = 2 + noise
    arrival = np.concatenate([[0, 0], SECOND // 2 + np.arange(noise, dtype="i8")]).astype("i8")
    order = np.argsort(arrival, kind="stable")
    prompt = np.concatenate([[160, 240], np.full(noise, 480)]).astype("i4")[order]
    output = np.concatenate([[17, 4], np.full(noise, 4)]).astype("i4")[order]
    session = np.concatenate([[0, 0], np.full(noise, -1)]).astype("i4")[order]
    ids = np.array([1, 1, 2], "i8")
    ends = np.array([160, 160, 176], "i4")
    offsets = np.concatenate([[0, 1, 3], np.full(noise, 3)]).astype("i8")
    prefixes = Prefixes(offsets, ids, ends, np.concatenate([[2, -1], np.full(noise, -1)]).astype("i8"))
    after = np.concatenate([[0, 0, 1], np.full(noise, 1)]).astype("i8")
    delay = np.zeros(rows, "i8")
    delay[1] = round(pause_s * SECOND)
    return Workload(
        arrival[order], prompt, output, prefixes=prefixes, session=session,
        after_offsets=after, after_ids=np.zeros(1, "i8"), delay=delay,
    )  # fmt: skip


@pytest.mark.parametrize("router", ROUTERS)
def test_a_pinned_session_survives_a_tool_call(router: Callable[[], Any]) -> None:
    """With a pin the second turn finds prompt and output of the first; without, others have pushed them out."""
    workload = conversation(pause_s=2.0, noise=9)
    pinned = both(router, workload, cache=KeepForTool(5.0), replicas=1, blocks=60)
    assert finished(pinned) == len(workload)
    assert (
        pinned.records.cached_tokens[1] == 176
    )  # 160 of the prompt and 16 of the output: whole blocks of its 176 tokens
    assert both(router, workload, replicas=1, blocks=60).records.cached_tokens[1] == 0
    late = both(router, workload, cache=KeepForTool(0.4), replicas=1, blocks=60)
    assert late.records.cached_tokens[1] == 0  # the pin ended before the others came


@pytest.mark.parametrize("router", ROUTERS)
def test_a_lost_replica_gives_its_requests_to_the_others(router: Callable[[], Any]) -> None:
    calm = both(router, traffic()).records
    lost = next(calm.replica[row] for row in range(60) if calm.dispatched_at[row] < SECOND < calm.ended_at[row])
    run = both(router, traffic(), faults=(Fault(1.0, "lost", lost),))
    records = run.records
    assert finished(run) == 60
    assert sum(records.retries) > 0
    for row in range(60):
        if records.retries[row]:
            assert records.replica[row] != lost
        elif records.replica[row] == lost:
            assert records.ended_at[row] <= SECOND


@pytest.mark.parametrize("router", ROUTERS)
def test_all_at_once(router: Callable[[], Any]) -> None:
    """Layer ranges, pinned sessions and a lost replica in one run."""
    run = both(router, traffic(), batcher=Layered(), cache=KeepForTool(1.0), faults=(Fault(1.0, "lost", 1),))
    assert finished(run) == 60
