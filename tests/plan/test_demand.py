"""The busiest stretch, and traffic that cannot be planned for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.plan.autoscale import WINDOWS, autoscale
from poise.plan.demand import busiest, demand_of, span_s, tokens_per_s
from poise.workload import Workload, closed, poisson


def at(instants: list[float], prompts: list[int]) -> Workload:
    return Workload(
        arrival=np.array([round(instant * SECOND) for instant in instants], dtype=np.int64),
        prompt=np.array(prompts, dtype=np.int32),
        output=np.ones(len(prompts), dtype=np.int32),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(1, 900)), min_size=4, max_size=40), st.integers(2, 10))
def test_the_busiest_stretch_has_the_most_tokens_per_second(rows: list[tuple[float, int]], wanted: int) -> None:
    workload = at(list(np.cumsum([gap for gap, _ in rows])), [prompt for _, prompt in rows])
    found = busiest(workload, wanted)
    if wanted >= len(rows):
        assert found is workload
        return

    def rate(begin: int) -> float:
        end = begin + wanted
        tokens = int(workload.prompt[begin:end].sum() + workload.output[begin:end].sum())
        return tokens / max(int(workload.arrival[end - 1] - workload.arrival[begin]), 1)

    best = max(rate(begin) for begin in range(len(rows) - wanted + 1))
    assert len(found) == wanted and found.arrival[0] == 0
    tokens = int(found.prompt.sum() + found.output.sum())
    assert tokens / max(int(found.arrival[-1]), 1) == pytest.approx(best)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (at([0.0], [5]), "1 request, which gives no rate"),
        (at([1.0, 1.0, 1.0], [5, 6, 7]), "one instant"),
        (closed(concurrency=4, requests=20), "closed"),
    ],
)
def test_traffic_without_a_rate_is_refused(workload: Workload, message: str) -> None:
    with pytest.raises(UserError, match=message):
        demand_of([workload], name="my.csv")


def test_a_demand_is_that_of_its_stretch() -> None:
    load = poisson(rate=20.0, requests=9000, prompt_tokens=100, output_tokens=10, seed=0)
    demand = demand_of([load], name="load", requests=1000)
    stretch = demand.stretches[0]
    assert len(stretch) == round(len(load) / span_s(load) * 60), "a minute, which is more than was asked for"
    assert demand.rate == pytest.approx(len(stretch) / span_s(stretch)) and demand.rate >= load.rate
    assert demand.notes and f"{len(stretch)} requests of 9000" in demand.notes[0]


def test_scaling_is_bounded_by_what_each_window_needs() -> None:
    gaps = [10.0] * 400 + [1.0] * 1000 + [10.0] * 400  # a crowd in the middle
    load = at(list(np.cumsum(gaps)), [100] * len(gaps))
    demand = demand_of([load], name="load", requests=500)
    found = autoscale(demand, 10)
    assert found is not None and found.fixed == 10
    assert found.window_s == pytest.approx(span_s(load) / WINDOWS)
    assert 1 <= found.least <= found.mean <= found.most == 10
    assert 0.5 < found.saved < 1
    flat = demand_of([at([float(n) for n in range(3000)], [100] * 3000)], name="flat", requests=500)
    steady = autoscale(flat, 10)
    assert steady is not None and steady.saved < 0.05
    assert autoscale(demand_of([at([0.0, 1.0, 2.0], [5, 5, 5])], name="short"), 3) is None


def test_other_stretches_of_a_trace_have_the_rate_of_the_busiest() -> None:
    load = poisson(
        rate=20.0, requests=9000, prompt_tokens={"uniform": {"low": 10, "high": 90}}, output_tokens=5, seed=0
    )
    demand = demand_of([load], name="load", requests=1200)
    fresh, rate = demand.fresh, tokens_per_s(demand.stretches[0])
    assert demand.recorded and fresh is not None and fresh.most == len(load) // len(demand.stretches[0]) >= 5
    made = [fresh.make(n) for n in range(fresh.most)]
    assert all(len(each) == len(demand.stretches[0]) and each.arrival[0] == 0 for each in made)
    assert [tokens_per_s(each) for each in made] == [pytest.approx(rate)] * fresh.most
    assert sum(int(each.prompt.sum()) for each in made) <= int(load.prompt.sum()), "no request is in two of them"
    assert demand_of([load.head(3000)], name="load", requests=1200).fresh is None, "too few to tell anything"


def test_fresh_seeds_are_not_those_of_the_search() -> None:
    def make(seed: int) -> Workload:
        return poisson(rate=20.0, requests=300, prompt_tokens=100, output_tokens=10, seed=seed)

    demand = demand_of([make(0), make(1)], name="load", requests=300, make=make)
    fresh = demand.fresh
    assert not demand.recorded and fresh is not None and (fresh.first, fresh.most) == (2, None)
    assert (fresh.make(1).arrival == make(3).arrival).all()
