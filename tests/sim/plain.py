"""Random plain worlds: requests by the clock, a router, replicas of one lane under a budget; no more than that.

They take the quick ways of the simulator nearly throughout, which `tests.sim.cases` does only now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from poise.core.action import Hold, Reject, Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.spec import Belief, Cluster, Engine, Pool
from poise.core.view import ClusterView
from poise.policies.batch.chunked import Chunked
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.random_choice import RandomChoice
from poise.policies.route.round_robin import RoundRobin
from poise.testing.cost import LinearCost
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, LAYERS, MODEL, Case, _often, _prefixes


class Called(Chunked):
    """The same batches without the promise: the batcher is asked for each of them."""


class Wary:
    """The least loaded replica, but holds some requests while others are there, and turns some away.

    Which ones hangs on how often it was asked, so a world that asks once more is another world.
    """

    needs: ClassVar[tuple[str, ...]] = ("requests",)

    def __init__(self) -> None:
        self.called = 0

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold | Reject:
        self.called += 1
        if self.called % 5 == 3 and sum(cluster.requests) > 2:
            return Hold("others first")
        if self.called % 7 == 6:
            return Reject("not this one")
        return Route(chance.least(cluster.able(request), cluster.requests))


ROUTERS: tuple[Callable[[], Any], ...] = (
    RoundRobin, LeastRequests, LeastRequests, LeastTokens, PowerOfTwo, RandomChoice, PrefixCache, Wary,
)  # fmt: skip


def _workload(draw: st.DrawFn, step: int, most: int) -> Workload:
    rows = draw(st.integers(1, 30))
    stretch = draw(st.sampled_from((1, 50, 500)))
    stamps = draw(st.lists(st.integers(0, stretch), min_size=rows, max_size=rows))
    prompt = np.array(draw(st.lists(st.integers(1, most), min_size=rows, max_size=rows)), "i4")
    output = np.array(draw(st.lists(st.integers(1, 30), min_size=rows, max_size=rows)), "i4")
    more: dict[str, Any] = {"prefixes": _prefixes(draw, prompt)} if _often(draw, 50) else {}
    if _often(draw, 20):
        more["max_tokens"] = np.full(rows, 12, "i4")
    if _often(draw, 20):
        more["session"] = np.array(draw(st.lists(st.integers(-1, 3), min_size=rows, max_size=rows)), "i4")
    return Workload(np.sort(np.array(stamps, "i8") * step), prompt, output, **more)


@st.composite
def plain_cases(draw: st.DrawFn) -> Case:
    """One random plain world of 1 to 40 replicas; `step` is the tick of its clock in picoseconds."""
    step = 10 ** draw(st.sampled_from((2, 3, 6)))
    unit = step / 1e12
    block = draw(st.sampled_from((1, 4, 16)))
    tokens = draw(st.sampled_from((75, 100, 200, 2000)))
    sequences = draw(st.integers(1, 8))
    engine = Engine(
        token_budget=draw(st.integers(sequences, 64)),
        max_sequences=sequences,
        block_tokens=block,
        prefix_caching=_often(draw, 70),
        reserve_prompt=_often(draw, 50),
        rank_budget=draw(st.sampled_from((0, 0, 7))),
    )
    window = draw(st.sampled_from((0, 0, 0, 16)))
    cost = LinearCost(
        step_s=draw(st.sampled_from((1, 3, 10))) * unit,
        decode_s=draw(st.integers(0, 1)) * unit,
        prompt_s=draw(st.integers(0, 1)) * unit,
        kv_s=draw(st.integers(0, 1)) * unit,
        window_s=draw(st.integers(0, 1)) * unit if window else 0.0,
        window=window,
        layers=LAYERS,
    )
    replicas = draw(st.one_of(st.integers(1, 4), st.integers(20, 40)))
    return Case(
        seed=draw(st.integers(0, 2**32)),
        workload=_workload(draw, step, min(tokens + 5, 120)),
        engine=engine,
        cost=cost,
        blocks=-(-tokens // block),
        roles=["mixed"] * replicas,
        cluster=Cluster((Pool(MODEL, DEVICE, engine=engine, replicas=replicas),)),
        router=draw(st.sampled_from(ROUTERS)),
        belief=Belief(draw(st.sampled_from((5, 50))) * unit, draw(st.sampled_from((0, 3))) * unit),
        ttl=0,
        swap=False,
        ordered=_often(draw, 15),
        until_s=draw(st.sampled_from((None, None, None, 100 * unit))),
        drain=_often(draw, 70),
        resume=True,
        long_prefill=(cap := draw(st.sampled_from((0, 0, 5)))),
        mover=type(None),
        batcher=partial(Chunked, long_prefill=cap),
    )
