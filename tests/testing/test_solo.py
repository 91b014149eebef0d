"""`drive` lets one replica alone meet its clients; the times are those of the formula."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import ONE_STEP, Batch
from poise.core.engine.replica import Replica
from poise.core.spec import Engine
from poise.core.units import ps
from poise.core.view import LaneView
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.testing import Client, LinearCost, RuleBroken, a_request, check_replica, drive

COST = LinearCost(step_s=0.5, decode_s=0.25, prompt_s=0.125, kv_s=0.0625)


def a_lone_replica(batcher: object = None, cost: LinearCost = COST, blocks: int = 100, **engine: int) -> Replica:
    return Replica(Engine(**engine), cost, blocks, Policies(batcher=batcher or Chunked()))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 20), st.integers(0, 50))
def test_one_request_takes_its_chunks_and_then_its_steps(prompt: int, output: int, budget: int, at: int) -> None:
    """k-th decode step reads prompt + k tokens; each chunk takes a step and its tokens."""
    client = Client(a_request(prompt_tokens=prompt, arrived_at=at), output)
    log = drive(a_lone_replica(token_budget=budget, max_sequences=1), [client])
    chunks = -(-prompt // budget)
    first = at + chunks * ps(0.5) + prompt * ps(0.125)
    done = first + sum(ps(0.5) + ps(0.25) + (prompt + step) * ps(0.0625) for step in range(1, output))
    assert log == [(first, "first token", 0), (done, "done", 0)]


def test_what_comes_at_one_instant_is_met_in_the_order_of_a_world() -> None:
    """Arrivals before leavings before the step that ends then."""
    seen: list[tuple[int, bool]] = []
    cost = LinearCost(step_s=1.0)
    clients = [Client(a_request(id=0), 3), Client(a_request(id=1, arrived_at=ps(1)), 2, leaves_at=ps(2))]
    log = drive(a_lone_replica(cost=cost), clients, lambda now, passed: seen.append((now, passed)))
    assert seen[:4] == [(0, False), (0, True), (ps(1), False), (ps(1), True)]
    assert (ps(2), "left", 1) in log
    assert ("done", 1) not in [(what, request) for _, what, request in log]


def test_every_happening_can_be_checked() -> None:
    replica = a_lone_replica(token_budget=8, max_sequences=4, block_tokens=4, blocks=14)
    clients = [Client(a_request(id=number, prompt_tokens=17, arrived_at=number), 20) for number in range(4)]
    log = drive(replica, clients, lambda now, passed: check_replica(replica, now, passed))
    assert sorted(request for _, what, request in log if what == "done") == [0, 1, 2, 3]
    assert any(what == "preempted" for _, what, _ in log), "14 blocks of 4 tokens do not hold 4 times 37 tokens"


class Asleep:
    def batch(self, lane: LaneView) -> Batch:
        return Batch()


class Restless:
    """Starts nothing, yet has the lane look again at once."""

    def batch(self, lane: LaneView) -> Batch:
        lane.until = 0  # type: ignore[attr-defined]
        return Batch()


class Plodding(Chunked):
    """Goes step by step where nothing changes."""

    decodes_alone = False

    def batch(self, lane: LaneView) -> Batch:
        return super().batch(lane)._replace(hold=ONE_STEP)


def test_what_is_left_for_ever_is_reported() -> None:
    with pytest.raises(RuleBroken, match=r"leaves Sequence\(0, waiting.* for ever"):
        drive(a_lone_replica(Asleep()), [Client(a_request(), 3)])


def test_time_that_stands_still_is_reported() -> None:
    with pytest.raises(RuleBroken, match=r"asked \d+ times at instant 0 ps, it lets neither a step begin"):
        drive(a_lone_replica(Restless()), [Client(a_request(), 3)])


def test_too_many_turns_are_reported() -> None:
    with pytest.raises(RuleBroken, match=r"does not end Sequence\(0, decode.* in 6 turns"):
        drive(a_lone_replica(Plodding()), [Client(a_request(), 50)], most_turns=5)
