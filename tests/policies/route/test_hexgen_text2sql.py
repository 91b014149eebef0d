"""HexGen-Text2SQL's dispatch, its order in an engine, and what stages are foretold."""

from __future__ import annotations

import pytest

from poise.core.units import SECOND
from poise.policies.predict.by_stage import ByStage
from poise.policies.queue.hexgen_text2sql import HexgenText2sql as Urgency
from poise.policies.route.hexgen_text2sql import HexgenText2sql as Dispatch
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request, check_router

FAST, SLOW = {"prefill_rate": 10_000.0, "decode_rate": 100.0}, {"prefill_rate": 1000.0, "decode_rate": 25.0}


def chosen(
    alpha: float, waiting: int, *, slow_work: float = 1.0, prompt_tokens: int = 1000, predicted_tokens: int = 100
) -> int:
    """Where a step goes: 0 is fast and has so many requests of 1 s, 1 is slow and has one of 5 s."""
    work = a_request(prompt_tokens=1000, predicted_tokens=90)
    cluster = a_cluster(
        a_replica(**FAST, flights=(a_flight(work),) * waiting), a_replica(**SLOW, flights=(a_flight(work),)),
        needs=("flights",),
    )  # fmt: skip
    request = a_request(prompt_tokens=prompt_tokens, predicted_tokens=predicted_tokens)
    return Dispatch(alpha, slow_work=slow_work).route(request, cluster, a_chance()).replica


def test_speed_alone_and_work_alone_are_the_ends() -> None:
    assert [chosen(1.0, waiting) for waiting in (0, 4, 40)] == [0, 0, 0]
    assert [chosen(0.0, waiting) for waiting in (0, 4, 5)] == [0, 0, 1], "4 s against 4.6 s, 5 s against 4.6 s"


def test_between_them_a_fast_replica_may_have_more_work() -> None:
    takes = [next(waiting for waiting in range(50) if chosen(alpha, waiting) == 1) for alpha in (0.0, 0.3, 0.5)]
    assert takes == sorted(takes) and takes[0] < takes[-1]


def test_half_of_the_work_of_a_slow_replica_may_count() -> None:
    assert [chosen(0.0, waiting, slow_work=0.5) for waiting in (2, 3)] == [0, 1], "2 s and 3 s against half of 4.6 s"


def test_where_nothing_is_known_all_replicas_are_alike() -> None:
    cluster = a_cluster(*[a_replica(prefill_rate=0.0, decode_rate=0.0)] * 3, needs=("flights",))
    routes = {Dispatch().route(a_request(id=key), cluster, a_chance(key=key)).replica for key in range(40)}
    assert routes == {0, 1, 2}


def test_is_a_router() -> None:
    check_router(Dispatch)


def test_an_urgent_step_is_one_whose_share_of_the_deadline_is_nearest() -> None:
    order = Urgency(10.0, {0: 1.0, 1: 4.0}, {0: 5.0, 1: 4.0})
    early = a_request(arrived_at=0, stage=0)
    assert order.queue(early) == 2 * SECOND - SECOND, "a fifth of 10 s, less the second that it takes"
    last = a_request(arrived_at=3 * SECOND, begun_at=0, stage=1)
    assert order.queue(last) == 3 * SECOND + 7 * SECOND - 4 * SECOND
    late = a_request(arrived_at=20 * SECOND, begun_at=0, stage=1)
    assert order.queue(late) == 20 * SECOND - 10 * SECOND - 4 * SECOND
    assert Urgency(10.0).queue(last) == 10 * SECOND, "without a profile: when the query is due"


def test_a_stage_is_predicted_its_mean_within_the_clients_limit() -> None:
    predictor = ByStage(first=7)
    assert predictor.predict(a_request(stage=2), a_chance()) == 7
    for tokens in (10, 21):
        predictor.learn(a_request(stage=2), tokens)
    assert predictor.predict(a_request(stage=2), a_chance()) == 16
    assert predictor.predict(a_request(stage=2, max_tokens=12), a_chance()) == 12
    assert predictor.predict(a_request(stage=3), a_chance()) == 7


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in (lambda: Dispatch(1.5), lambda: Dispatch(output_tokens=-1), lambda: Dispatch(slow_work=0.0),
                  lambda: Urgency(0.0), lambda: ByStage(0), lambda: Urgency(seconds={0: 1.0}),
                  lambda: Urgency(1.0, {0: 2.0}, {0: 1.0})):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
