"""The scenarios that the page writes are valid, and its commands are commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from poise.cli import app
from poise.scenario.build import build
from poise.scenario.load import load
from poise.ui.form import Form, command, yaml

FORMS: list[dict[str, Any]] = [
    {"what": "compare", "routers": ["round_robin"]},
    {
        "what": "compare",
        "routers": ["round_robin", "prefix_cache"],
        "loads": [0.5, 1.25],
        "ttft_s": 0.5,
        "tpot_s": 0.05,
    },
    {"what": "compare", "routers": ["pull"], "tensor": 2, "load": {"cv": 2, "groups": 5, "turns": 3, "prompt_cv": 0}},
    {
        "what": "compare",
        "routers": ["pull"],
        "trace": "a.csv",
        "columns": {"arrival_s": "created at"},
        "skip_bad": True,
    },
]
PLAN = {"what": "plan", "devices": ["H100", "L40S"], "ttft_s": 1.0, "e2e_s": 20, "time_limit_s": 30.0}


@pytest.mark.parametrize("expected", FORMS)
def test_a_comparison_is_a_valid_scenario(tmp_path: Path, expected: dict[str, Any]) -> None:
    form = msgspec.convert(expected, Form)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.csv").write_text("created at,prompt_tokens,output_tokens\n0,10,2\n1,10,2\n")
    run = tmp_path / "runs" / "x"
    run.mkdir(parents=True)
    (run / "scenario.yaml").write_text(yaml(form))
    problem = build(load(run / "scenario.yaml"))
    assert [label for label, _ in problem.bundles] == list(form.routers)
    assert len(problem.traffic.make(0)) == (2 if form.trace else 3000 * form.load.turns)


def words(form: Form) -> list[str]:
    program, *rest = command(form, "x")
    assert program == "poise"
    return rest


@pytest.mark.parametrize("expected", [*FORMS, PLAN, {**PLAN, "time_limit_s": None, "minimize": "gpus"}])
def test_a_command_parses(expected: dict[str, Any]) -> None:
    name, *rest = words(msgspec.convert(expected, Form))
    group: Any = typer.main.get_command(app)
    found = group.commands[name].make_context(name, rest)
    assert str(found.params["scenario" if name == "compare" else "traffic"]) == "runs/x/scenario.yaml"
    assert str(found.params["out"]) == "runs/x"


def test_a_plan_states_its_question_on_the_command_line() -> None:
    form = msgspec.convert(PLAN, Form)
    assert words(form) == [
        "plan", "runs/x/scenario.yaml", "--model", "llama-3.1-8b", "--devices", "H100,L40S",
        "--slo", "ttft_s=1,e2e_s=20,attainment=0.99", "--minimize", "cost", "--time-limit", "30", "--out", "runs/x",
    ]  # fmt: skip
    assert yaml(form).startswith("workload:\n  poisson:\n    rate: 10\n    requests: 3000\n")
