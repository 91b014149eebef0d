"""Reading a scenario: lines, overrides, defaults."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import ScenarioError
from poise.core.spec import Belief, Engine, Fault, Lane, Slo
from poise.cost import Roofline
from poise.scenario.build import build
from poise.scenario.explain import section_at
from poise.scenario.load import load
from poise.scenario.read import parse_value, read_yaml
from poise.scenario.schema import EngineSection, FaultSection, LaneSection, Scenario, SloSection
from poise.scenario.section import Section

GOOD = """\
model: poise/tiny
cluster:
  pools:
    - device: H100
      replicas: 2
    - {device: A100, engine: {token_budget: 1024}}
workload: {poisson: {rate: 5, requests: 1e2}}
"""


def _file(tmp_path: Path, text: str = GOOD) -> Path:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    return file


def test_every_value_has_its_line(tmp_path: Path) -> None:
    data, places = read_yaml(_file(tmp_path), "s.yaml")
    assert data["cluster"]["pools"][1]["engine"]["token_budget"] == 1024
    for path, line in {
        ("model",): 1,
        ("cluster", "pools", 0): 4,
        ("cluster", "pools", 0, "replicas"): 5,
        ("cluster", "pools", 1, "engine", "token_budget"): 6,
        ("workload", "poisson", "rate"): 7,
        ("cluster", "pools", 0, "tensor"): 4,  # what is missing is where it should be
    }.items():
        assert places.of(path) == f"s.yaml:{line}"
    assert places.of(("slo", "ttft_s")) == "s.yaml"


def test_anchors_and_merges_are_resolved(tmp_path: Path) -> None:
    text = "a: &pool {device: H100, replicas: 2}\nb:\n  <<: *pool\n  replicas: 3\n"
    data, places = read_yaml(_file(tmp_path, text), "s.yaml")
    assert data["b"] == {"device": "H100", "replicas": 3}
    assert places.of(("b", "replicas")) == "s.yaml:4"
    assert places.of(("b", "device")) in ("s.yaml:1", "s.yaml:2", "s.yaml:3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e3", 1000.0),
        ("'3'", "3"),
        ("true", True),
        ("yes", "yes"),
        ("null", None),
        ("", None),
        ("[1, a]", [1, "a"]),
    ],
)
def test_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = parse_value(text, "--set x")
    assert found == value and type(found) is type(value)


def test_overrides(tmp_path: Path) -> None:
    changes = ["cluster.pools.0.replicas=9", "slo.ttft_s=0.5", "workload.poisson={rate: 1, requests: 3}", "model=phi-4"]
    scenario = load(_file(tmp_path), changes).scenario
    assert scenario.cluster.pools[0].replicas == 9
    assert scenario.slo.ttft_s == 0.5 and scenario.slo.tpot_s is None
    assert scenario.workload.poisson is not None and scenario.workload.poisson.rate == 1
    assert scenario.model == "phi-4"


def test_the_last_override_wins_and_is_blamed(tmp_path: Path) -> None:
    file = _file(tmp_path)
    assert load(file, ["run.seeds=3", "run.seeds=[4]"]).scenario.run.seeds == [4]
    with pytest.raises(
        ScenarioError, match=r"^--set workload.poisson={rate: x, requests: 1}: workload.poisson.rate: 'x'"
    ):
        load(file, ["workload.poisson.rate=3", "workload.poisson={rate: x, requests: 1}"])
    with pytest.raises(ScenarioError, match=r"^--set workload.poisson.rate=x: workload.poisson.rate"):
        load(file, ["workload.poisson={rate: 1, requests: 1}", "workload.poisson.rate=x"])


def test_paths_start_from_the_file_or_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "s.yaml"
    file.write_text(GOOD)
    loaded = load(file, ["slo.ttft_s=1"])
    assert loaded.file("x.csv", ("workload", "trace")) == tmp_path / "inner" / "x.csv"
    assert loaded.file("x.csv", ("slo", "ttft_s")) == Path("x.csv")
    assert loaded.file("/x.csv", ("workload", "trace")) == Path("/x.csv")


def test_the_defaults_are_those_of_the_core(tmp_path: Path) -> None:
    problem = build(load(_file(tmp_path)))
    assert problem.cluster.pools[0].engine == Engine()
    assert problem.cluster.pools[1].engine == Engine(token_budget=1024)
    assert (problem.belief, problem.slo, problem.cost) == (Belief(), Slo(), Roofline())
    assert (problem.cluster.link_bw, problem.seeds, problem.drain) == (0.0, [0], True)


def test_an_engine_is_one_that_is_known(tmp_path: Path) -> None:
    assert build(load(_file(tmp_path), ["engine.name=SGLang"])).cluster.pools[0].engine.name == "SGLang"
    with pytest.raises(ScenarioError, match="'exllama' is not a known engine; give vllm, sglang or tensorrt-llm"):
        load(_file(tmp_path), ["engine.name=exllama"])


def test_the_schema_has_the_fields_of_the_core() -> None:
    renamed = {"host_kv_bytes": "host_kv_gb", "swap_launch_s": "swap_launch_us", "lora_disk_bw": "lora_disk_gb_s"}
    for section, core in ((LaneSection, Lane), (SloSection, Slo), (FaultSection, Fault)):
        assert set(section.model_fields) == {each.name for each in fields(core)}
    found = {renamed.get(each.name, each.name) for each in fields(Engine)} - {"version", "rank_budget"}
    assert set(EngineSection.model_fields) == found | {"preemption"}


def _sections(section: type[Section], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], type[Section]]]:
    inner = [(*path, name) for name in section.model_fields if section_at((*path, name)) is not section]
    return [(path, section), *(each for way in inner for each in _sections(section_at(way), way))]


def test_every_field_has_a_cure() -> None:
    sections = _sections(Scenario)
    assert len(sections) > 15
    for path, section in sections:
        for name, field in section.model_fields.items():
            assert field.description, f"{'.'.join((*path, name))} has no description"
