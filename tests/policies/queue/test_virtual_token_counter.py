"""VTC inside the engine: whose turn it is, and its bound on what random crowds were served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.records.records import FINISHED, Run
from poise.core.spec import Cluster, Engine, Lane, Pool
from poise.policies import Policies
from poise.policies.batch.layered_prefill import LayeredPrefill
from poise.policies.queue.virtual_token_counter import VirtualTokenCounter
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching
from poise.sim.world import World
from poise.testing import LinearCost, a_request
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL

LONGEST, MOST = 40, 30
"""Prompt and output tokens of a request at most."""

ALONE = (Lane(),)
LANES = (Lane("p", True, False, 0.5), Lane("d", False, True, 0.5))


class Recipe:
    """The same cost for all pools."""

    def build(self, pool: Pool) -> Any:
        return LinearCost(step_s=0.01, prompt_s=0.001, decode_s=0.0005, kv_s=0.0)


def served(load: Workload, queue: Any, sequences: int = 4, blocks: int = 1000, lanes: Any = ALONE, **more: Any) -> Run:
    """One engine under a crowd."""
    engine = Engine(token_budget=max(sequences, 32), max_sequences=sequences, kv_blocks=blocks, lanes=lanes)
    policies = Policies(queue=queue, batcher=more.pop("batcher", Policies().batcher))
    return simulate(Cluster((Pool(MODEL, DEVICE, engine=engine),)), load, policies, cost=Recipe(), **more)


class Widest:
    """By how much the service of two tenants differs at most over a time in which both wait in the engine."""

    def __init__(self, load: Workload) -> None:
        self.most = 0.0
        self._load = load
        self._spans: dict[tuple[int, int], list[float]] = {}

    def look(self, world: World) -> None:
        """After each event."""
        load, (replica,) = self._load, world.replicas
        assert load.tenant is not None
        service = dict.fromkeys(load.tenant.tolist(), 0.0)
        waits = {each.id for each in replica.waiting}
        for row, tenant in enumerate(load.tenant.tolist()):
            if world.records.status[row] == FINISHED:
                service[tenant] += int(load.prompt[row]) + 2 * int(load.output[row])
            elif row in replica.sequences:
                sequence = replica.sequences[row]
                made = replica.progress(row, world.agenda.now, True)
                if row not in waits or sequence.preemptions:
                    service[tenant] += int(load.prompt[row]) + 2 * made
        waiting = {int(load.tenant[row]) for row in waits}
        pairs = {(one, other) for one in waiting for other in waiting if one < other}
        self._spans = {pair: span for pair, span in self._spans.items() if pair in pairs}
        for one, other in pairs:
            gap = service[one] - service[other]
            span = self._spans.setdefault((one, other), [gap, gap])
            span[:] = min(span[0], gap), max(span[1], gap)
            self.most = max(self.most, span[1] - span[0])


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Workload, int, int]:
    """Requests of several tenants, `max_sequences` of the engine and its KV blocks, which may run out."""
    rows = draw(st.integers(10, 50))
    stretch = draw(st.sampled_from((0, 10**11, 2 * 10**12)))

    def column(least: int, most: int) -> Any:
        return np.array(draw(st.lists(st.integers(least, most), min_size=rows, max_size=rows)), "i4")

    tenants, flood, lots = draw(st.integers(2, 4)), draw(st.sampled_from((0, 50, 90))), column(0, 99)
    arrival = np.sort(np.array(draw(st.lists(st.integers(0, stretch), min_size=rows, max_size=rows)), "i8"))
    tenant = np.where(lots < flood, 0, lots % tenants).astype("i4")
    load = Workload(arrival, column(1, LONGEST), column(1, MOST), tenant=tenant)
    return load, draw(st.integers(1, 6)), draw(st.sampled_from((1000, 1000, 8, 12)))


def bound(sequences: int) -> int:
    """Twice U: of a prompt, and of all that running requests have left."""
    return 2 * (LONGEST + 2 * sequences * MOST)


@given(crowds(), st.sampled_from([ALONE, LANES]))
@settings(max_examples=80)
def test_the_service_of_two_waiting_tenants_keeps_its_bound(crowd: tuple[Workload, int, int], lanes: Any) -> None:
    """Theorem 4.4, with `max_sequences` requests of the longest output in place of the reserved tokens M."""
    load, sequences, blocks = crowd
    widest = Widest(load)
    run = served(
        load, VirtualTokenCounter(), sequences, blocks, lanes, one_step=True, watching=Watching(after_event=widest.look)
    )
    assert set(run.records.status) == {FINISHED}
    assert widest.most <= bound(sequences)


@given(crowds())
@settings(max_examples=20)
def test_it_composes_with_batchers_by_layers(crowd: tuple[Workload, int, int]) -> None:
    load, sequences, _ = crowd
    widest = Widest(load)
    served(
        load,
        VirtualTokenCounter(),
        sequences,
        batcher=LayeredPrefill(),
        one_step=True,
        watching=Watching(after_event=widest.look),
    )
    assert widest.most <= bound(sequences)


def flood() -> Workload:
    """200 requests of tenant 0 and 30 of tenant 1 behind them, all at once, of the largest size."""
    tenant = np.repeat(np.array([0, 1], "i4"), [200, 30])
    return Workload(np.zeros(230, "i8"), np.full(230, LONGEST, "i4"), np.full(230, MOST, "i4"), tenant=tenant)


def test_a_flood_breaks_the_bound_where_arrival_decides() -> None:
    """So that the tests above can fail."""
    widest = Widest(flood())
    served(flood(), None, one_step=True, watching=Watching(after_event=widest.look))
    assert widest.most > bound(4)


@pytest.mark.parametrize(("weight", "share"), [(1.0, 0.5), (3.0, 0.75)])
def test_service_follows_weights(weight: float, share: float) -> None:
    run = served(flood(), VirtualTokenCounter(weights={1: weight}))
    order = sorted(range(230), key=lambda row: (run.records.first_token_at[row], row))
    both = order[4:36]
    assert sum(row >= 200 for row in both) / len(both) == pytest.approx(share, abs=0.1)


def test_who_comes_back_claims_nothing_from_before() -> None:
    """Tenant 1 arrives when tenant 0 was served for a second; they take turns from then on."""
    load = flood()
    arrival = np.where(load.tenant == 1, 10**12, 0).astype("i8")
    run = served(replace(load, arrival=arrival), VirtualTokenCounter(), sequences=1)
    after = sorted(range(230), key=run.records.first_token_at.__getitem__)[3:23]
    assert sum(row >= 200 for row in after) / len(after) == pytest.approx(0.5, abs=0.1)


def test_it_keeps_the_engine_as_busy_as_by_arrival() -> None:
    """Work conserving: requests all alike take as long together in any order."""
    fair, plain = (max(served(flood(), queue).records.ended_at) for queue in (VirtualTokenCounter(), None))
    assert fair == plain


def test_prompts_ahead_count_as_admitted() -> None:
    queue = VirtualTokenCounter(weights={1: 2.0})
    queue.joined(a_request(tenant=0), [])
    queue.joined(a_request(tenant=1), [0])
    ahead = [a_request(prompt_tokens=10)]
    assert (queue.rank(0, ahead, 0), queue.rank(1, ahead, 0)) == (10.0, 5.0)


@pytest.mark.parametrize("wrong", [{"output_weight": -1.0}, {"weights": {0: 0.0}}])
def test_weights_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="give"):
        VirtualTokenCounter(**wrong)
