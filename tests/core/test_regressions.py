"""Faults that were found once and shall not come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.action import ONE_STEP, Dispatch, Hold, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.errors import ScenarioError, TraceError
from poise.core.event import Arrived, Cancelled, Reported
from poise.core.records.trace import Trace
from poise.core.request import RequestView
from poise.core.spec import Belief, Engine, ReplicaSpec
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.find import find
from poise.testing import Client, LinearCost, a_request, drive


def R(i: int, at: int = 0, prompt: int = 10, **k: int) -> RequestView:
    return RequestView(i, at, prompt, **k)


def test_a_lone_request_that_preempts_itself_goes_on() -> None:
    a = a_request(id=0, prompt_tokens=9, ids=(1,), ends=(8,))
    b = a._replace(id=1)
    r = Replica(
        Engine(token_budget=2, max_sequences=2, block_tokens=1, reserve_prompt=False),
        LinearCost(),
        19,
        Policies(batcher=Chunked(long_prefill=1)),
    )
    drive(r, [Client(a, 10), Client(b, 1)])


class Tenants:
    needs = ()

    def route(self, request, cluster, chance):
        return Hold("tenant") if request.tenant == 1 else Route(0)


def test_cancel_of_held_head_wakes_those_behind() -> None:
    c = Control(Policies(router=Tenants()), [ReplicaSpec()])
    c.handle(Arrived(0, R(0, tenant=1)))
    c.handle(Arrived(1, R(1)))
    assert list(c.handle(Cancelled(2, 0, "left"))) == [Dispatch(1, 0, 0, True)]


class Least:
    needs = ("tokens",)

    def route(self, request, cluster, chance):
        return Route(chance.least(cluster.able(request), cluster.tokens))


def test_events_are_not_changed_nor_shared() -> None:
    one = Control(Policies(router=Least()), [ReplicaSpec()] * 2)
    two = one.clone()
    event = Reported(0, 0, {"tokens": [0, 5]})
    one.handle(event)
    two.handle(event)
    one.handle(Arrived(1, R(0)))
    assert event.columns == {"tokens": [0, 5]}
    assert list(two.state.tokens) == [0, 5]


def test_period_0_is_exact_at_one_instant() -> None:
    import numpy as np

    from poise.core.model import Model
    from poise.core.spec import Cluster, Device, Pool
    from poise.sim.world import World
    from poise.workload.table import Workload

    seen = []

    class Looks:
        needs = ("tokens", "waiting")

        def route(self, request, cluster, chance):
            seen.append((list(cluster.tokens), list(cluster.waiting)))
            return Route(0)

    pool = Pool(Model("m", 4, 64, 4, 4, 16, 100, 64, 100000), Device("d", "n", 1e12, 10**9, 1e12, scaleout_bw=1e6))
    work = Workload(np.zeros(3, "i8"), np.full(3, 10, "i4"), np.full(3, 3, "i4"))
    replica = Replica(Engine(), LinearCost(), 1000, Policies())
    World(
        Cluster((pool,)),
        work,
        Control(Policies(router=Looks()), [ReplicaSpec()], belief=Belief(0, 0, True)),
        [replica],
        [16000],
    ).simulate()
    assert seen == [([0], [0]), ([10], [1]), ([20], [2])]


def test_least_for_any_order_of_able() -> None:
    assert Chance(0).least((1, 0), [0, 5]) == 0


def test_view_of_decodes_is_current() -> None:
    seen = []

    class Looks(Chunked):
        decodes_alone = False

        def batch(self, lane):
            seen.append([(s.computed, s.produced) for s in lane.decodes()])
            return Chunked.batch(self, lane)._replace(hold=ONE_STEP)

    drive(
        Replica(Engine(), LinearCost(), 100, Policies(batcher=Looks())),
        [Client(a_request(prompt_tokens=5), 4)],
    )
    assert seen == [[], [(5, 1)], [(6, 2)], [(7, 3)]]


def test_short_arrived_line(tmp_path: Path) -> None:
    p = tmp_path / "x"
    p.write_text('{"schema":1}\n["Arrived",0,[1,2],0]\n')
    with pytest.raises(TraceError):
        list(Trace.load(p).items())


def test_find_empty_module() -> None:
    with pytest.raises(ScenarioError):
        find("router", ":Class")
