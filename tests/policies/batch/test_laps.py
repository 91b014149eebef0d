"""Short prompts and long ones in batches of their own."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.action import ALL, UNTIL_CHANGE, Batch, Entry
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import ps
from poise.policies import Policies
from poise.policies.batch.laps import Laps
from poise.scenario.simulate import simulate
from poise.testing import a_lane
from poise.testing.cost import LinearCost
from poise.workload import constant, lognormal
from tests.policies.batch.test_chunked import decoding, prompts

COST = LinearCost(step_s=0.01, prompt_s=1e-4)


def at(batcher: Laps, seconds: float, *lengths: int) -> Batch:
    return batcher.batch(a_lane(waiting=prompts(*lengths), cost=COST, now=ps(seconds)))


def test_the_boundary_is_where_twice_the_tokens_take_half_as_long_again() -> None:
    """10 ms and 0.1 ms a token: 128 tokens take 22.8 ms, 256 take 35.6."""
    assert Laps().boundary(a_lane(cost=COST)) == 128
    assert Laps(short_tokens=99).boundary(a_lane(cost=COST)) == 99


def test_short_prompts_are_gathered_for_a_window() -> None:
    assert at(Laps(window_s=0.007), 0.0, 50, 60) == Batch((), ALL, UNTIL_CHANGE, wake_at=ps(0.007))
    assert at(Laps(window_s=0.007), 0.007, 50, 60).entries == (Entry(0, 50), Entry(1, 60))


def test_enough_of_them_go_at_once() -> None:
    assert len(at(Laps(depth=2), 0.0, 50, 60).entries) == 2


def test_a_deadline_ends_the_wait() -> None:
    assert at(Laps(window_s=1.0, ttft_s=0.3, margin_s=0.1), 0.2, 50).entries


def test_the_classes_take_turns() -> None:
    batcher = Laps(depth=1)
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [1, 3]
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [0]
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [1, 3]


def test_a_step_that_admits_no_request_leaves_the_turn() -> None:
    """Else what is held would compose otherwise at each step: with a turn for the short, then one for the long."""
    full = a_lane(waiting=prompts(50, 500), decoding=decoding(2), blocks=5, cost=COST)
    batcher = Laps(depth=1)
    for _ in range(3):
        assert batcher.batch(full) == Batch((), ALL, UNTIL_CHANGE)
    assert [entry.request for entry in at(batcher, 0.0, 50, 500).entries] == [0]


def test_who_is_short_by_the_cache_alone_is_looked_at_in_each_step() -> None:
    """Decodes may push out what the cache has of a prompt, which is long from then on."""
    engine = Engine(kv_blocks=300)
    pool = Pool(model("llama-3.1-8b"), device("A100"), engine=engine)
    lengths = {"prompt_tokens": lognormal(2500, 1.5, max=9000), "output_tokens": lognormal(150, 0.7)}
    load = constant(0.125, requests=12, seed=0, **lengths)
    runs = [
        simulate(Cluster((pool,)), load, Policies(batcher=Laps()), one_step=one_step).records
        for one_step in (False, True)
    ]
    assert runs[0] == runs[1]
    assert sum(runs[0].preemptions)


def test_a_long_prompt_goes_while_short_ones_are_gathered() -> None:
    assert [entry.request for entry in at(Laps(), 0.0, 50, 500).entries] == [1]


def test_prompts_under_way_go_on() -> None:
    lane = a_lane(waiting=prompts(50), prefilling=[(each, 100) for each in prompts(400, first=7)], cost=COST)
    assert Laps().batch(lane).entries == (Entry(7, 300),)
    assert Laps().batch(a_lane(decoding=decoding(2))) == Batch((), ALL, UNTIL_CHANGE)


@pytest.mark.parametrize("given", [{"knee": 1.0}, {"depth": 0}, {"window_s": -1.0}])
def test_parameters(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"knee lies in|are 0 or more"):
        Laps(**given)  # type: ignore[arg-type]
