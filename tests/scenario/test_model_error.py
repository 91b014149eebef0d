"""The model's error beside chance: its ends follow the calibration, and where there is none the reason is given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.spec import Pool
from poise.cost import Measured, Roofline
from poise.intervals.shipped import interval_of
from poise.scenario.engine_cost import EngineCost, Speculative
from poise.scenario.evidence import conditions
from poise.scenario.model_error import model_error

POOL = Pool(model("llama-3.1-8b"), device("H100"))
RESULT = {
    "ttft_s": {"p50": 0.1, "p99": 0.3},
    "tpot_s": {"p50": 0.01, "mean": None},
    "e2e_s": {},
    "requests_per_s": 2.0,
    "output_tokens_per_s": 400.0,
    "total_tokens_per_s": 0.0,
}
SCENARIO = """
model: llama-3.1-8b
cluster: {pools: [{device: H100}]}
workload: {poisson: {rate: 2, requests: 20, prompt_tokens: 100, output_tokens: 20}}
policies: {router: [round_robin, least_requests]}
cost: COST
"""


def test_ends_are_those_of_the_calibration_under_the_figures_conditions() -> None:
    found = model_error(EngineCost("vllm"), (POOL,), closed=True).bounds(RESULT, 0.9)
    for tail, at, value in ((False, "p50", 0.1), (True, "p99", 0.3)):
        of = conditions("ttft", (POOL,), "vllm", "", load="closed", tail=tail)
        assert found["ttft_s"][at] == interval_of(of).bounds(value, 0.9)._asdict()
    assert set(found) == {"ttft_s", "tpot_s", "requests_per_s", "output_tokens_per_s"}
    assert set(found["tpot_s"]) == {"p50"}


def test_a_higher_confidence_is_wider() -> None:
    error = model_error(EngineCost("vllm"), (POOL,), closed=True)
    less, more = error.bounds(RESULT, 0.5)["tpot_s"]["p50"], error.bounds(RESULT, 0.9)["tpot_s"]["p50"]
    assert more["low"] < less["low"] < less["high"] < more["high"]


def test_an_open_load_decides_its_throughput_itself() -> None:
    error = model_error(EngineCost("vllm"), (POOL,), closed=False)
    assert set(error.bounds(RESULT)) == {"ttft_s", "tpot_s"}
    assert "throughput" not in error.factors()


def test_what_was_never_measured_is_named() -> None:
    pool = Pool(model("llama-3.1-8b"), device("A40"))
    error = model_error(EngineCost("vllm"), (pool,), closed=False)
    assert "no measured run of device A40" in error.because
    assert "operators of A40 borrowed from other devices" in error.because
    assert "A40" in error.line(RESULT) and "A40" in error.factors()


@pytest.mark.parametrize(
    ("cost", "why"),
    [
        (Roofline(), "the roofline"),
        (Measured(), "without an engine"),
        (EngineCost("vllm", speculative=Speculative(2)), "with drafts"),
    ],
)
def test_without_a_calibration_the_reason_is_given(cost: object, why: str) -> None:
    error = model_error(cost, (POOL,), closed=False)
    assert why in error.line(RESULT) and error.factors() == error.line(RESULT)
    assert error.as_dict(RESULT)["confidence"] is error.factors_as_dict()["confidence"] is None


@pytest.mark.parametrize(("cost", "stated"), [("{engine: vllm}", True), ("{}", False)])
def test_commands_state_it_beside_chance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cost: str, stated: bool
) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("COST", cost))
    compared, one = tmp_path / "c.json", tmp_path / "r.json"
    assert main(["compare", str(tmp_path / "s.yaml"), "--json", str(compared), "--out", str(tmp_path / "out")]) == 0
    text = "with 80 % confidence measured figures are" if stated else "not stated for the roofline"
    assert text in capsys.readouterr().out and text in (tmp_path / "out" / "report.html").read_text()
    error = json.loads(compared.read_text())["model_error"]
    assert ("factors" in error) is stated
    assert main(["simulate", str(tmp_path / "s.yaml"), "--router", "round_robin", "--json", str(one)]) == 0
    assert "Model error" in capsys.readouterr().out
    result = json.loads(one.read_text())
    if stated:
        ends = result["model_error"]["ttft_s"]["p50"]
        assert ends["low"] < ends["high"] and "interval" in result


def test_pools_of_their_own_are_named() -> None:
    pools = (replace(POOL, role="prefill"), replace(POOL, role="decode"))
    assert "prefill and decode in pools of their own" in model_error(EngineCost("vllm"), pools, closed=False).because
