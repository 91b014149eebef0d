"""SM shares of two lanes that follow predicted times."""

from __future__ import annotations

import pytest

from poise.core.engine.replica import Replica
from poise.core.spec import Engine, Lane
from poise.policies.batch.nexus import Nexus
from poise.policies.queue.shortest_prompt import ShortestPrompt
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

LANES = (Lane("d", prefill=False, share=0.5), Lane("p", decode=False, share=0.5))
COST = LinearCost(step_s=0.01, prompt_s=1e-4)


def shares(batcher: Nexus, decodes: int, blocks: int = 1000) -> tuple[float, float]:
    """What prompts and decodes get."""
    lane = a_lane(
        waiting=prompts(100), decoding=decoding(decodes), engine=Engine(lanes=LANES), cost=COST, blocks=blocks
    )
    replica: Replica = lane.replica
    batcher.batch(lane)
    return batcher.batch(replica.lanes[1]).share, batcher.batch(lane).share


def test_prompts_get_what_the_decodes_bound_leaves() -> None:
    """On a part s of the device decodes take 1/s as long, so 1.5 times as long on two thirds."""
    assert shares(Nexus(), 4) == (0.3, 0.7)
    assert shares(Nexus(decode_slowdown=4.0), 4) == (0.75, 0.25)


def test_decodes_come_first_where_kv_runs_short() -> None:
    """Prompts take twice as long on one half."""
    assert shares(Nexus(kv_low=1.0, prompt_slowdown=4.0), 4) == (0.25, 0.75)


def test_a_lane_alone_gets_all_sms() -> None:
    assert shares(Nexus(), 0)[0] == 1.0
    lane = a_lane(decoding=decoding(4), engine=Engine(lanes=LANES), cost=COST)
    assert Nexus().batch(lane).share == 1.0


def test_small_changes_are_left_alone() -> None:
    assert shares(Nexus(share=0.35), 4) == (0.35, 0.65)


def test_the_shortest_prompt_is_admitted_first() -> None:
    assert ShortestPrompt().queue(a_request(prompt_tokens=7)) == 7


@pytest.mark.parametrize("given", [{"decode_slowdown": 0.9}, {"share": 0.95}, {"step": 0.0}, {"kv_low": 2.0}])
def test_parameters(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"are 1 or more|least lies in"):
        Nexus(**given)
