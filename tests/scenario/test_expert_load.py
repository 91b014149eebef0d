"""The load of experts in scenarios: its forms, files beside the scenario, pools of their own, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.core.errors import UserError
from poise.core.experts import BALANCED, ExpertLoad, copies
from poise.core.spec import Pool
from poise.cost.expert_load import busiest
from poise.cost.memory import footprint
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


PLACED = """model: qwen3-30b-a3b
cluster: {pools: [{device: H100, data: 4, expert: 4}]}
workload: {poisson: {rate: 4, requests: 20, prompt_tokens: 200, output_tokens: 20}}
"""


def test_a_placement_relieves_the_most_loaded_rank(tmp_path: Path) -> None:
    table(tmp_path)
    by = {
        name: pools(tmp_path, PLACED + f"engine: {{expert_load: {{file: loads.csv}}{text}}}")[0]
        for name, text in {
            "in order": "",
            "one copy": ", expert_placement: {}",
            "copies": ", expert_placement: {redundant: 4}",
            "eplb": ", expert_placement: {redundant: 4, balancer: eplb}",
            "late": ", expert_placement: {redundant: 4, seen: balanced}",
        }.items()
    }
    tokens = {name: busiest(pool).tokens(1000.0) for name, pool in by.items()}
    assert tokens["copies"] < tokens["one copy"] <= tokens["in order"]
    assert tokens["copies"] <= tokens["eplb"] < tokens["in order"] and tokens["copies"] < tokens["late"]
    assert copies(by["copies"].engine.expert_placement, 128) == 132
    assert footprint(by["copies"]).weights > footprint(by["in order"]).weights


def test_a_file_of_sglang_is_a_placement(tmp_path: Path) -> None:
    table(tmp_path)
    rows = [[*range(127, -1, -1)]] * 48
    (tmp_path / "placed.json").write_text(json.dumps({"physical_to_logical_map": rows}))
    counts = [f"{layer},{expert},1" for layer in range(48) for expert in range(128)]
    (tmp_path / "loads.csv").write_text("\n".join(["layer,expert,count", *counts]))
    text = PLACED + "engine: {expert_load: {file: loads.csv}, expert_placement: {file: placed.json}}"
    found = pools(tmp_path, text)[0].engine.expert_placement
    assert len(found) == 48 and found[0][0] == (3,) and found[0][127] == (0,)


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("{redundant: 3}", "128 experts and 3 redundant copies do not divide by 4 ranks; give redundant: 4"),
        ("{balancer: eplp}", "did you mean eplb or llep?"),
        ("{balancer: exflow}", "exflow: reads tokens by pairs of experts"),
        ("{balancer: llep}", "splits an expert's tokens unevenly"),
        ("{nodes: 3}", "ranks: 4 do not divide by 3 nodes"),
        ("{file: none.json}", "none.json"),
        ("{file: loads.csv, redundant: 4}", "leave out redundant, or the file"),
        ("{file: loads.csv}", "holds no physical_to_logical_map"),
    ],
)
def test_a_placement_that_cannot_be_is_one_line(placement: str, expected: str, tmp_path: Path) -> None:
    table(tmp_path)
    with pytest.raises(UserError) as refused:
        pools(tmp_path, PLACED + f"engine: {{expert_load: {{file: loads.csv}}, expert_placement: {placement}}}")
    assert (
        expected in str(refused.value) and "\n" not in str(refused.value) and "expert_placement" in str(refused.value)
    )


def test_one_rank_has_nothing_to_place(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its experts are all on one rank"):
        pools(tmp_path, PLACED.replace("expert: 4", "expert: 1") + "engine: {expert_placement: {}}")
