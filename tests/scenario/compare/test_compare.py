"""`ps.compare`: pairing, processes, the collapse of a cluster, tables and data."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import poise as ps
from poise.core.errors import PoiseError, UserError
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.round_robin import RoundRobin
from poise.report.backlog import GROWTH
from poise.report.metrics import measure
from poise.scenario.compare.comparison import Comparison
from poise.workload import Workload

CLUSTER = ps.Cluster.of("H100", count=2).replicas(2, model="poise/tiny")
POLICIES = {"in turn": ps.Policies(router=RoundRobin()), "least": ps.Policies(router=LeastRequests())}


def traffic(seed: int, load: float, requests: int = 80) -> Workload:
    made = ps.workload.poisson(3000 * load, requests=requests, prompt_tokens=400, output_tokens=20, seed=seed)
    return ps.workload.shared_prefixes(made, groups=4, prefix_tokens=500, seed=seed)


RECORDING = traffic(0, 1.0, 300)


@pytest.fixture(scope="module")
def generated() -> Comparison:
    return ps.compare(CLUSTER, traffic, POLICIES, loads=(0.5, 1), seeds=3, slo=ps.Slo(e2e_s=0.02), draw=True)


@pytest.fixture(scope="module")
def recorded() -> Comparison:
    return ps.compare(CLUSTER, RECORDING, POLICIES, loads=(1.0,), by="ttft_s.mean")


def test_every_cell_is_the_run_that_simulate_makes(generated: Comparison) -> None:
    assert len(generated.cells) == 2 * 2 * 3 and generated.complete
    for (load, policy, seed), cell in generated.cells.items():
        alone = ps.simulate(CLUSTER, traffic(seed, load), POLICIES[policy], seed=seed)
        assert cell.figures == alone.metrics(ps.Slo(e2e_s=0.02)).as_dict()


def test_differences_are_paired_by_seed(generated: Comparison) -> None:
    one, two = (generated.of(name, 1.0) for name in POLICIES)
    gaps = [b.figures["ttft_s"]["mean"] - a.figures["ttft_s"]["mean"] for a, b in zip(one, two, strict=True)]
    found = generated.interval("least", "ttft_s.mean", against="in turn")
    assert found.value == pytest.approx(sum(gaps) / 3)
    unpaired = [generated.interval(name, "ttft_s.mean").half for name in POLICIES]
    assert found.half is not None and None not in unpaired
    back = generated.interval("in turn", "ttft_s.mean", against="least")
    assert back.value == pytest.approx(-sum(gaps) / 3) and back.half == pytest.approx(found.half)


def test_twice_the_replicas_carry_twice_the_load() -> None:
    """Constant arrivals in turn: each replica meets the very same requests, so the collapse is at exactly twice."""
    loads = []
    for count in (1, 2):
        cluster = ps.Cluster.of("H100", count=count).replicas(count, model="poise/tiny")
        found = ps.compare(
            cluster,
            lambda seed, load, n=count: ps.workload.constant(0.001 / (load * n), requests=200 * n, prompt_tokens=400),
            {"in turn": POLICIES["in turn"]},
            seeds=1,
            slo=ps.Slo(ttft_s=0.003),
            find_collapse=True,
        )
        loads.append(found.collapses["in turn"].load)
    assert loads[0] is not None and loads[0] == loads[1]


def test_the_collapse_lies_between_what_is_carried_and_what_is_not() -> None:
    policies = {"least": POLICIES["least"]}
    found = ps.compare(CLUSTER, RECORDING, policies, slo=ps.Slo(ttft_s=0.004), find_collapse=True, target=0.8)
    collapse = found.collapses["least"]
    assert collapse.carried is not None and collapse.beyond is not None
    for each, carried in ((collapse.carried, True), (collapse.beyond, False)):
        run = ps.simulate(CLUSTER, RECORDING.scaled(each.load) if each.load != 1 else RECORDING, policies["least"])
        met = measure(run.run, CLUSTER, ps.Slo(ttft_s=0.004)).slo_attainment
        growth = found.growth("least", each.load)
        assert met is not None and growth.value is not None and growth.half is not None
        assert (met >= 0.8 and growth.value - GROWTH <= growth.half) == carried
    share = f"{collapse.distance[0]:.2g}"
    assert f"The trace's load is {share} of the collapse load of least (" in str(found)
    low, high = collapse.range
    assert low is None or low <= collapse.carried.load
    assert high is None or high >= collapse.beyond.load


def test_the_table_has_the_belief_the_verdict_and_every_policy(generated: Comparison) -> None:
    text = str(generated)
    assert text.startswith(generated.answer()) and text.splitlines()[-1].startswith("Belief (the default)")
    assert "80 requests × 3 seeds" in text and "Means over 3 seeds" in text
    assert text.count("in turn  ") >= 2 and generated.table(1.0) in text
    assert str(generated.best()) in text


def test_a_recording_says_that_its_intervals_are_of_time(recorded: Comparison) -> None:
    assert "± is half of a 95 % interval from blocks of time" in str(recorded)
    assert "seeds" not in str(recorded)


def test_curves_records_and_frames_say_the_same(generated: Comparison) -> None:
    points = generated.curve("least", "ttft_s.p99")
    assert [point.load for point in points] == [0.5, 1.0] and points[0].rate < points[1].rate  # type: ignore[operator]
    rows = generated.records()
    assert [(row["load"], row["policy"]) for row in rows] == [(load, name) for load in (0.5, 1.0) for name in POLICIES]
    for point in points:
        (row,) = [row for row in rows if (row["load"], row["policy"]) == (point.load, "least")]
        assert row["ttft_s.p99"] == pytest.approx(point.value)
        assert point.high is not None and point.value is not None
        assert row["ttft_s.p99.half"] == pytest.approx(point.high - point.value)
    frame = generated.frame()
    assert frame.rows(named=True) == rows
    seeds = generated.frame(each_seed=True)
    assert seeds.height == 12 and seeds["seed"].unique().sort().to_list() == [0, 1, 2]


def test_drawn_curves_are_of_the_first_seed(generated: Comparison, recorded: Comparison) -> None:
    seconds, shares = generated.latencies("least")["ttft_s"]
    assert shares[-1] == 1.0 and seconds == sorted(seconds)
    assert seconds[-1] >= generated.cells[(1.0, "least", 0)].figures["ttft_s"]["p99"]  # type: ignore[index]
    assert set(generated.timelines("least")) == {"waiting", "running", "kv"}
    assert set(generated.timelines("least")["kv"]) == {"replica 0", "replica 1"}
    with pytest.raises(UserError, match="no curves of least at load 1 were kept; give draw=True"):
        recorded.timelines("least")


def test_the_json_holds_figures_intervals_verdicts_and_the_collapse(generated: Comparison) -> None:
    result = json.loads(json.dumps(generated.as_dict()))
    assert (result["by"], result["complete"], result["interrupted"]) == ("slo_attainment", True, False)
    (_, at_one) = result["loads"]
    assert at_one["verdict"]["by"] == "slo_attainment" and set(at_one["policies"]) == set(POLICIES)
    least = at_one["policies"]["least"]
    assert least["interval"]["ttft_s"]["p99"] > 0 and len(least["per_seed"]) == 3
    assert set(result["collapse"]["least"]) == {"carried", "beyond", "why", "load", "for_sure", "distance", "probes"}


def test_seeds_that_change_nothing_are_no_error_bars() -> None:
    twins = dict.fromkeys(("one", "two"), POLICIES["in turn"])
    found = ps.compare(CLUSTER, lambda seed, load: RECORDING, twins, seeds=3)
    gap = found.interval("two", "e2e_s.mean", against="one")
    assert gap.half is None and "the seeds changed nothing" in gap.why
    assert "No verdict" in str(found.best())


def test_requests_that_begin_at_once_have_no_time_to_cut() -> None:
    batch = ps.workload.all_at_once(requests=40, prompt_tokens=100, output_tokens=10)
    found = ps.compare(CLUSTER, batch, POLICIES)
    assert "no time to cut into blocks" in found.interval("least", "e2e_s.mean").why
    assert "± ?" in str(found) and "Collapse" not in str(found)
    two = ps.compare(CLUSTER, lambda seed, load: batch, POLICIES, seeds=1, loads=(1, 2))
    assert "A collapse cannot be found: there is no SLO" in str(two)


class Failing:
    """A router of which a worker says what went wrong."""

    needs = ()

    def route(self, request: Any, cluster: Any, chance: Any) -> Any:
        raise ZeroDivisionError("no such luck")


def test_what_a_policy_raises_in_a_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError, match="no such luck"):
        ps.compare(CLUSTER, RECORDING, {"failing": ps.Policies(router=Failing())}, jobs=2)


def test_it_works_in_a_thread() -> None:
    """Where no signal can be caught."""
    found: list[Comparison] = []
    thread = threading.Thread(target=lambda: found.append(ps.compare(CLUSTER, traffic, POLICIES, seeds=1)))
    thread.start()
    thread.join()
    assert found[0].complete


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"policies": {}}, "policies is empty; give at least one"),
    ({"loads": []}, "loads = \\[\\]: give different factors above 0"),
    ({"loads": [0]}, "give different factors above 0"),
    ({"loads": [1, -2]}, "give different factors above 0"),
    ({"loads": [1, 1.0]}, "give different factors above 0"),
    ({"loads": [float("nan")]}, "give different factors above 0"),
    ({"loads": [float("inf")]}, "give different factors above 0"),
    ({"seeds": 0}, "seeds = 0: give how many there are"),
    ({"seeds": -1}, "seeds = -1: give how many there are"),
    ({"seeds": [3, 3]}, "seeds = \\[3, 3\\]"),
    ({"seeds": [-3]}, "seeds = \\[-3\\]"),
    ({"seeds": True}, "seeds = True"),
    ({"by": "ttft.p99"}, "did you mean ttft_s.p99"),
    ({"by": "goodput_rps"}, "needs an SLO"),
    ({"jobs": 0}, "jobs = 0: must be at least 1"),
    ({"target": 0}, "target = 0: must be above 0"),
    ({"target": 1.5}, "target = 1.5: must be above 0"),
    ({"warmup_s": 100.0}, "run.warmup_s = 100.*shorten the warm-up"),
    ({"workload": ps.workload.closed(4, requests=40), "loads": [2]}, "concurrency"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG, ids=[str(changed)[:40] for changed, _ in WRONG])
def test_mistakes_are_reported_with_their_cure(changed: dict[str, Any], message: str) -> None:
    given = {"workload": traffic, "policies": POLICIES, **changed}
    with pytest.raises(PoiseError, match=message):
        ps.compare(CLUSTER, **given)


def test_names_that_are_not_there(generated: Comparison) -> None:
    with pytest.raises(UserError, match="there is no result of 'most' at load 1; give one of in turn, least"):
        generated.interval("most", "ttft_s.p99")
    with pytest.raises(UserError, match="no result of 'in turn' at load 7"):
        generated.interval("in turn", "ttft_s.p99", 7.0, against="least")
    with pytest.raises(UserError, match="'most' is not a policy of this comparison; give one of in turn, least"):
        generated.curve("most", "ttft_s.p99")
