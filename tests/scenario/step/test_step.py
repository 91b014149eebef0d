"""Steps of training as experiments: figures, chance, processes, parts, files and mistakes."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main
from poise.cost.training.step import predict
from poise.experiment.compare import compare
from poise.experiment.workers import Workers
from poise.scenario.step.world import FIGURES, Jitter, laid
from poise.sim.step.layout import Draw, jittered, simulated
from tests.scenario.step.made import JOB, question

STEP = JOB + "layout: [{tensor: 2, pipeline: 4}, {tensor: 4, pipeline: 2}]\nschedule: [one_f_one_b, zb_h1]\n"
JITTER = "jitter: {rank: 0.05, microbatch: 0.2}\nrun: {seeds: 3}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.yaml").write_text(STEP)
    (tmp_path / "chance.yaml").write_text(STEP + JITTER)
    return tmp_path


def test_a_step_without_chance_is_what_the_planner_says(home: Path) -> None:
    study = question().experiment
    found = compare(study)
    assert not study.chance and study.seeds == (0,) and len(found.cells) == 4
    for case in study.cases:
        job, layout = laid(case.parameters)
        predicted = simulated(job, predict(job, layout))
        (cell,) = found.of(case.label, 1.0)
        assert cell.figures["step_s"] == predicted.seconds and cell.figures["mfu"] == predicted.mfu
        assert cell.figures["tokens_per_s_per_device"] * 16 * predicted.seconds == pytest.approx(32 * 4096)
        cost = 16 * 2.0 / 3600 * predicted.seconds / (32 * 4096 / 1e6)
        assert cell.figures["cost_usd_per_mtok"] == pytest.approx(cost)
    verdict = found.best(1.0)
    assert verdict.winner is not None and all(gap.half == 0 for gap in verdict.differences.values())


def test_chance_hits_all_layouts_alike(home: Path) -> None:
    found = compare(question("chance.yaml").experiment)
    for name in found.study.names:
        assert len({cell.figures["step_s"] for cell in found.of(name, 1.0)}) == 3
    assert Jitter(0.1, 0.2).draw(3, 1, 4, 8) == Jitter(0.1, 0.2).draw(3, 1, 4, 8)
    short, long = (Jitter(0.1, 0.2).draw(3, 1, ranks, 8) for ranks in (2, 4))
    assert long.rank[:2] == short.rank and long.microbatch == short.microbatch


def test_the_slowest_pipeline_decides(home: Path) -> None:
    for case in question().experiment.cases:
        job, layout = laid(case.parameters)
        found = predict(job, layout)
        ones, twos = (
            Draw((Fraction(1),) * layout.pipeline, (Fraction(factor),) * layout.microbatches(job)) for factor in (1, 2)
        )
        even = jittered(job, found, [ones, ones])
        assert even == simulated(job, found)
        assert even.seconds < jittered(job, found, [ones, twos]).seconds == jittered(job, found, [twos]).seconds


def test_factors_of_chance_have_mean_1_and_the_requested_variation() -> None:
    factors = [float(each) for each in Jitter(0.0, 0.2).draw(0, 0, 1, 4000).microbatch]
    mean = sum(factors) / len(factors)
    assert mean == pytest.approx(1, abs=0.02)
    assert (sum((each - mean) ** 2 for each in factors) / len(factors)) ** 0.5 == pytest.approx(0.2, rel=0.05)


def test_processes_and_parts_change_no_byte(home: Path) -> None:
    command = ["compare", "chance.yaml", "--quiet"]
    assert main([*command, "--out", "alone", "--jobs", "1"]) == 0
    assert main([*command, "--out", "two", "--jobs", "2"]) == 0
    for number in (1, 2):
        assert main([*command, "--out", f"part{number}", "--jobs", "1", "--shard", f"{number}/2"]) == 0
    assert main(["merge", "merged", "part1", "part2", "--quiet", "--jobs", "1"]) == 0
    assert contents(home / "alone") == contents(home / "two") == contents(home / "merged")
    assert len(list((home / "alone").glob("cells/*/*/*/cell.json"))) == 12


def contents(folder: Path) -> dict[str, Any]:
    """The files of a folder, without how long each cell took."""
    result = {str(file.relative_to(folder)): json.loads(file.read_text()) for file in folder.rglob("*.json")}
    return {name: {key: value for key, value in each.items() if key != "wall_s"} for name, each in result.items()}


def test_it_goes_on_and_refuses_another_step(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "chance.yaml", "--quiet", "--jobs", "1", "--out", "out"]
    assert main(command) == 0
    whole = contents(home / "out")
    cells = sorted((home / "out").glob("cells/*/*/*/cell.json"))
    before = {cell: cell.stat().st_mtime_ns for cell in cells[1:]}
    shutil.rmtree(cells[0].parent)
    assert main(command) == 2 and "add --resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert contents(home / "out") == whole
    assert {cell: cell.stat().st_mtime_ns for cell in cells[1:]} == before
    assert main([*command, "--resume", "--set", "batch=64"]) == 2
    assert "(batch was 32 and is 64)" in capsys.readouterr().err


def test_a_number_varies(home: Path) -> None:
    found = compare(question("step.yaml", "compare.vary={batch: [32, 64]}").experiment, workers=Workers())
    assert found.study.at == (32.0, 64.0)
    for name in found.study.names:
        one, two = (found.interval(name, "step_s", at).value for at in (32.0, 64.0))
        assert one is not None and two is not None and one < two < 2 * one  # filling and draining are paid once
    devices = compare(question("step.yaml", "compare.vary={devices: [16, 32]}").experiment)
    for name in devices.study.names:
        one, two = (devices.interval(name, "step_s", at).value for at in (16.0, 32.0))
        assert one is not None and two is not None and two < one


def test_what_is_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "step.yaml", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "There is no chance in these steps" in printed and "±" not in printed
    assert "tensor 2 pipeline 4 one_f_one_b" in printed and "Best by Step: " in printed
    assert main(["simulate", "step.yaml", "--set", "layout={tensor: 2, pipeline: 4}", "--set", "schedule=zb_h1"]) == 0
    printed = capsys.readouterr().out
    assert all(figure.label in printed for figure in FIGURES)
    small = ["--set", "model=llama-3.1-70b", "--set", "layout={tensor: 2}", "--set", "schedule=one_f_one_b"]
    assert main(["simulate", "step.yaml", *small]) == 0
    assert "does not fit: " in capsys.readouterr().out


def test_the_json_has_every_seed_and_the_verdict(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "chance.yaml", "--jobs", "1", "--json", "-", "--by", "mfu"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["by"], printed["complete"], printed["chance"]) == ("step", "mfu", True, True)
    (setting,) = printed["settings"]
    assert len(setting["cases"]) == 4 and setting["verdict"]["by"] == "mfu"
    assert all(len(each["per_seed"]) == 3 for each in setting["cases"].values())


WRONG = [
    (["compare", "step.yaml", "--set", "modle=x"], "modle"),
    (["compare", "step.yaml", "--set", "model=nothing-1b"], "nothing-1b"),
    (["compare", "step.yaml", "--set", "cluster.device=H1000"], "H1000"),
    (["compare", "step.yaml", "--set", "schedule=dual"], "schedule.0: 'dual' is not known; give one of one_f_one_b"),
    (["compare", "step.yaml", "--set", "layout={tensor: 3}"], "does not divide the 16 devices"),
    (["compare", "step.yaml", "--set", "layout={tensor: 16, data: 2}"], "make the product 16"),
    (["compare", "step.yaml", "--set", "layout=[{tensor: 2}, {tensor: 2}]"], "a layout stands twice"),
    (["compare", "step.yaml", "--by", "steps"], "is not a figure of a step; give one of step_s"),
    (["compare", "step.yaml", "--set", "compare.vary={hidden: [1]}"], "'hidden' cannot vary; give one of batch"),
    (["compare", "step.yaml", "--set", "compare.vary={batch: [32, 32]}"], "must be different numbers above 0"),
    (["compare", "step.yaml", "--set", "compare.vary={batch: [32], devices: [16]}"], "has 2 numbers; give one"),
    (["compare", "step.yaml", "--set", "jitter.rank=-1"], "jitter.rank"),
    (["compare", "chance.yaml", "--seeds", "0"], "give how many there are"),
    (["compare", "step.yaml", "--loads", "1,2"], "--loads: has no part in a step of training"),
    (["simulate", "step.yaml", "--blame"], "--blame: has no part in a step of training"),
    (["simulate", "step.yaml"], "has 4 steps; compare them by `poise compare`"),
    (["compare", "step.yaml", "--resume"], "--resume: needs a folder"),
    (["compare", "step.yaml", "--shard", "3/2"], "must be I/N with I from 1 to N"),
]


@pytest.mark.parametrize(("argv", "expected"), WRONG, ids=[" ".join(argv[2:]) for argv, _ in WRONG])
def test_mistakes_are_reported_with_their_cure(
    home: Path, argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "--quiet"]) == 2
    err = capsys.readouterr().err
    assert expected in err and len(err.splitlines()) == 1


def test_a_scenario_may_say_that_it_is_of_serving(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serving = "model: poise/tiny\ncluster: {pools: [{device: H100}]}\nworkload: {poisson: {rate: 9, requests: 9}}\n"
    seen = []
    for name, head in (("bare", ""), ("stated", "kind: serving\n")):
        (home / f"{name}.yaml").write_text(head + serving)
        assert main(["compare", f"{name}.yaml", "--jobs", "1", "--json", "-"]) == 0
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1]
    (home / "other.yaml").write_text(f"kind: shop\n{serving}")
    assert main(["simulate", "other.yaml"]) == 2
    assert "other.yaml:1: kind: 'shop' is not known here; give serving, or step" in capsys.readouterr().err
