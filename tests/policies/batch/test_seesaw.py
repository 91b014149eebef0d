"""Phases: who is in which, when they change, and what comes back from the store when."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from poise.core.action import ALL, NONE, UNTIL_HEAD, Batch, Entry
from poise.core.engine.replica import Replica
from poise.core.estimate import Store
from poise.core.request import RequestView
from poise.core.spec import Engine, Lane
from poise.core.units import SECOND, ps
from poise.policies import Policies
from poise.policies.batch.seesaw import Seesaw
from poise.testing import a_lane
from poise.testing.cost import LinearCost
from poise.testing.solo import Client, Log, drive
from tests.policies.batch.test_chunked import decoding, prompts


@dataclass(frozen=True, slots=True)
class Kept(LinearCost):
    """A cost whose KV is kept in a host's memory."""

    store: Store | None = None


COST = Kept(step_s=1.0, store=Store(6, 9, 3 * SECOND, 5 * SECOND, SECOND // 4))
"""A second a step; changes of 3 s to prompts, of 5 s to decodes; a block comes back in a quarter of a second."""
ENGINE = Engine(block_tokens=4, token_budget=64, prefix_caching=False)


def run(*clients: Client, blocks: int = 1000, cost: LinearCost = COST, until: float = 0.0) -> Log:
    replica = Replica(ENGINE, cost, blocks, Policies(batcher=Seesaw(until=until)))
    return drive(replica, list(clients))


def client(number: int, prompt: int, output: int, at: float = 0.0) -> Client:
    return Client(RequestView(number, ps(at), prompt), output)


def when(log: Log, what: str) -> dict[int, float]:
    return {request: at / SECOND for at, expected, request in log if expected == what}


def test_prompts_come_alone_and_go_on_past_decodes() -> None:
    lane = a_lane(waiting=prompts(5, 6), decoding=decoding(1), cost=COST)
    assert Seesaw().batch(lane) == Batch((Entry(0, 5), Entry(1, 6)), NONE)


def test_without_a_store_changes_take_no_time_and_all_decode() -> None:
    assert Seesaw().batch(a_lane(decoding=decoding(2))) == Batch((), ALL, UNTIL_HEAD)


def test_a_lane_that_shares_its_device_has_no_store() -> None:
    lanes = (Lane("d", prefill=False, share=0.5), Lane("p", decode=False, share=0.5))
    lane = a_lane(decoding=decoding(2), engine=Engine(lanes=lanes), cost=COST)
    assert Seesaw().batch(lane) == Batch((), ALL, UNTIL_HEAD)


def test_who_waits_while_decodes_go_on_waits_for_the_last_of_them() -> None:
    """A step, a change and a block, four steps; then a change back and a step for the one that came at 2 s."""
    log = run(client(0, 4, 5), client(1, 4, 2, at=2.0))
    assert when(log, "done")[0] == 1 + 5 + 0.25 + 4
    assert when(log, "first token")[1] == 10.25 + 3 + 1
    assert when(log, "done")[1] == 14.25 + 5 + 0.25 + 1


def test_until_a_part_of_them_is_left() -> None:
    """One of two outlives the other; at a part of a half prompts begin when the first has ended."""
    some = (client(0, 4, 2), client(1, 4, 9), client(2, 4, 2, at=2.0))
    assert when(run(*some, until=0.5), "first token")[2] < when(run(*some), "done")[1]
    assert when(run(*some), "first token")[2] > when(run(*some), "done")[1]


def test_the_devices_hold_so_many_and_the_next_comes_back_beside_them() -> None:
    """Two requests of 8 tokens and a block to grow, with one left for each, fill six blocks only one by one."""
    log = run(*(client(number, 8, 4) for number in range(3)))
    ends = sorted(when(log, "done").values())
    assert ends == [1 + 5 + 0.5 + 3, ends[0] + 0.5 + 3, ends[1] + 0.5 + 3]


def test_copies_go_on_beside_steps() -> None:
    """With room for all, the second block is there a quarter later than the first, and joins at the next step."""
    log = run(client(0, 4, 4), client(1, 4, 4))
    assert when(log, "done") == {0: 6.25 + 3, 1: 7.25 + 3}


def test_outgrowing_the_devices_sends_the_last_one_back() -> None:
    """Together 2 × (4 + 14) tokens never fit six blocks; all the same both end, without being preempted."""
    log = run(client(0, 4, 14), client(1, 4, 14))
    assert not when(log, "preempted") and set(when(log, "done")) == {0, 1}
    assert when(log, "done")[1] > when(log, "done")[0] + 1


@pytest.mark.parametrize("cost", [COST, LinearCost(step_s=1.0)])
def test_decodes_go_on_though_prompts_never_end(cost: LinearCost) -> None:
    """A hundred prompts of one token of output each, which leave nothing in the store, come for ever."""
    endless = [client(number, 60, 1, at=number * 0.9) for number in range(1, 150)]
    log = run(client(0, 4, 3), *endless, blocks=100, cost=cost)
    assert when(log, "done")[0] < 60 and len(when(log, "done")) == 150


def test_parameters() -> None:
    with pytest.raises(ValueError, match="give 0 up to 1"):
        Seesaw(until=1.0)
