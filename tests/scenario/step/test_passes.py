"""Step files with links, passes and recorded costs: cases, files, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.experiment.compare import compare
from poise.pipeline.costs import Costs
from poise.pipeline.saved import costs_text
from poise.scenario.step.point import step
from poise.scenario.step.world import run
from tests.scenario.step.made import JOB, question

STEP = JOB + "layout: {tensor: 4, pipeline: 2}\n"
LISTS = "links: stages\npasses: [[], [{bucketed: {cap_mb: 5000}}]]\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.yaml").write_text(STEP)
    (tmp_path / "lists.yaml").write_text(STEP + LISTS)
    (tmp_path / "costs.json").write_text(costs_text(Costs.of([9, 12], [8, 10], [7, 9], "0.3"), unit="ms"))
    return tmp_path


def test_lists_of_passes_are_cases(home: Path) -> None:
    assert question("lists.yaml").experiment.names == ["no passes", "bucketed(cap_mb=5000)"]
    two = question("lists.yaml", "schedule=[one_f_one_b, zb_h1]").experiment.names
    assert two[:2] == ["one_f_one_b, no passes", "one_f_one_b, bucketed(cap_mb=5000)"] and len(two) == 4
    (one,) = question("step.yaml", "links=stages", "passes=[side_by_side, bucketed]").experiment.cases
    assert [type(each).__name__ for each in one.parameters["how"].links.edits] == ["SideBySide", "Bucketed"]
    (same,) = question("step.yaml", "links=stages", "passes=bucketed").experiment.cases
    assert same.parameters["how"].links.edits == one.parameters["how"].links.edits[1:]


def test_a_point_is_the_step_of_the_file(home: Path) -> None:
    (case,) = question("step.yaml", "links=layers", "passes=[bucketed]", "costs=costs.json").experiment.cases
    found = step(
        model("llama-3.1-8b"), device("H100"), 16, 32, 4096, {"tensor": 4, "pipeline": 2}, nic_bw=50e9, links="layers",
        passes=["bucketed"], costs=home / "costs.json",
    )  # fmt: skip
    assert run(case, 0)["step_s"] == found.seconds
    with pytest.raises(ScenarioError, match="links is none; give links: stages"):
        step(model("llama-3.1-8b"), device("H100"), 16, 32, 4096, {"tensor": 4}, passes=["bucketed"])


def test_recorded_costs_decide_the_step(home: Path) -> None:
    """In seconds: twice the times are twice the pipeline, whatever links are."""
    (home / "twice.json").write_text(costs_text(Costs.of([18, 24], [16, 20], [14, 18], "0.6"), unit="ms"))
    (home / "same.json").write_text(costs_text(Costs.of([9000, 12000], [8000, 10000], [7000, 9000], 300), unit="us"))

    def busy(name: str, *more: str) -> float:
        (cell,) = compare(question("step.yaml", f"costs={name}.json", *more).experiment).cells.values()
        return float(cell.figures["step_s"])

    for links in ("links=none", "links=stages"):
        assert busy("same", links) == busy("costs", links)
        assert 1.5 * busy("costs", links) < busy("twice", links) < 2 * busy("costs", links)


def test_the_folder_keeps_each_list_apart(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "lists.yaml", "--quiet", "--out", "out"]
    assert main([*command, "--jobs", "2"]) == 0
    whole = json.loads((home / "out" / "result.json").read_text())
    assert set(whole["settings"][0]["cases"]) == {"no passes", "bucketed(cap_mb=5000)"}
    cells = {file: file.stat().st_mtime_ns for file in (home / "out").rglob("cell.json")}
    more = "passes=[[], [{bucketed: {cap_mb: 5000}}], [side_by_side]]"
    assert main([*command, "--jobs", "1", "--resume", "--set", more]) == 0
    assert {file: file.stat().st_mtime_ns for file in cells} == cells
    assert len(list((home / "out").rglob("cell.json"))) == 3
    assert main([*command, "--resume", "--set", "links=layers"]) == 2
    assert "(links was 'stages' and is 'layers')" in capsys.readouterr().err


WRONG = [
    ("passes=[bucket]", "passes.0: 'bucket' is not a pass of a step; did you mean bucketed? known are"),
    ("passes=[{bucketed: {cap: 3}}]", "bucketed has no parameter 'cap'; did you mean cap_mb?"),
    ("passes=[{bucketed: {cap_mb: x}}]", "bucketed.cap_mb: 'x' is not a number; give one"),
    ("passes=[{bucketed: {cap_mb: -1}}]", "bucketed.cap_mb: -1 MiB; give 0"),
    ("passes=[{side_by_side: {serial: 1}}]", "side_by_side.serial: 1 is not a list of ranks, as in [1, 2]; give one"),
    ("passes=[{side_by_side: {together: 1}}]", "1 is not true or false; give one"),
    ("passes=[{side_by_side: {slowdown: 0.5}}]", "slowdown: 0.5 times as long; give 1 or more"),
    ("passes=[{wrapped: {memory_gb: 0}}]", "memory_gb: 0; give more than 0"),
    ("passes=[reduced]", "passes.0: reduced cannot be given: gradients are summed by the layout's data"),
    ("passes=[wrapped]", "zero is 1; give zero: 3"),
    ("passes=[wrapped, bucketed]", "wrapped makes buckets of its own"),
    ("passes=[side_by_side, wrapped]", "put wrapped first"),
    ("passes=[bucketed, bucketed]", "bucketed stands twice; keep it once"),
    ("passes=[[], []]", "passes.1: no passes stands twice"),
    ("passes=[[], bucketed]", "has passes and lists of passes; give one list, or a list of lists"),
    ("passes=[3]", "3 names no pass; give NAME or {NAME: {parameter: value}}"),
    ("links=none", "links is none; give links: stages"),
    ("links=true", "must be none, stages or layers"),
    ("costs=none.json", "costs: none.json: cannot be read"),
    ("costs=unitless.json", "its unit is None; give one of s, ms, us"),
    ("layout={tensor: 4, pipeline: 4}", "costs: are of 2 stages, and the layout has 4 on 4 ranks; give a layout"),
    ("batch=65536", "no more than 60,000 are run one by one"),
]


@pytest.mark.parametrize(("change", "expected"), WRONG, ids=[change for change, _ in WRONG])
def test_mistakes_are_reported_with_their_cure(
    home: Path, change: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "unitless.json").write_text(costs_text(Costs()))
    more = ["--set", "costs=costs.json"] if change.startswith("layout") else []
    assert main(["compare", "lists.yaml", "--quiet", *more, "--set", change]) == 2
    err = capsys.readouterr().err
    assert expected in err and len(err.splitlines()) == 1
