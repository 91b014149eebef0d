"""Each scaler against its rule, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Scale
from poise.core.errors import ScenarioError
from poise.core.event import Arrived, Finished, FirstToken
from poise.core.units import SECOND
from poise.policies.find import build
from poise.policies.kit.late_metric import Late
from poise.policies.scale.apa import Apa
from poise.policies.scale.concurrency_rl import ConcurrencyRl
from poise.policies.scale.deepflow import Deepflow
from poise.policies.scale.elastic_moe import ElasticMoe
from poise.policies.scale.hpa import Hpa
from poise.policies.scale.keep_alive import KeepAlive
from poise.policies.scale.kpa import Kpa
from poise.policies.scale.slo_optimizer import SloOptimizer
from poise.testing import a_chance, a_cluster, a_pool, a_replica, a_request


def decision(policy: Any, at_s: float, requests: Sequence[int], **pool: Any) -> Scale:
    """What it says of one pool, whose serving replicas have so many requests and use as many of 1000 KV blocks."""
    replicas = [a_replica(requests=each, waiting=max(each - 10, 0), free_blocks=1000 - each) for each in requests]
    view = a_cluster(
        *replicas, a_replica(), now=int(at_s * SECOND), needs=policy.needs,
        pools=[a_pool(*range(len(requests)), **pool)],
    )  # fmt: skip
    (answer,) = policy.scale(view, a_chance(key=int(at_s)))
    return answer  # type: ignore[no-any-return]


# Kubernetes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "wanted"),
    [([22, 22], 2), ([23, 23], 3), ([18, 18], 2), ([10, 7], 1), ([100, 100], 6)],
    ids=["within tolerance", "above it", "at its edge below", "below", "four pods at most"],
)
def test_hpa_is_the_formula(requests: list[int], wanted: int) -> None:
    assert decision(Hpa(target=20, stabilisation_s=0), 15, requests).replicas == wanted


def test_hpa_goes_down_to_the_highest_wish_of_its_window() -> None:
    policy = Hpa(target=10, stabilisation_s=60)
    assert decision(policy, 15, [10, 10, 10, 10]).replicas == 4
    assert decision(policy, 30, [9, 9, 0, 0]).replicas == 4
    assert decision(policy, 74, [1, 0, 0, 0]).replicas == 4
    assert decision(policy, 76, [1, 0, 0, 0]).replicas == 2, (
        "the 4 of 15 s are out of the window, the 2 of 30 s are not"
    )
    assert decision(policy, 140, [1, 0, 0, 0]).replicas == 1


def test_hpa_counts_those_that_start() -> None:
    """Eighty requests are eight replicas' worth, whether or not those are there yet."""
    assert decision(Hpa(target=10), 15, [80], wanted=8).replicas == 8
    assert list(Hpa().scale(a_cluster(pools=[a_pool()]), a_chance())) == [], "a pool of none is not scaled"


def test_hpa_reads_what_was_measured_a_while_ago() -> None:
    policy = Hpa(target=10, stabilisation_s=0, delay_s=30)
    for at, requests in ((0, 10), (15, 20)):
        view = a_cluster(a_replica(requests=requests), now=at * SECOND, needs=policy.needs, pools=[a_pool(0)])
        assert list(policy.scale(view, a_chance())) == [], "nothing has arrived yet"
    assert decision(policy, 30, [40]).replicas == 1, "ten of 0 s"
    assert decision(policy, 45, [40]).replicas == 2, "twenty of 15 s"
    assert decision(policy, 74, [40]).replicas == 4


@given(delay=st.integers(0, 50), gaps=st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_a_late_metric_is_the_latest_one_that_is_old_enough(delay: int, gaps: list[int]) -> None:
    late, now = Late(delay), 0
    taken: list[tuple[int, float]] = []
    for number, gap in enumerate(gaps):
        now += gap
        taken.append((now, float(number)))
        old = [value for at, value in taken if at <= now - delay]
        assert late.seen(now, float(number)) == (old[-1] if old else None)


# AIBrix --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "wanted"),
    [([540, 540], 2), ([560, 560], 3), ([1000, 1000], 4), ([460, 460], 2), ([440, 440], 2), ([100, 100], 1)],
    ids=["band above", "n·r", "n·r up", "band below", "n·r rounded up", "half at most"],
)
def test_apa_leaves_its_band_by_bounded_steps(requests: list[int], wanted: int) -> None:
    """KV is 1000 blocks a replica, of which as many as requests are used; the target is half."""
    assert decision(Apa(cooldown_s=0), 10, requests).replicas == wanted


def test_apa_takes_the_mean_of_its_window() -> None:
    policy = Apa(metric="requests", target=10, window_s=20, cooldown_s=0)
    assert decision(policy, 10, [10]).replicas == 1
    assert decision(policy, 20, [30]).replicas == 2, "the mean of 10 and 30"
    assert decision(policy, 30, [30]).replicas == 2, "ten has left the window, but a step doubles at most"
    assert decision(Apa(), 10, [], held=3).replicas == 1


def test_apa_counts_replicas_that_start_without_load_going_up_and_at_the_target_going_down() -> None:
    policy: dict[str, Any] = {"metric": "requests", "target": 10, "cooldown_s": 0}
    assert decision(Apa(**policy, guard=False), 10, [20, 20], wanted=4).replicas == 8, "four times two"
    assert decision(Apa(**policy), 10, [20, 20], wanted=4).replicas == 4, "forty requests are four replicas' worth"
    assert decision(Apa(**policy), 10, [25, 25], wanted=4).replicas == 5
    assert decision(Apa(**policy, guard=False), 10, [5, 5], wanted=4).replicas == 2
    assert decision(Apa(**policy), 10, [5, 5], wanted=4).replicas == 3, "one of two, and two that start"


@given(ready=st.integers(0, 12), starting=st.integers(0, 12), load=st.integers(0, 60))
def test_the_guard_only_draws_a_wish_towards_what_is_there(ready: int, starting: int, load: int) -> None:
    has = ready + starting
    if not has:
        return
    wishes = [
        decision(Apa(metric="requests", target=10, cooldown_s=0, guard=guard), 10, [load] * ready, wanted=has).replicas
        for guard in (False, True)
    ]
    assert min(wishes[0], has) <= wishes[1] <= max(wishes[0], has)
    assert starting or wishes[0] == wishes[1]


# Knative -------------------------------------------------------------------------------------------------------------


def test_kpa_takes_the_stable_window_until_it_doubles() -> None:
    policy = Kpa(target=10, utilisation=1.0)
    for at in range(2, 62, 2):
        assert decision(policy, at, [10, 10]).replicas == 2
    assert decision(policy, 62, [15, 15]).replicas == 3, "a mean of a little more than 20 over the window"
    panic = [decision(policy, at, [40, 40]).replicas for at in (64, 66, 68)]
    assert panic == [5, 7, 8], "the mean of six seconds: 20, 30 and 80, then 30, 80 and 80, then 80"


def test_kpa_does_not_shrink_in_panic_and_halves_afterwards() -> None:
    policy = Kpa(target=10, utilisation=1.0)
    assert decision(policy, 2, [80]).replicas == 8
    for at in range(4, 62, 2):
        assert decision(policy, at, [1] + [0] * 7).replicas == 8, "panic was last renewed at 2 s"
    assert decision(policy, 62, [1] + [0] * 7).replicas == 4, "not fewer than half at once"


def test_kpa_begins_with_one_when_a_request_waits() -> None:
    assert decision(Kpa(target=1, utilisation=1.0), 2, [], held=40).replicas == 1
    assert decision(Kpa(), 2, [], held=0).replicas == 0


# Serverless ----------------------------------------------------------------------------------------------------------


def test_keep_alive_keeps_what_was_needed() -> None:
    policy = KeepAlive(concurrency=10, keep_s=60)
    assert decision(policy, 1, [25]).replicas == 3
    assert decision(policy, 60, [0, 0, 0]).replicas == 3
    assert decision(policy, 61, [0, 0, 0]).replicas == 0, "what was needed at 1 s is 60 s ago"
    assert decision(policy, 62, [], held=1).replicas == 1


def test_deepflow_prewarms_for_the_steepest_rise() -> None:
    policy = Deepflow(target=10, warm_least=1, warm_most=5, memory_s=600)
    assert decision(policy, 1, [5]) == Scale(0, 1, 1)
    assert decision(policy, 30, [40]) == Scale(0, 4, 3), "from one to four within the 60 s of a start"
    assert decision(policy, 100, [10] * 4) == Scale(0, 4, 3)
    assert decision(policy, 700, [10] * 4) == Scale(0, 4, 1), "forgotten"


# By a profile --------------------------------------------------------------------------------------------------------


def fed(policy: SloOptimizer, rate: int, seconds: int, prompt: int, output: int) -> SloOptimizer:
    for number in range(rate * seconds):
        at = number * SECOND // rate
        policy.observe(Arrived(at, a_request(id=number, prompt_tokens=prompt)))
        policy.observe(Finished(at, number, output))
    return policy


def test_the_optimizer_needs_load_over_profile() -> None:
    """12 a second of which a replica serves 5; of long ones it serves 1."""
    profile: list[list[float]] = [[100, 100, 5.0], [2000, 100, 1.0]]
    assert decision(fed(SloOptimizer(profile), 12, 60, 90, 120), 60, [0]).replicas == 3
    assert decision(fed(SloOptimizer(profile), 12, 60, 1500, 90), 60, [0]).replicas == 12
    assert decision(SloOptimizer(profile), 60, [0, 0]).replicas == 2, "nothing is known yet"
    assert decision(SloOptimizer(profile), 60, [], held=1).replicas == 1


def test_the_optimizer_believes_a_forecast() -> None:
    policy = fed(SloOptimizer([[100, 100, 5.0]]), 12, 60, 100, 100)
    view = a_cluster(now=60 * SECOND, pools=[a_pool(0)], rate=31.0)
    assert list(policy.scale(view, a_chance())) == [Scale(0, 7, 0)]


# By the SLO ----------------------------------------------------------------------------------------------------------


def test_elastic_moe_steps_up_when_first_tokens_are_late_and_down_when_there_is_room() -> None:
    policy = ElasticMoe(ttft_s=1.0, window_s=10, hold_s=30)
    for number in range(10):
        policy.observe(Arrived(0, a_request(id=number)))
        policy.observe(FirstToken((number == 9) * SECOND * 3 + SECOND // 2, number, 0))
    assert decision(policy, 4, [5, 5]).replicas == 3, "nine of ten in time"
    assert decision(policy, 5, [5, 5], wanted=3).replicas == 3, "not before the step has shown what it brings"
    assert decision(policy, 20, [5, 5, 5]).replicas == 2, "the window is empty, and nobody waits"
    assert decision(policy, 21, [5, 5]).replicas == 2, "not again within 30 s"
    assert decision(policy, 60, [5, 90]).replicas == 2, "somebody waits"
    policy.observe(Arrived(60 * SECOND, a_request(id=99)))
    assert decision(policy, 62, [5, 5]).replicas == 3, "it has waited too long already"


def test_elastic_moe_resizes_an_instance_with_the_old_size_beside_the_new_or_after_it() -> None:
    def step(policy: ElasticMoe, at_s: int, *wanted: int, serving: Sequence[int] = (), left: int = 0) -> list[Scale]:
        replicas = [a_replica(requests=left), a_replica(), a_replica()]
        pools = [a_pool(*((each,) if each in serving else ()), wanted=size) for each, size in enumerate(wanted)]
        view = a_cluster(*replicas, now=at_s * SECOND, needs=policy.needs, pools=pools)
        return list(policy.scale(view, a_chance()))

    for resize in ("shared", "drained"):
        policy = ElasticMoe(resize=resize)
        assert step(policy, 1, 1, 1, 1, serving=(0, 1, 2)) == [Scale(1, 0), Scale(2, 0)], "the smallest stays"
        policy.observe(Arrived(0, a_request(id=1)))
        if resize == "shared":
            assert step(policy, 2, 1, 0, 0, serving=(0,)) == [Scale(1, 1)], "its first token is late"
            assert step(policy, 3, 1, 1, 0, serving=(0,)) == [], "the new size starts"
            assert step(policy, 4, 1, 1, 0, serving=(0, 1)) == [Scale(0, 0)]
        else:
            assert step(policy, 2, 1, 0, 0, serving=(0,)) == [Scale(0, 0)]
            assert step(policy, 3, 0, 0, 0, left=1) == [], "the old size has requests"
            assert step(policy, 4, 0, 0, 0) == [Scale(1, 1)]
            assert step(policy, 5, 0, 1, 0, serving=(1,)) == [Scale(0, 0)], "which changes nothing"
        policy.observe(FirstToken(6 * SECOND, 1, 0))
        assert step(policy, 30, 0, 1, 0, serving=(1,)) == ([Scale(0, 1)] if resize == "shared" else [Scale(1, 0)])


# Learning ------------------------------------------------------------------------------------------------------------


def test_rl_finds_the_better_concurrency() -> None:
    """Latency grows beyond 50 concurrent requests, throughput not: after enough windows it stays near 50."""
    policy = ConcurrencyRl(start=150, low=10, high=310, window_s=2, explore=0.2)
    seen, number = [], 0
    for window in range(1, 1200):
        latency = SECOND + SECOND * max(policy.target - 50, 0) // 20
        for _ in range(max(min(policy.target, 50), 1)):
            policy.observe(Arrived(0, a_request(id=number)))
            policy.observe(Finished(latency, number, 10))
            number += 1
        decision(policy, 2 * window, [1])
        seen.append(policy.target)
    assert set(seen) <= set(range(10, 311, 20)), "steps of 20 within the bounds"
    late = seen[-300:]
    assert sum(abs(each - 50) <= 20 for each in late) / len(late) > 0.6
    assert sum(late) / len(late) < sum(seen[:20]) / 20


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("hpa", {"target": 0.0}, "target and period_s are above 0"),
        ("hpa", {"metric": "cpu"}, "metric 'cpu' is none of requests, waiting"),
        ("hpa", {"delay_s": -1.0}, "delay_s is -1.0; a metric is read after it was taken"),
        ("elastic_moe", {"resize": "both"}, "resize is 'both'; give shared, drained or nothing"),
        ("apa", {"rate_down": 0.5}, "rate_up and rate_down are 1 or more"),
        ("kpa", {"panic_s": 90.0}, "panic_s lies in (0, stable_s]"),
        ("keep_alive", {"keep_s": 0.0}, "keep_s and period_s are above 0"),
        ("deepflow", {"warm_least": 9}, "warm_least ≤ warm_most"),
        ("slo_optimizer", {"profile": [[1, 2]]}, "rows of three numbers above 0"),
        ("slo_optimizer", {}, "parameter 'profile' is missing"),
        ("elastic_moe", {"below": 1.0, "above": 0.5}, "0 ≤ below ≤ above ≤ 1"),
        ("concurrency_rl", {"start": 5}, "start lies in [low, high]"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        build("scaler", name, given)
    assert message in str(error.value)
