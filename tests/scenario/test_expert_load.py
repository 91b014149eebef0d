"""The load of experts in scenarios: its forms, files beside the scenario, pools of their own, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.core.errors import UserError
from poise.core.experts import BALANCED, ExpertLoad
from poise.core.spec import Pool
from poise.scenario.build import build
from poise.scenario.idle import check_idle
from poise.scenario.load import load

BASE = """model: qwen3-30b-a3b
cluster: {pools: [{device: H100, data: 2, expert: 2}]}
workload: {poisson: {rate: 4, requests: 20, prompt_tokens: 200, output_tokens: 20}}
"""


def pools(folder: Path, text: str) -> tuple[Pool, ...]:
    file = folder / "s.yaml"
    file.write_text(text)
    problem = build(load(file))
    check_idle(problem)
    return problem.cluster.pools


def table(folder: Path, experts: int = 128) -> None:
    """Loads beside the scenario, of which expert 0 gets half."""
    rows = [f"0,{expert},{experts - 1 if expert == 0 else 1}" for expert in range(experts)]
    (folder / "loads.csv").write_text("\n".join(["layer,expert,count", *rows]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ExpertLoad()),
        ("engine: {expert_load: measured}", ExpertLoad()),
        ("engine: {expert_load: balanced}", BALANCED),
        ("engine: {expert_load: {zipf: 0.8}}", ExpertLoad(zipf=0.8)),
    ],
)
def test_the_forms_of_a_load(tmp_path: Path, text: str, expected: ExpertLoad) -> None:
    assert pools(tmp_path, BASE + text)[0].engine.expert_load == expected


def test_a_file_lies_beside_the_scenario_and_a_pool_may_have_its_own(tmp_path: Path) -> None:
    table(tmp_path)
    text = BASE.replace("expert: 2}", "expert: 2}, {device: H100, engine: {expert_load: {file: loads.csv}}}")
    plain, own = pools(tmp_path, text + "engine: {expert_load: balanced}")
    assert plain.engine.expert_load == BALANCED
    assert own.engine.expert_load.source == "loads.csv"
    assert own.engine.expert_load.shares[0][0] == pytest.approx(0.5)


def test_an_uneven_load_makes_prompts_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path)
    found = []
    for word in ("balanced", f"{{file: {tmp_path / 'loads.csv'}}}"):
        (tmp_path / "s.yaml").write_text(BASE.replace("200,", "4000,"))
        assert main(["simulate", str(tmp_path / "s.yaml"), "--set", f"engine.expert_load={word}", "--json", "-"]) == 0
        found.append(json.loads(capsys.readouterr().out)["ttft_s"]["mean"])
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("load_", "words"),
    [
        ("{}", ":4: engine.expert_load: states no load; give zipf or file"),
        ("{zipf: 1, file: loads.csv}", "engine.expert_load: states two loads"),
        ("{zipf: -1}", "engine.expert_load"),
        ("even", "engine.expert_load"),
        ("{file: none.csv}", "engine.expert_load.file: "),
        ("{file: loads.csv}", "has 3 experts a layer, but the model has 128; give the loads of this model"),
    ],
)
def test_mistakes_are_one_line_with_their_place(tmp_path: Path, load_: str, words: str) -> None:
    table(tmp_path, experts=3)
    with pytest.raises(UserError) as error:
        pools(tmp_path, f"{BASE}engine: {{expert_load: {load_}}}")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_load_without_experts_is_idle(tmp_path: Path) -> None:
    text = BASE.replace("qwen3-30b-a3b", "llama-3.1-8b").replace(", data: 2, expert: 2", "")
    with pytest.raises(UserError, match="no pool's model has experts; remove it"):
        pools(tmp_path, text + "engine: {expert_load: balanced}")
