"""A scenario that names a fitted cost is simulated with it, resolves to it, and says where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import ScenarioError
from poise.cost import Fitted
from poise.cost.fitted import save_fitted
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.record import trace_header
from poise.scenario.resolve import resolved
from poise.scenario.run import run

TEXT = """\
model: poise/tiny
cluster: {pools: [{device: H100}]}
workload: {constant: {gap_s: 10, requests: 3, prompt_tokens: 100, output_tokens: 5}}
cost: {fitted: cost.json}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    save_fitted(Fitted(0.01, 1e-5), tmp_path / "cost.json")
    path = tmp_path / "scenario.yaml"
    path.write_text(TEXT)
    return path


def test_it_is_simulated_with_that_cost(scenario: Path) -> None:
    outcome = run(build(load(scenario)))
    assert outcome.figures[0]["ttft_s"]["p50"] == pytest.approx(0.011)
    assert outcome.figures[0]["e2e_s"]["p50"] == pytest.approx(0.011 + 4 * 0.01)
    assert outcome.provenance["cost"][0]["estimator"]["estimator"] == "fitted"


def test_it_resolves_to_the_same_file(scenario: Path) -> None:
    problem = build(load(scenario))
    assert resolved(problem)["cost"] == {"fitted": str((scenario.parent / "cost.json").resolve())}


def test_a_recorded_run_says_what_replicas_it_had(scenario: Path) -> None:
    found = trace_header(build(load(scenario)))
    assert list(found["policies"]["router"]) == ["cache_aware"]
    assert found["replicas"][0]["prefill_rate"] > 0 and found["engines"][0]["token_budget"] == 8192
    assert found["scenario"]["cost"]["fitted"].endswith("cost.json")


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("{fitted: other.json}", r"scenario.yaml:4: cost.fitted: .*other.json: cannot be read .*; give a file"),
        ("{fitted: 5}", "cost.fitted: 5 must be a text"),
        ("{fitted: cost.json, gemm_bf16: 0.5}", "cost.gemm_bf16: unknown key"),
        ("{gemm_bf16: x}", "cost.gemm_bf16: 'x' must be a number"),
        ("5", "cost: 5 must be a mapping"),
    ],
)
def test_mistakes_are_named(cost: str, message: str, scenario: Path) -> None:
    scenario.write_text(TEXT.replace("{fitted: cost.json}", cost))
    with pytest.raises(ScenarioError, match=message):
        build(load(scenario))
