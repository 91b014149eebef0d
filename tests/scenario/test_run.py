"""Running a scenario: seeds, and what happens on Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import ScenarioError
from poise.core.records.records import Run
from poise.experiment.interrupts import interrupts
from poise.report.metrics import measure
from poise.scenario import run as room
from poise.scenario.build import Problem, build
from poise.scenario.load import load
from poise.scenario.outcome import Outcome
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching

TEXT = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 2}]}
workload: {poisson: {rate: 300, requests: 60, output_tokens: 30}}
run: {seeds: 3}
"""


def _problem(tmp_path: Path, *overrides: str) -> Problem:
    file = tmp_path / "s.yaml"
    file.write_text(TEXT)
    return build(load(file, overrides))


@pytest.mark.parametrize("name, limits", [("vllm", (800, 12)), ("sglang", (400, 6))])
def test_limits_hold_for_each_data_rank_as_the_engine_means_them(
    tmp_path: Path, name: str, limits: tuple[int, int]
) -> None:
    engine = f"{{name: {name}, token_budget: 400, max_sequences: 6}}"
    found = ("model=qwen3-30b-a3b", "cluster.pools.0.data=2", "cluster.pools.0.expert=2", f"engine={engine}")
    (pool,) = _problem(tmp_path, *found).cluster.pools
    assert (pool.engine.token_budget, pool.engine.max_sequences) == limits


def test_each_seed_is_the_run_that_simulate_makes(tmp_path: Path) -> None:
    problem = _problem(tmp_path, "run.warmup_s=0.05", "slo.ttft_s=0.02")
    result = room.run(problem).as_dict()
    for seed in problem.seeds:
        alone = simulate(problem.cluster, problem.traffic.make(seed), problem.bundles[0][1], seed=seed)
        figures = measure(alone, problem.cluster, problem.slo, warmup_s=0.05).as_dict()
        assert {name: result["per_seed"][seed][name] for name in figures} == figures


def test_generated_load_differs_by_seed(tmp_path: Path) -> None:
    result = room.run(_problem(tmp_path)).as_dict()
    assert len({seed["e2e_s"]["mean"] for seed in result["per_seed"]}) == 3
    assert "seeds" not in result["notes"]


def test_a_share_that_all_seeds_meet_may_still_be_missed_by_others(tmp_path: Path) -> None:
    result = room.run(_problem(tmp_path, "slo.ttft_s=100")).as_dict()
    assert [seed["slo_attainment"] for seed in result["per_seed"]] == [1.0] * 3
    assert result["interval"]["slo_attainment"] >= 3.84 / (3 * 60 + 3.84) - 1e-9


def test_one_bundle_of_policies_is_run(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"policies.queue: lists 2 policies.*`poise compare`"):
        room.run(_problem(tmp_path, "policies.queue=[null, priority]"))
    assert room.run(_problem(tmp_path, "policies.queue=[priority]")).policies == "cache_aware"


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ("poisson: {rate: 300, requests: 60}", r"the last of 60 requests arrives after 0\.2\d+ s"),
        ("closed: {concurrency: 2, requests: 9}", "no request arrived after it"),
    ],
)
def test_a_warm_up_that_leaves_nothing_to_count_is_an_error(tmp_path: Path, load: str, why: str) -> None:
    problem = _problem(tmp_path, f"workload={{{load}}}", "run.warmup_s=100")
    with pytest.raises(ScenarioError, match=rf"^run\.warmup_s = 100: {why}, so none would count; shorten the warm-up"):
        room.run(problem)


def test_the_files_need_the_first_seed_only(tmp_path: Path) -> None:
    problem = _problem(tmp_path)
    plain, kept = room.run(problem), room.run(problem, keep=room.Keep(timeline=True))
    assert plain.first is not None and not plain.first.samples
    assert kept.first is not None and kept.first.samples and kept.first.slices
    assert plain.first.records.ended_at == kept.first.records.ended_at


def test_refusals_are_counted_with_their_reason(tmp_path: Path) -> None:
    result = room.run(_problem(tmp_path, "workload.poisson.prompt_tokens=5000", "run.seeds=1")).as_dict()
    assert result["rejected"] == 60
    assert sum(result["refusals"].values()) == 60
    assert "60 of 60" in result["notes"]["rejected"]


def test_ctrl_c_between_seeds_keeps_those_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def interrupted(*given: Any, **named: Any) -> Run:
        calls.append(named["seed"])
        run = simulate(*given, **named)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return run

    monkeypatch.setattr(room, "simulate", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = room.run(_problem(tmp_path)).as_dict()
    assert signal.getsignal(signal.SIGINT) is before
    assert calls == [0, 1]
    assert result["interrupted"] is True and len(result["per_seed"]) == 2
    assert result["notes"]["interrupted"] == "stopped by the user after 2 of 3 seeds"


def test_ctrl_c_within_a_run_stops_it_between_two_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any, watching: Watching, **named: Any) -> Run:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            watching.progress(1, 60)
        return simulate(*given, **named, watching=watching)

    monkeypatch.setattr(room, "simulate", stopped)
    assert room.run(_problem(tmp_path)).interrupted


def test_a_second_ctrl_c_is_not_waited_for() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        signal.raise_signal(signal.SIGINT)


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reporting(*given: Any, watching: Watching, **named: Any) -> Run:
        watching.progress(7, 60)
        return simulate(*given, **named, watching=watching)

    monkeypatch.setattr(room, "simulate", reporting)
    seen: list[tuple[str, int, int]] = []
    room.run(_problem(tmp_path, "run.seeds=1"), progress=lambda *each: seen.append(each))
    assert seen == [("cache_aware", 7, 60)]


def test_an_interruption_before_anything_ended_is_still_a_result() -> None:
    result = Outcome("round_robin", {"poise": "x"}, interrupted=True).as_dict()
    assert result == {"answer": "", "interrupted": True, "provenance": {"poise": "x"}}
