"""Blame in worlds so small that every part can be worked out on paper; that parts add up is in `test_exact`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from poise.core.action import ALL, UNTIL_CHANGE, Batch, Entry, Hold, Move, Route
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.records import blame
from poise.core.records.attribution import capped_sum
from poise.core.records.blame import MEANING, PARTS
from poise.core.records.records import FINISHED, TIMED_OUT, Run
from poise.core.records.request_log import RequestLog
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool, ReplicaSpec
from poise.core.units import SECOND
from poise.core.view import LaneView
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.route.round_robin import RoundRobin
from poise.sim.terms import Saving
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_blame
from poise.workload.table import Prefixes, Workload
from tests.depth import examples
from tests.sim.cases import DEVICE, MODEL, NONE, Case, cases
from tests.sim.test_exact import COLUMNS

S = SECOND
COST = LinearCost(step_s=10.0, decode_s=1.0, prompt_s=1.0, kv_s=0.0)
"""A step takes 10 s, a second more for each decode and each prompt token."""


def workload(*rows: tuple[float, int, int], **more: Any) -> Workload:
    """Requests as (arrival in seconds, prompt tokens, output tokens)."""
    stamps, prompt, output = zip(*rows, strict=True)
    return Workload(
        np.array([round(at * S) for at in stamps], "i8"), np.array(prompt, "i4"), np.array(output, "i4"), **more
    )


def charged(load: Workload, **options: Any) -> Run:
    """The run, fast and step by step, whose blame must be equal."""
    fast, slow = (simulated(load, one_step=one_step, **options) for one_step in (False, True))
    assert fast.blame == slow.blame
    check_blame(fast)
    return fast


def simulated(
    load: Workload,
    *,
    one_step: bool,
    engine: Engine | None = None,
    cost: LinearCost = COST,
    blocks: int = 1000,
    roles: tuple[str, ...] = ("mixed",),
    batcher: Any = None,
    router: Any = None,
    mover: Any = None,
    swap: bool = False,
    resume: bool = True,
    faults: tuple[Fault, ...] = (),
    diary: RequestLog | None = None,
    **cluster: Any,
) -> Run:
    engine = engine or Engine(token_budget=4096, max_sequences=16, block_tokens=1)
    joining = {fault.replica for fault in faults if fault.kind == "join"}
    replicas = [
        Replica(
            engine,
            cost,
            blocks,
            Policies(batcher=batcher or Chunked(), preempt=LastAdmitted(swap)),
            sends=role == "prefill",
            one_step=one_step,
        )
        for role in roles
    ]
    specs = [ReplicaSpec(role=role, capacity_tokens=blocks, up=at not in joining) for at, role in enumerate(roles)]  # type: ignore[arg-type]
    control = Control(Policies(router=router or RoundRobin(), mover=mover), specs, belief=Belief(0), resume=resume)
    pools = tuple(Pool(MODEL, DEVICE, role=role, engine=engine) for role in roles)  # type: ignore[arg-type]
    limits = [blocks] * len(roles)
    whole = Cluster(pools, faults=faults, **cluster)
    return World(whole, load, control, replicas, limits, saving=Saving(blame=True, diary=diary)).simulate()


def parts(run: Run, row: int) -> tuple[dict[str, float], dict[str, float]]:
    """The parts of a request that are not nothing, in seconds: until its first token, and after."""
    assert run.blame is not None
    ttft, rest = (
        {name: column[row] / S for name, column in zip(PARTS, half, strict=True) if column[row]}
        for half in (run.blame.ttft, run.blame.rest)
    )
    return ttft, rest


def test_every_part_has_a_meaning() -> None:
    assert [getattr(blame, name.upper()) for name in MEANING] == list(range(len(blame.PARTS)))


def test_alone_it_is_all_its_own() -> None:
    cost = LinearCost(step_s=10.0, decode_s=1.0, prompt_s=1.0, kv_s=0.5, window_s=0.25, window=8)
    run = charged(workload((3.0, 5, 9)), cost=cost)
    contexts = range(6, 14)
    decode = sum(11 + 0.5 * context + 0.25 * min(context, 8) for context in contexts)
    assert parts(run, 0) == ({"prefill": 15.0}, {"decode": decode})


def test_batch_mates_share_a_step() -> None:
    """Two equal requests at once: a step of 20 s for the prompts, of 12 s for each token; alone 15 and 11."""
    run = charged(workload((0, 5, 4), (0, 5, 4)))
    for row in (0, 1):
        assert parts(run, row) == (
            {"prefill": 15.0, "prefill_others": 5.0},
            {"decode": 33.0, "decode_others": 3.0},
        )


def test_a_prompt_between_is_others_to_a_decode_and_the_running_step_is_the_queue() -> None:
    """The second arrives in the first's decode step (15–26 s), waits 6 s, and makes the next one 100 s longer."""
    run = charged(workload((0, 5, 3), (20, 100, 1)))
    assert parts(run, 0) == ({"prefill": 15.0}, {"decode": 22.0, "decode_others": 100.0})
    assert parts(run, 1) == ({"queue": 6.0, "prefill": 110.0, "prefill_others": 1.0}, {})


def same_prompt(rows: int, tokens: int) -> Prefixes:
    ones = np.ones(rows, "i8")
    return Prefixes(np.arange(rows + 1, dtype="i8"), ones, (ones * tokens).astype("i4"))


def test_a_miss_is_what_an_infinite_cache_would_have_held() -> None:
    """The second prompt shares 80 of 100 tokens with the first, which is long gone."""
    load = workload((0, 100, 1), (500, 100, 1), prefixes=same_prompt(2, 80))
    cold = Engine(token_budget=4096, max_sequences=16, block_tokens=1, prefix_caching=False)
    assert parts(charged(load), 1) == ({"prefill": 30.0}, {})
    assert parts(charged(load, engine=cold), 1) == ({"prefill": 30.0, "miss": 80.0}, {})
    chunked = Engine(token_budget=50, max_sequences=16, block_tokens=1, prefix_caching=False)
    ran = parts(charged(load, engine=chunked), 1)  # 50 missed tokens in a step of their own; 30 and the other 20 in one
    assert ran == ({"prefill": 30.0, "miss": 90.0}, {})


def test_a_full_hit_still_computes_its_last_token() -> None:
    load = workload((0, 64, 1), (500, 64, 1), prefixes=same_prompt(2, 64))
    blocks = Engine(token_budget=4096, max_sequences=16, block_tokens=16)
    assert parts(charged(load, engine=blocks), 1) == ({"prefill": 26.0}, {})  # vLLM gives the last block back


def test_a_pair_sends_over_links_one_after_the_other() -> None:
    """Two prompts of one step leave together; KV of 4 and 8 tokens at a token a second, and 2 s of latency."""
    load = workload((0, 5, 2), (0, 9, 2))
    run = charged(load, roles=("prefill", "decode"), link_bw=1000.0, link_latency_s=2.0)
    ttft, rest = parts(run, 0)
    assert (ttft.get("link_wait", 0.0), ttft["transfer"]) == (0.0, 6.0)
    assert (ttft["prefill"], ttft["prefill_others"]) == (15.0 + 11.0, 9.0)  # its last token is computed over there
    ttft, rest = parts(run, 1)
    assert (ttft["link_wait"], ttft["transfer"]) == (4.0, 10.0)
    early = charged(load, roles=("prefill", "decode"), link_bw=1000.0, engine=Engine(
        token_budget=4096, max_sequences=16, block_tokens=1, first_token="prefill"))  # fmt: skip
    ttft, rest = parts(early, 0)
    assert "transfer" not in ttft and rest["transfer"] > 0


def test_who_gave_way_is_charged_until_it_decodes_again() -> None:
    """Twelve blocks: with 5 and 4 tokens each, the second gives way after two steps, and waits for the first."""
    run = charged(workload((0, 5, 5), (0, 4, 5)), blocks=12)
    assert run.records.preemptions[1] == 1
    _, rest = parts(run, 1)
    assert set(rest) == {"decode", "decode_others", "preempted"}
    assert rest["decode"] == 33.0  # four tokens: one comes with the prompt and its output computed again
    _, first = parts(run, 0)
    assert first == {"decode": 44.0, "decode_others": 1.0}


def test_swapping_is_charged_to_who_is_swapped() -> None:
    cost = LinearCost(step_s=10.0, decode_s=1.0, prompt_s=1.0, swap_bw=1000.0)  # a second a token
    engine = Engine(token_budget=4096, max_sequences=16, block_tokens=1, host_kv_bytes=10**6)
    run = charged(workload((0, 5, 5), (0, 4, 5)), blocks=12, swap=True, cost=cost, engine=engine)
    assert run.records.preemptions[1] == 1
    _, rest = parts(run, 1)
    assert (rest["decode"], rest.get("decode_others", 0.0)) == (44.0, 1.0)
    _, first = parts(run, 0)
    assert first["decode_others"] > 1.0  # the step that swapped was longer for it, too


def test_a_prompt_that_gave_way_is_charged_for_what_it_computes_twice() -> None:
    """The second prompt has 20 of 40 tokens when the first decode needs its blocks."""
    engine = Engine(token_budget=21, max_sequences=16, block_tokens=1, reserve_prompt=False, prefix_caching=False)
    run = charged(workload((0, 20, 10), (1, 40, 1)), blocks=43, engine=engine)
    assert run.records.preemptions[1] >= 1
    ttft, _ = parts(run, 1)
    assert ttft["preempted"] > 0
    assert ttft["prefill"] >= 10.0 + 40.0


def test_a_lost_prompt_is_thrown_away() -> None:
    """Lost 8 s into its prompt of 15 s: those are gone; the other replica computes it from the beginning."""
    run = charged(workload((2, 5, 1)), roles=("mixed", "mixed"), faults=(Fault(10.0, "lost", 0),))
    assert parts(run, 0) == ({"lost": 8.0, "prefill": 15.0}, {})


def test_tokens_that_the_client_has_are_kept() -> None:
    """Lost at 30 s, with the first token at 15 s and the second at 26 s: 4 s and the KV computed again are lost."""
    load, faults = workload((0, 5, 4)), (Fault(30.0, "lost", 0),)
    run = charged(load, roles=("mixed", "mixed"), faults=faults)
    ttft, rest = parts(run, 0)
    assert ttft == {"prefill": 15.0}
    assert rest == {"decode": 26.0, "lost": 17.0}  # 11 and 4 s decoding, 7 tokens again (giving the third), 11 s
    again = charged(load, roles=("mixed", "mixed"), faults=faults, resume=False)
    assert parts(again, 0) == ({"lost": 30.0, "prefill": 15.0}, {"decode": 33.0})


def test_a_client_that_leaves_is_charged_for_the_part_of_the_step_that_it_saw() -> None:
    """It leaves 3 s into its prompt's step of 15 s, of which 10 s are its own."""
    load = workload((0, 5, 9), (0, 5, 9), timeout=np.array([0, 3 * S], "i8"))
    cost = LinearCost(step_s=5.0, prompt_s=1.0)
    run = charged(load, cost=cost)
    assert run.records.status[1] == TIMED_OUT
    assert parts(run, 1) == ({"prefill": 2.0, "prefill_others": 1.0}, {})


class Doorkeeper:
    """Holds everybody until an instant."""

    needs = ()

    def __init__(self, until: int) -> None:
        self.until = until

    def route(self, request: Any, cluster: Any, chance: Any) -> Route | Hold:
        return Route(cluster.able(request)[0]) if cluster.now >= self.until else Hold("not yet", self.until)


def test_held_by_the_router_or_for_want_of_a_replica() -> None:
    """Nothing is up until 20 s; then the router holds until 50 s."""
    run = charged(workload((5, 5, 1)), router=Doorkeeper(50 * S), faults=(Fault(20.0, "join", 0),))
    assert parts(run, 0) == ({"no_replica": 15.0, "gateway": 30.0, "prefill": 15.0}, {})


def test_turned_away_until_its_client_tries_again() -> None:
    """No replica can hold 5,000 tokens: refused at once, and again a second later."""
    load = workload((0, 5, 1), (0, 5000, 1), retry=1)
    run = charged(load)
    assert parts(run, 1) == ({"retry": 1.0}, {})


class Once:
    """Moves request 0 from replica 0 to replica 1 when another one arrives."""

    needs = ("flights",)
    eager = True

    def move(self, cluster: Any) -> list[Move]:
        return [Move(0, 0, 1) for each in cluster.flights(0) if each.sent_at < cluster.now and each.target < 0]


def test_a_move_is_its_own_part_only_while_the_request_stands_still() -> None:
    """A prompt of 40 tokens until 50 s, then 10 s a token; KV at a token a second and 2 s of latency.

    The second arrival, at 75 s, has it moved: 42 tokens until 119 s, while it decodes on, to the boundary at 120 s. The
    five tokens that it has made since take 7 s; then four more are to come at the other replica.
    """
    cost = LinearCost(step_s=10.0, prompt_s=1.0, token_bytes=1000)
    load = workload((0, 40, 12), (75, 1, 1))
    run = charged(load, roles=("mixed", "mixed"), cost=cost, mover=Once(), link_bw=1000.0, link_latency_s=2.0)
    assert run.records.migrations[0] == 1
    ttft, rest = parts(run, 0)
    assert ttft == {"prefill": 50.0}
    assert rest == {"decode": 70.0 + 40.0, "moving": 7.0}


class Napper:
    """Lets the lane idle between a prompt's two halves until the next arrival."""

    def batch(self, lane: LaneView) -> Batch:
        for sequence in lane.prefilling:
            return Batch((Entry(sequence.id, sequence.need - sequence.computed),)) if lane.waiting else Batch()
        for sequence in lane.queue():
            return Batch((Entry(sequence.id, 5),))
        return Batch((), ALL, UNTIL_CHANGE)


def test_an_engine_that_idles_is_distinguished() -> None:
    """Half a prompt by 15 s, nothing until the second request comes at 40 s, the other half until 55 s."""
    run = charged(workload((0, 10, 1), (40, 5, 1)), batcher=Napper())
    assert parts(run, 0) == ({"prefill": 30.0, "idle": 25.0}, {})


class SetUp(Chunked):
    """Sets up for prompts."""

    def batch(self, lane: LaneView) -> Batch:
        batch = Chunked.batch(self, lane)
        return batch._replace(setup=7 * S if batch.entries else 0)


def test_a_setup_is_others_to_whoever_waits_for_it() -> None:
    """7 s and a prompt by 22 s, a token by 33 s, 7 s and the next one's prompt beside a token, another token."""
    run = charged(workload((0, 5, 4), (30, 5, 1)), batcher=SetUp())
    assert parts(run, 0) == ({"prefill": 15.0, "prefill_others": 7.0}, {"decode": 33.0, "decode_others": 12.0})
    assert parts(run, 1) == ({"queue": 3.0, "prefill": 15.0, "prefill_others": 8.0}, {})


@pytest.mark.deep
@given(cases())
@settings(max_examples=examples(60))
def test_asking_for_blame_changes_nothing(case: Case) -> None:
    with_blame, plain = (case.build(one_step=False, check=False, blame=each).simulate() for each in (True, False))
    assert plain.blame is None
    assert all(getattr(with_blame.records, name) == getattr(plain.records, name) for name in COLUMNS)


@given(cases())
@settings(max_examples=60)
def test_own_parts_are_those_of_the_request_alone(case: Case) -> None:
    """A world of one request, without faults: there is nobody to wait for."""
    alone = replace(case.cluster, faults=())
    quiet = replace(case, workload=case.workload.head(1), cluster=alone, lender=NONE)
    run = quiet.build(one_step=False, check=False, blame=True).simulate()
    if run.records.status[0] == FINISHED and not run.records.preemptions[0]:
        ttft, rest = parts(run, 0)
        assert {*ttft, *rest} <= {"prefill", "decode", "transfer", "moving"}


def test_capped_sum() -> None:
    for first in range(1, 8):
        for last in range(first - 1, 12):
            for cap in range(1, 12):
                assert capped_sum(first, last, cap) == sum(min(c, cap) for c in range(first, last + 1))
