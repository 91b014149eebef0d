"""SM shares of two lanes that follow what was observed."""

from __future__ import annotations

import pytest

import poise
from poise.core.action import Batch
from poise.core.errors import ScenarioError
from poise.core.spec import Engine, Lane
from poise.core.units import ps
from poise.policies.batch.semi_pd import SemiPd
from poise.policies.kit.line_fit import fitted
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

LANES = (Lane("p", decode=False, share=0.5), Lane("d", prefill=False, share=0.5))
COST = LinearCost(step_s=0.0, prompt_s=1e-4)


def looked(
    ttft_s: float, tpot_s: float, share: float = 0.5, decode_share: float = 0.5, first_tokens: int = 20
) -> tuple[float, float]:
    """The shares of one that has seen a window of ten decode steps and so many first tokens, with these times."""
    batcher = SemiPd(ttft_s=0.3, tpot_s=0.1, window_s=5.0, share=share, decode_share=decode_share)
    lane = a_lane(waiting=prompts(100), decoding=decoding(4), engine=Engine(lanes=LANES[::-1]), cost=COST, now=1)
    batcher.batch(lane)
    for number in range(first_tokens):
        batcher.served(a_request(id=number, prompt_tokens=500), 1, ps(ttft_s))
    lane.group.step += 10
    lane.space.now += ps(10 * tpot_s)
    batcher.batch(lane)
    lane.space.now = 1 + ps(5.0)
    batcher.batch(lane.replica.lanes[1])
    return batcher.share, batcher.decode_share


@pytest.mark.parametrize(("ttft_s", "tpot_s"), [(0.2, 0.05), (0.9, 0.2)])
def test_shares_stay_where_both_limits_are_kept_or_missed(ttft_s: float, tpot_s: float) -> None:
    assert looked(ttft_s, tpot_s) == (0.5, 0.5)


def test_a_share_grows_as_far_as_the_line_says() -> None:
    """0.11 s a token at half of the device is 0.1 s at 0.55 of it, which 0.65 has beside 0.5, and 0.6 has not.

    0.36 s to the first token at 0.5 - 0.2 is 0.3 s at 0.36 + 0.2.
    """
    assert looked(0.2, 0.11) == (0.5, 0.65)
    assert looked(0.36, 0.05) == (0.65, 0.5)
    assert looked(9.0, 0.05) == (0.7, 0.5), "no further than four steps"


def test_the_other_share_shrinks_once_one_is_whole() -> None:
    """Both whole, each has half of the device; 0.6 of it is left beside 0.65."""
    assert looked(0.2, 0.12, 1.0, 1.0) == (0.8, 1.0), "no further than four steps"
    assert looked(0.31, 0.05, 1.0, 1.0) == (1.0, 0.95)
    assert looked(0.2, 0.12, 0.9, 0.9) == (0.8, 1.0), "two steps up, two steps down"


def test_few_first_tokens_are_not_believed() -> None:
    assert looked(9.0, 0.05, first_tokens=19) == (0.5, 0.5)


def test_lanes_are_given_their_shares() -> None:
    batcher = SemiPd(share=0.6)
    lane = a_lane(waiting=prompts(100), engine=Engine(lanes=LANES), cost=COST)
    assert batcher.batch(lane).share == 0.6
    assert batcher.batch(lane.replica.lanes[1]) == Batch((), -1, 2, 1.0)


def test_lines() -> None:
    slope, rest = fitted([(1.0, 5.0), (2.0, 7.0)])
    assert (slope, rest) == pytest.approx((2.0, 3.0))
    assert fitted([(2.0, 6.0)]) == pytest.approx((3.0, 0.0))
    assert fitted([(1.0, 6.0), (2.0, 4.0)]) == (0.0, 5.0)
    assert fitted([(1.0, 1.0), (2.0, 9.0)]) == pytest.approx((3.8, 0.0))


@pytest.mark.parametrize(
    "given",
    [{"ttft_s": 0.0}, {"share": 1.05}, {"least": 0.0}, {"quantile": 0.0}, {"decode_share": 0.05}, {"fewest": 0}],
)
def test_parameters(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"above 0|quantile lies"):
        SemiPd(**given)


def test_one_lane_is_refused_before_anything_runs() -> None:
    cluster = poise.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    with pytest.raises(ScenarioError, match="moves the shares of a lane for prompts and one for decodes"):
        poise.simulate(cluster, poise.workload.poisson(1, requests=2), poise.Policies(batcher=SemiPd()))
