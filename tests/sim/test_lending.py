"""KV blocks lent between replicas: what fits, what steps take, what comes back, and what a loss leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poise.core.action import Lend, Route
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.errors import PolicyError
from poise.core.event import Lent
from poise.core.records.records import FINISHED, Run
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool, ReplicaSpec
from poise.core.units import SECOND, ps, seconds
from poise.core.view import ClusterView
from poise.policies import Policies
from poise.sim.terms import Saving, Watching
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_exact import assert_equal

COST = LinearCost(step_s=0.01, kv_s=1e-5, token_bytes=1000)
BELIEF = Belief(0.1, 0.0)
BLOCK = 16


class By:
    """Send each request to the replica of its tenant."""

    needs: tuple[str, ...] = ()

    def route(self, request: Any, cluster: ClusterView, chance: Any) -> Any:
        able = cluster.able(request)
        return Route(request.tenant if request.tenant in able else able[0])


class Script:
    """Ask for these loans, each at the first report that is not earlier than so many seconds."""

    needs = ("free_blocks",)

    def __init__(self, *loans: tuple[float, Lend]) -> None:
        self.loans = list(loans)

    def lend(self, cluster: ClusterView) -> list[Lend]:
        now = [loan for at, loan in self.loans if cluster.now >= ps(at)]
        self.loans = [(at, loan) for at, loan in self.loans if cluster.now < ps(at)]
        return now


def a_load(*rows: tuple[float, int, int, int]) -> Workload:
    """Requests of (arrival in s, replica, prompt tokens, output tokens)."""
    arrival, where, prompt, output = zip(*rows, strict=True)
    return Workload(
        np.array(arrival) * SECOND // 1, np.array(prompt, "i4"), np.array(output, "i4"), tenant=np.array(where, "i4")
    )


def run(
    workload: Workload,
    *loans: tuple[float, Lend],
    blocks: int = 100,
    faults: tuple[Fault, ...] = (),
    replicas: int = 2,
    latency_s: float = 0.001,
    gateways: int = 1,
    traces: tuple[Trace, Trace] | None = None,
) -> Run:
    """Fast and step by step, every invariant checked after each event."""
    engine, limit = Engine(token_budget=4096, max_sequences=8, prefix_caching=False), blocks * BLOCK
    pools = tuple(Pool(MODEL, DEVICE, engine=engine) for _ in range(replicas))
    cluster = Cluster(pools, link_bw=1e8, link_latency_s=latency_s, faults=faults)
    traces = traces or (Trace(), Trace())
    runs = []
    for one_step, trace in zip((False, True), traces, strict=True):
        built = [Replica(engine, COST, blocks, Policies(), layers=4, one_step=one_step) for _ in range(replicas)]
        specs = [ReplicaSpec(capacity_tokens=limit, blocks=blocks) for _ in range(replicas)]
        controls = [
            Control(Policies(router=By(), lender=Script(*loans)), specs, belief=BELIEF) for _ in range(gateways)
        ]
        world = World(
            cluster,
            workload,
            controls,
            built,
            [limit] * replicas,
            saving=Saving(trace=trace),
            watching=Watching(after_event=check_world),
        )
        runs.append(world.simulate())
    assert_equal(*runs)
    assert traces[0].lines == traces[1].lines
    return runs[0]


def lent(trace: Trace) -> list[tuple[int, int, int, str]]:
    return [(each.debtor, each.creditor, each.blocks, each.reason) for each in trace.items() if isinstance(each, Lent)]


def span(outcome: Run, row: int) -> float:
    return seconds(outcome.records.ended_at[row] - outcome.records.arrived_at[row])


FULL = ((0.0, 0, 1000, 100), (0.0, 0, 1000, 100))
"""Two requests for 100 blocks: one of 69 at its end, and another of as many."""


def test_borrowed_blocks_admit_who_would_wait() -> None:
    alone, lent = run(a_load(*FULL)), run(a_load(*FULL), (0.05, Lend(0, 1, 50)))
    assert (alone.loans, lent.loans, lent.loans_refused) == (0, 1, 0)
    assert alone.records.first_token_at[1] > alone.records.ended_at[0]
    assert lent.records.first_token_at[1] < lent.records.ended_at[0]


def test_a_loan_counts_when_its_bytes_have_crossed_the_link() -> None:
    """50 blocks of 16 tokens of 1,000 bytes at 100 MB/s, and 1 ms: 9 ms behind the report at 0.1 s."""
    outcome = run(a_load(*FULL), (0.05, Lend(0, 1, 50)))
    first = seconds(outcome.records.first_token_at[1])
    assert 0.1 + 0.008 + 0.001 < first < 0.1 + 0.009 + 0.01 + 0.03


def test_what_steps_take() -> None:
    """320 tokens are lent while a request of 1,000 decodes: the debtor reads 320 fewer, 8 messages of 1 ms longer.

    A step of the creditor reads 320 more: 3.2 ms each.
    """
    load = a_load((0.0, 0, 1000, 200), (0.0, 1, 100, 200))
    still, lent = run(load), run(load, (0.05, Lend(0, 1, 20)))
    free = run(load, (0.05, Lend(0, 1, 20)), latency_s=0.0)
    debtor, creditor = (lambda outcome: span(outcome, 0)), (lambda outcome: span(outcome, 1))
    steps = 193
    assert debtor(still) - debtor(free) == pytest.approx(steps * 0.0032, rel=0.03)
    assert debtor(lent) - debtor(free) == pytest.approx(steps * 0.008, rel=0.03)
    assert creditor(free) - creditor(still) == pytest.approx(steps * 0.0032, rel=0.03)


def test_a_creditor_lends_what_it_has_and_no_more() -> None:
    """480 tokens, those made since and that of the step under way: 31 blocks. Its next one calls the loan back."""
    traces = Trace(), Trace()
    loan = Lend(0, 1, 80)
    outcome = run(a_load((0.0, 1, 480, 100)), (0.05, loan), (0.05, loan), traces=traces)
    assert lent(traces[0])[:2] == [(0, 1, 69, ""), (0, 1, 0, "it has no blocks to spare")]
    assert (outcome.loans, outcome.loans_refused) == (1, 1)


@pytest.mark.parametrize(
    ("loan", "reason"),
    [
        (Lend(2, 0, 5), "who borrows does not lend"),
        (Lend(1, 2, 5), "who borrows does not lend"),
        (Lend(0, 2, 5), "requests wait at the creditor"),
    ],
)
def test_what_is_refused(loan: Lend, reason: str) -> None:
    load = a_load((0.0, 0, 100, 200), (0.0, 2, 1000, 200), (0.0, 2, 1000, 200))
    traces = Trace(), Trace()
    outcome = run(load, (0.05, Lend(0, 1, 10)), (0.2, loan), replicas=3, traces=traces)
    assert lent(traces[0])[1] == (*loan[:2], 0, reason) and outcome.loans_refused == 1


def test_what_is_free_comes_back_at_once_and_the_rest_when_its_requests_end() -> None:
    traces = Trace(), Trace()
    run(a_load(*FULL), (0.05, Lend(0, 1, 50)), (0.5, Lend(0, 1, -50)), traces=traces)
    first, *back = lent(traces[0])
    assert first == (0, 1, 50, "") and len(back) > 1
    assert sum(blocks for _, _, blocks, _ in back) == -50


def test_a_creditor_whose_request_gives_way_calls_its_loans_back() -> None:
    """The creditor's own request needs 69 blocks, and 50 are lent: those go back as soon as they are free."""
    load = a_load((0.0, 1, 700, 400), (0.0, 0, 100, 60))
    traces = Trace(), Trace()
    outcome = run(load, (0.05, Lend(0, 1, 50)), traces=traces)
    assert list(outcome.records.status) == [FINISHED] * 2
    assert sum(blocks for _, _, blocks, _ in lent(traces[0])) == 0


def test_who_waits_at_an_empty_creditor_gets_its_blocks_back() -> None:
    load = a_load((0.0, 0, 100, 60), (0.3, 1, 1500, 10))
    outcome = run(load, (0.05, Lend(0, 1, 100)))
    assert list(outcome.records.status) == [FINISHED] * 2
    assert span(outcome, 1) < 0.5


def test_the_loss_of_a_creditor_has_those_give_way_who_no_longer_fit() -> None:
    load, loan = a_load(*FULL), (0.05, Lend(0, 1, 50))
    outcome = run(load, loan, faults=(Fault(0.6, "lost", 1),))
    assert list(outcome.records.status) == [FINISHED] * 2
    assert list(outcome.records.preemptions) == [0, 1]
    assert outcome.records.retries[0] == outcome.records.retries[1] == 0
    assert sum(run(load, loan).records.preemptions) == 0


def test_the_loss_of_a_debtor_gives_its_blocks_back() -> None:
    load = a_load((0.0, 0, 100, 400), (0.0, 1, 100, 50), (1.0, 1, 1500, 20))
    outcome = run(load, (0.05, Lend(0, 1, 80)), faults=(Fault(0.6, "lost", 0),))
    assert list(outcome.records.status) == [FINISHED] * 3
    assert list(outcome.records.preemptions) == [0, 0, 0]


def test_a_creditor_that_drains_calls_its_loans_back() -> None:
    traces = Trace(), Trace()
    load = a_load((0.0, 0, 100, 100), (0.0, 1, 100, 100))
    run(load, (0.05, Lend(0, 1, 40)), faults=(Fault(0.5, "drain", 1),), traces=traces)
    assert lent(traces[0]) == [(0, 1, 40, ""), (0, 1, -40, "")]


def test_several_gateways_see_the_same_loans() -> None:
    outcome = run(a_load(*FULL), (0.05, Lend(0, 1, 60)), (0.3, Lend(0, 1, -10)), gateways=2)
    assert (outcome.loans, outcome.loans_refused) == (2, 0)


def test_a_recorded_run_replays() -> None:
    traces = Trace(), Trace()
    loans = (0.05, Lend(0, 1, 50)), (0.5, Lend(0, 1, -50))
    run(a_load(*FULL), *loans, traces=traces)
    specs = [ReplicaSpec(capacity_tokens=1600, blocks=100)] * 2
    again = replay(traces[0].events, Control(Policies(router=By(), lender=Script(*loans)), specs, belief=BELIEF))
    assert again == list(traces[0].actions)
    assert [each for each in again if isinstance(each, Lend)] == [loan for _, loan in loans]


@pytest.mark.parametrize(
    ("loan", "message"),
    [
        (Lend(0, 0, 5), "a replica cannot lend to itself"),
        (Lend(0, 7, 5), "there are 2 replicas"),
        (Lend(0, 1, -5), "0 blocks are lent"),
        (Lend(0, 1, 0), "0 blocks are lent"),
    ],
)
def test_a_loan_that_cannot_be_is_the_policys_mistake(loan: Lend, message: str) -> None:
    with pytest.raises(PolicyError, match=f"Script asks for .*{message}"):
        run(a_load((0.0, 0, 10, 50)), (0.05, loan))
