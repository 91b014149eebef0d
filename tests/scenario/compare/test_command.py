"""`poise compare`: its files, going on after an interruption, and processes that change no byte."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import poise
from poise.cli import main

SCENARIO = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 3}]}
workload:
  poisson: {rate: 200, requests: 60, prompt_tokens: {uniform: {low: 50, high: 900}}, output_tokens: 20}
  shared_prefixes: {groups: 4, prefix_tokens: 500}
policies: {router: ["waiting:Waiting", round_robin, {prefix_cache: {imbalance: 4}}]}
slo: {ttft_s: 0.05, tpot_s: 0.01}
run: {seeds: 2}
compare: {loads: [0.5, 1]}
"""

WAITING = """\
import os

from poise.policies.route.least_requests import LeastRequests


class Waiting(LeastRequests):
    def route(self, request, cluster, chance):
        if request.id == 0 and (told := os.environ.get("MARK")):
            go = os.open(os.environ["GO"], os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(go, True)
            os.write(os.open(told, os.O_WRONLY), b"!")
            os.read(go, 1)  # until the other end is closed
        return super().route(request, cluster, chance)
"""
"""A router that says when a run begins, and waits there for the word to go on."""

CELLS = 2 * 2 * 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a scenario, its policy, and `whole`: the comparison as it comes to where nobody interrupts it."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "waiting.py").write_text(WAITING)
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main([*COMMAND, "--out", "whole", "--jobs", "1", "--requests"]) == 0
        yield folder
    finally:
        os.chdir(before)


COMMAND = ["compare", "scenario.yaml", "--quiet"]


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Path:
    """A copy of the whole comparison."""
    return Path(shutil.copytree(home / "whole", tmp_path / "copy"))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a comparison, without how long each cell took."""
    files = {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
    for name, text in files.items():
        if name.endswith("cell.json"):
            kept = {key: value for key, value in json.loads(text).items() if key not in ("wall_s", "cpu_s")}
            files[name] = json.dumps(kept).encode()
    return files


def test_the_folder_has_the_result_the_report_and_every_cell(home: Path) -> None:
    whole = home / "whole"
    assert {file.name for file in whole.iterdir()} == {
        "cells", "figures", "figures.csv", "figures.parquet", "report.html", "result.json", "scenario.resolved.yaml"
    }  # fmt: skip
    result = json.loads((whole / "result.json").read_text())
    assert [each["load"] for each in result["loads"]] == [0.5, 1.0]
    names = ["Waiting", "round_robin", "prefix_cache"]
    assert list(result["loads"][0]["policies"]) == names
    assert set(result["provenance"]) == {"poise", "core", "scenario", "engine", "cost", "workload", "belief", "seeds"}
    cells = sorted(whole.glob("cells/load-*/*/seed-*"))
    assert len(cells) == CELLS
    for cell in cells:
        assert {file.name for file in cell.iterdir()} == {"cell.json", "cell.npz", "requests.parquet"}
        assert len(pl.read_parquet(cell / "requests.parquet")) == 60


def test_a_cell_holds_its_distributions_and_the_first_seed_its_replicas(home: Path) -> None:
    for seed in (0, 1):
        with np.load(home / "whole" / "cells" / "load-1" / "round_robin" / f"seed-{seed}" / "cell.npz") as stored:
            names = set(stored.files)
            seconds, shares = stored["latency/ttft_s"]
            assert shares[-1] == 1.0 and (np.diff(seconds) >= 0).all()
        assert {"latency/ttft_s", "latency/tpot_s", "latency/e2e_s"} <= names
        lines = {f"timeline/{what}/replica {at}" for what in ("waiting", "running", "kv") for at in range(3)}
        assert names & lines == (lines if seed == 0 else set())


def test_processes_change_no_byte(home: Path) -> None:
    assert main([*COMMAND, "--out", "parallel", "--jobs", "2", "--requests"]) == 0
    assert contents(home / "parallel") == contents(home / "whole")


@pytest.mark.parametrize(
    ("jobs", "number"),
    [(1, signal.SIGINT), (2, signal.SIGINT), pytest.param(2, signal.SIGKILL, marks=pytest.mark.slow)],
)
def test_an_interrupted_comparison_goes_on_to_the_same_bytes(
    home: Path, tmp_path: Path, jobs: int, number: signal.Signals
) -> None:
    mark, go, out = tmp_path / "mark", tmp_path / "go", tmp_path / "out"
    for pipe in (mark, go):
        os.mkfifo(pipe)
    hears, holds = os.open(mark, os.O_RDWR), os.open(go, os.O_RDWR)
    argv = [*COMMAND[:2], "--out", str(out), "--requests", "--jobs"]
    ours = str(Path(poise.__file__).parents[1])  # and not an installed one
    environment = {**os.environ, "PYTHONPATH": ours, "MARK": str(mark), "GO": str(go)}
    with subprocess.Popen(
        [sys.executable, "-m", "poise", *argv, str(jobs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, cwd=home,
    ) as process:  # fmt: skip
        ready, _, _ = select.select([hears], [], [], 60)
        assert ready, process.communicate()[1]  # else the first cell is under way, and waits
        process.send_signal(number)
        os.close(holds)
        printed, err = process.communicate(timeout=60)
    os.close(hears)
    if number == signal.SIGINT:
        assert process.returncode == 130, err
        assert "Interrupted: stopped by the user" in printed or "none of the simulations" in printed
        result = json.loads((out / "result.json").read_text())
        assert (result["interrupted"], result["complete"]) == (True, False)
    assert len(list(out.glob("cells/*/*/*/cell.json"))) < CELLS
    assert main([*argv, "1", "--quiet", "--resume"]) == 0
    assert not list(out.rglob("*.part"))
    assert contents(out) == contents(home / "whole")


def test_parts_are_merged_to_the_same_bytes(home: Path, tmp_path: Path) -> None:
    """Also the files that only the whole has, but for the wall times of the cells."""
    parts = [tmp_path / str(number) for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        shard = ["--shard", f"{number}/3", "--out", str(part), "--jobs", "1", "--requests"]
        assert main([*COMMAND, *shard]) == 0
        assert len(list(part.glob("cells/*/*/*/cell.json"))) == CELLS // 3
        assert not (part / "result.json").exists()
    mark = parts[0] / "part.json"  # as version 0.1 wrote it
    fields = json.loads(mark.read_text())
    mark.write_text(json.dumps({"asked": fields.pop("experiment"), **fields}))
    assert main(["merge", str(tmp_path / "out"), *map(str, reversed(parts)), "--quiet", "--jobs", "1"]) == 0
    assert contents(tmp_path / "out") == contents(home / "whole")


@pytest.fixture(scope="module")
def half(home: Path) -> Path:
    """The first of two parts."""
    assert main([*COMMAND, "--shard", "1/2", "--out", "half", "--jobs", "1", "--loads", "1", "--seeds", "1"]) == 0
    return home / "half"


def test_parts_that_do_not_make_a_whole_are_refused(
    half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    assert main([*COMMAND, "--shard", "2/2", "--out", str(other), "--jobs", "1", "--loads", "1", "--seeds", "2"]) == 0
    wrong = {
        (half,): "part 2/2 is missing; run it with --shard",
        (half, half): "is part 1/2, as",
        (half, other): "(seeds is '2' and not '1'); give parts of one run",
        (half, tmp_path): "is not a finished part (part.json is missing)",
    }
    for parts, expected in wrong.items():
        assert main(["merge", str(tmp_path / "out"), *map(str, parts)]) == 2
        assert expected in capsys.readouterr().err
    assert main([*COMMAND, "--shard", "1/2"]) == 2
    assert "--shard 1/2: needs a folder that keeps the part; give --out DIR" in capsys.readouterr().err


def test_what_is_there_is_not_simulated_again(copied: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file: file.stat().st_mtime_ns for file in copied.rglob("cell.json")}
    shutil.rmtree(copied / "cells" / "load-1" / "round_robin" / "seed-1")
    assert main([*COMMAND, "--out", str(copied), "--resume", "--jobs", "1", "--requests"]) == 0
    after = {file: file.stat().st_mtime_ns for file in copied.rglob("cell.json")}
    assert [file.parent.name for file in after if after[file] != before[file]] == ["seed-1"]
    assert contents(copied) == contents(home / "whole")


def test_a_comparison_grows_by_loads_policies_and_seeds(copied: Path) -> None:
    """Other lists in the same folder use the cells that they share."""
    kept = copied / "cells" / "load-1" / "round_robin" / "seed-1" / "cell.json"
    before = kept.stat().st_mtime_ns
    more = ["--policies", "round_robin,least_tokens", "--loads", "1,2", "--seeds", "3", "--resume", "--jobs", "1"]
    assert main([*COMMAND, *more, "--out", str(copied)]) == 0
    result = json.loads((copied / "result.json").read_text())
    assert [each["load"] for each in result["loads"]] == [1.0, 2.0]
    assert len(result["loads"][0]["policies"]["round_robin"]["per_seed"]) == 3
    assert kept.stat().st_mtime_ns == before


def test_rows_of_requests_are_made_where_they_are_missing(copied: Path) -> None:
    rows = copied / "cells" / "load-1" / "round_robin" / "seed-1" / "requests.parquet"
    before = rows.read_bytes()
    rows.unlink()
    assert main([*COMMAND, "--out", str(copied), "--resume", "--jobs", "1"]) == 0
    assert not rows.exists()
    assert main([*COMMAND, "--out", str(copied), "--resume", "--jobs", "1", "--requests"]) == 0
    assert rows.read_bytes() == before


def test_the_resolved_scenario_compares_again_to_the_same_bytes(home: Path, tmp_path: Path) -> None:
    again = ["compare", str(home / "whole" / "scenario.resolved.yaml"), "--quiet", "--jobs", "1", "--requests"]
    assert main([*again, "--out", str(tmp_path / "again")]) == 0
    before, after = contents(home / "whole"), contents(tmp_path / "again")
    assert {name for name in before if before[name] != after[name]} <= {"report.html"}  # its title names the file


def test_the_json_is_that_of_the_folder(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*COMMAND, "--jobs", "1", "--json", "-"]) == 0
    assert capsys.readouterr().out == (home / "whole" / "result.json").read_text()
    assert main([*COMMAND, "--jobs", "1", "--json", str(tmp_path / "r.json")]) == 0
    assert (tmp_path / "r.json").read_bytes() == (home / "whole" / "result.json").read_bytes()


def test_it_prints_tables_and_where_the_files_are(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*COMMAND[:2], "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(("Take ", "No policy ", "No verdict ")) and printed.err == ""
    assert "Load 0.5: 60 requests × 2 seeds" in printed.out and "Load 1: " in printed.out
    assert f"Wrote to {tmp_path / 'out'}: report.html, result.json" in printed.out


def test_a_single_seed_of_generated_load_is_judged_by_blocks(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND[:2], "--jobs", "1", "--seeds", "1", "--loads", "1"]) == 0
    assert "from blocks of time" in capsys.readouterr().out


def test_a_short_recording_that_meets_its_slo_is_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of twenty requests the last one is under way when arrivals end: no queue that keeps a tenth of what comes."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{at * 0.1:.1f},100,10\n" for at in range(20))
    Path("trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    text = SCENARIO[: SCENARIO.index("workload:")] + "workload: {trace: trace.csv}\nslo: {ttft_s: 1}\n"
    Path("scenario.yaml").write_text(text + "policies: {router: [round_robin, least_requests]}\n")
    command = ["compare", "scenario.yaml", "--jobs", "1", "--loads", "1,2", "--json", "-", "--out", "out"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)["collapse"]["round_robin"]
    assert found["carried"] == 2.0 and found["beyond"] is None
    assert main([*command, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["collapse"]["round_robin"] == found
