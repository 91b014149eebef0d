"""FastSwitch: priorities that change while requests run, and what swaps cost by how they are copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poise.core.engine.replica import Replica
from poise.core.errors import PolicyError, ScenarioError, UserError
from poise.core.policy import Victim
from poise.core.spec import Engine
from poise.core.units import ps
from poise.policies import Policies
from poise.policies.find import build
from poise.policies.preempt.fast_switch import FastSwitch
from poise.policies.queue.priority import Priority
from poise.scenario.load import load
from poise.scenario.policy import build_policies
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_replica
from poise.testing.solo import Client, drive

ENGINE = Engine(block_tokens=4, prefix_caching=False, host_kv_bytes=10**6, max_sequences=8)
COST = LinearCost(step_s=1.0, swap_bw=1e4, swap_run_s=0.5)


def a_churn(frequency: float = 0.2, **how: Any) -> Replica:
    """A replica for two and a half of the requests that come."""
    return Replica(ENGINE, COST, 25, Policies(preempt=FastSwitch(frequency, **how)))  # type: ignore[arg-type]


def requests(number: int = 6) -> list[Client]:
    return [Client(a_request(id=each, prompt_tokens=20), 20) for each in range(number)]


def ended(frequency: float = 0.2, number: int = 6, **how: Any) -> int:
    """When the last of them ends."""
    replica = a_churn(frequency, **how)
    log = drive(replica, requests(number), lambda now, passed: check_replica(replica, now, passed))
    assert sorted(request for _, what, request in log if what == "done") == list(range(number))
    assert replica.swaps.host_bytes == ENGINE.host_kv_bytes and not replica.swaps.copies
    return max(at for at, what, _ in log if what == "done")


def test_who_has_the_least_priority_gives_way_to_who_has_more() -> None:
    policy = FastSwitch(0.5)
    running = [(a_request(id=each, prompt_tokens=20), 1) for each in (1, 2)]
    lane = a_lane(decoding=running, waiting=[a_request(id=3, prompt_tokens=20)], engine=ENGINE, blocks=12)
    ranked = sorted([*lane.decodes(), *lane.queue()], key=policy.place)
    victims, again = policy.review(lane)
    assert again == 2
    assert victims == [Victim(each.id, swap=True) for each in lane.decodes() if each is ranked[-1]]
    assert policy.preempt(lane) == Victim(max(lane.decodes(), key=policy.place).id, swap=True)


def test_no_request_gives_way_where_none_waits() -> None:
    lane = a_lane(decoding=[(a_request(id=1, prompt_tokens=20), 1)], engine=ENGINE, blocks=12)
    assert FastSwitch(0.04).review(lane) == ([], 25)


@pytest.mark.parametrize("pattern", ["random", "markov"])
def test_priorities_hang_on_request_and_time_alone(pattern: Any) -> None:
    one, two = FastSwitch(1.0, pattern), FastSwitch(1.0, pattern)
    lane = a_lane(decoding=[(a_request(id=each), 1) for each in range(40)])
    sequences = list(lane.decodes())
    early = [one.place(each) for each in sequences]
    assert [two.place(each) for each in reversed(sequences)] == early[::-1]
    one._time = two._time = 1
    late = [one.place(each) for each in sequences]
    kept = sum(first == then for first, then in zip(early, late, strict=True))
    assert kept == 0 if pattern == "random" else 10 <= kept <= 30  # of 40, each with probability one half


def test_new_priorities_let_others_run() -> None:
    still, churn = a_churn(0.0), a_churn(0.2)
    assert not any(what == "preempted" for _, what, _ in drive(still, requests(2)))
    log = drive(churn, requests())
    assert sum(what == "preempted" for _, what, _ in log) > 3


def test_each_part_saves_time() -> None:
    paged = {"run_blocks": 1, "beside": False, "keeps": False}
    worst = ended(**paged)
    for part in ({"run_blocks": 4}, {"beside": True}, {"keeps": True}):
        assert ended(**{**paged, **part}) < worst, part
    assert ended(run_blocks=4) < worst


def test_a_swap_costs_its_copies_and_its_bytes() -> None:
    """20 tokens of 1000 bytes in five blocks: two seconds of bytes at 10 kB/s, and half a second for each run."""
    for run_blocks, runs in ((1, 5), (2, 3), (64, 1)):
        swaps = a_churn(run_blocks=run_blocks).swaps
        assert swaps._time(20, 0) == ps(2.0 + 0.5 * runs)
    assert a_churn(run_blocks=1).swaps._time(20, 12) == ps(0.8 + 0.5 * 2)


def test_host_memory_that_is_short_forgets_copies_and_then_computes_again() -> None:
    small = replace(ENGINE, host_kv_bytes=30_000)
    replica = Replica(small, COST, 25, Policies(preempt=FastSwitch(0.2)))  # type: ignore[arg-type]
    log = drive(replica, requests(), lambda now, passed: check_replica(replica, now, passed))
    assert sum(what == "done" for _, what, _ in log) == 6
    assert replica.swaps.host_bytes == 30_000


def test_a_client_that_leaves_while_its_kv_comes_back_takes_nothing_along() -> None:
    replica = a_churn()
    clients = [each._replace(leaves_at=ps(3.0 + 4 * place)) for place, each in enumerate(requests())]
    drive(replica, clients, lambda now, passed: check_replica(replica, now, passed))
    assert replica.swaps.host_bytes == ENGINE.host_kv_bytes and not replica.pool.explicit


def test_it_leaves_no_queue_to_another_policy() -> None:
    with pytest.raises(PolicyError, match="orders the queue by its own priorities; leave queue out, not Priority"):
        Policies(preempt=FastSwitch(), queue=Priority())


def test_a_file_that_names_both_is_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(
        "model: llama-3.1-8b\ncluster: {pools: [{device: H100, replicas: 1}]}\n"
        "workload: {constant: {gap_s: 1, requests: 9}}\npolicies: {preempt: fast_switch, queue: priority}\n"
    )
    with pytest.raises(UserError, match=r"both.yaml:4: policies: FastSwitch .* leave queue out"):
        build_policies(load(file))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"frequency": 2.0}, "give 0 to 1"),
        ({"pattern": "often"}, "give random or markov"),
        ({"stay": 1.0}, "give 0 up to below 1"),
        ({"run_blocks": 0}, "give 1 or more"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        build("preempt", "fast_switch", given)
