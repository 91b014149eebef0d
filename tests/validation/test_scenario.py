"""MLPerf's scenarios: layouts, full queues and the rates that meet limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.validation.condition import Condition, NotCoveredError, read_condition
from poise.validation.scenario import HEADROOM, scenario_outcome, steady_rate
from tests.validation.made import row


def _of(scenario: str, **changes: object) -> Condition:
    given = {
        "model": "llama3.1-8b", "load": scenario, "tensor": 0, "pipeline": 0, "prompt": 0.0, "output": 0.0,
        "precision": "fp8/fp8", "notes": "max_num_seqs=32", **changes,
    }  # fmt: skip
    return read_condition(row(**given)).condition


def test_lengths_come_from_the_set_and_the_measured_output_wins() -> None:
    condition = _of("Offline", output=80.0)
    assert (condition.prompt, condition.output) == (870.7, 80.0)


def test_devices_are_filled_with_equal_replicas() -> None:
    one, eight = (scenario_outcome(_of("Offline", devices=n)).flow["output"] for n in (1, 8))
    assert eight == pytest.approx(8 * one, rel=0.05)


def test_a_model_too_large_for_one_device_is_cut() -> None:
    found = scenario_outcome(_of("Offline", model="llama2-70b-99", precision="bf16", devices=8))
    assert any("tensor" in note and "tensor 1," not in note for note in found.notes)


@pytest.mark.parametrize(
    ("version", "staged"), [("TensorRT 10.2.0, CUDA 12.4", False), ("TensorRT 10.8, CUDA 12.8", True)]
)
def test_newer_engines_are_run_in_stages_which_need_no_all_reduce(version: str, staged: bool) -> None:
    condition = _of(
        "Offline",
        source="mlperf",
        engine="TensorRT-LLM",
        version=version,
        model="llama2-70b-99",
        devices=8,
        notes="",
    )
    notes = scenario_outcome(condition).notes
    assert any("4 replicas of tensor 1, pipeline 2" in note for note in notes) is staged
    assert any("4 replicas of tensor 2" in note for note in notes) is not staged


def test_an_offline_run_lasts_long_enough_to_be_a_pace() -> None:
    few, many = (scenario_outcome(_of("Offline", devices=n, notes="max_num_seqs=512")) for n in (1, 72))
    assert many.flow["output"] == pytest.approx(72 * few.flow["output"], rel=0.01)


def test_a_server_meets_its_limits_below_the_offline_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poise.validation.scenario.TRIAL", 1000)
    offline, server = scenario_outcome(_of("Offline")), scenario_outcome(_of("Server"))
    assert server.flow["request"] < offline.flow["request"]
    assert server.latency["ttft"]["p99"] <= 2.0
    assert server.latency["tpot"]["p99"] <= 0.1


def test_a_server_is_answered_at_the_rate_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poise.validation.scenario.TRIAL", 1000)
    most = scenario_outcome(_of("Server", devices=2))
    rate = most.flow["request"] / 4
    set_so = {"devices": 2, "metric": "tpot_mean_ms", "notes": f"max_num_seqs=32; target_qps={rate}"}
    found = scenario_outcome(_of("Server", **set_so))
    assert found.flow["request"] == pytest.approx(rate, rel=0.1)
    assert found.latency["tpot"]["mean"] < most.latency["tpot"]["mean"]


def test_a_rate_that_cannot_be_served_is_answered_by_the_highest_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poise.validation.scenario.TRIAL", 1000)
    beyond = _of("Server", metric="ttft_mean_ms", notes="max_num_seqs=32; target_qps=9000")
    assert scenario_outcome(beyond) == scenario_outcome(_of("Server"))


def test_a_throughput_is_not_answered_by_the_rate_that_its_own_row_states() -> None:
    stated = {"notes": "max_num_seqs=32; target_qps=7.5"}
    assert _of("Server", metric="ttft_mean_ms", **stated).load.rates == (7.5,)
    assert _of("Server", metric="output_throughput", **stated).load.rates == ()


def test_a_server_is_not_held_to_a_queue_that_ran_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sustained may be more than an offline run's mean, whose last requests run nearly alone."""
    for name, less in {"TRIAL": 1000, "RESIDENCES": 1}.items():
        monkeypatch.setattr(f"poise.validation.scenario.{name}", less)
    limits = _of("Server", notes="max_num_seqs=128")
    assert limits.scenario is not None
    loose = replace(limits, scenario=replace(limits.scenario, ttft_s=20.0, tpot_s=1.0))
    offline, server = scenario_outcome(_of("Offline", notes="max_num_seqs=128")), scenario_outcome(loose)
    assert offline.flow["request"] < server.flow["request"] < HEADROOM * offline.flow["request"]


def test_the_pace_of_a_full_replica_is_that_of_its_queue() -> None:
    condition = _of("Offline")
    simulated = scenario_outcome(condition).flow["request"]
    assert steady_rate(condition.pools[0], condition) == pytest.approx(simulated, rel=0.15)


def test_what_fits_nowhere_is_no_answer() -> None:
    with pytest.raises(NotCoveredError, match="does not fit"):
        scenario_outcome(_of("Offline", model="Llama-3.1-405B", device="L4"))


def test_limits_out_of_reach_are_no_answer() -> None:
    condition = _of("Interactive")
    assert condition.scenario is not None
    strict = replace(condition, scenario=replace(condition.scenario, interactive_tpot_s=1e-6))
    with pytest.raises(NotCoveredError, match="no rate"):
        scenario_outcome(strict)
