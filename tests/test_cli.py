"""The command line: exit codes, the names that others script against, files, repetition and interruption."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import poise
from poise.cli import main
from poise.cli.reading import reads
from poise.cli.spelled import optional
from poise.core.compiled import CORE
from poise.core.records.trace import Trace
from poise.scenario import demo as demo_module
from poise.scenario.checks import source_of
from poise.scenario.load import load
from poise.scenario.step.read import is_step
from poise.scenario.tournament.read import is_tournament
from tests.scenario.test_traffic import FILES
from tests.test_docs import parse

SCENARIO = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 3}]}
workload:
  poisson: {rate: 200, requests: 120, prompt_tokens: {uniform: {low: 50, high: 900}}, output_tokens: 20}
  shared_prefixes: {groups: 4, prefix_tokens: 500}
slo: {ttft_s: 0.05, tpot_s: 0.01}
run: {seeds: 2}
"""

FIGURES = (
    *("requests", "finished", "rejected", "unfinished", "slo_attainment", "goodput_rps", "output_tokens_per_s"),
    *("prefix_hit_rate", "preemptions", "migrations", "cost_usd_per_mtok", "energy_j_per_mtok", "wall_s", "cpu_s"),
)
"""The names of the result JSON; TTFT, TPOT and E2E have parts besides."""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    return file


def _json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    """What `poise simulate scenario.yaml *argv --json -` prints."""
    assert main(["simulate", "scenario.yaml", *argv, "--json", "-"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def _timeless(given: Any) -> Any:
    """A result without how long it took to compute."""
    if isinstance(given, dict):
        return {name: _timeless(value) for name, value in given.items() if name not in ("wall_s", "cpu_s")}
    return [_timeless(each) for each in given] if isinstance(given, list) else given


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"poise {poise.__version__} ({CORE} core)\n"
    for argv in (["--help"], ["simulate", "--help"], ["demo", "-h"]):
        assert main(argv) == 0
        assert "Usage: poise" in capsys.readouterr().out
    assert main([]) == 2
    assert "simulate" in capsys.readouterr().out


def test_poise_alone_offers_three_first_things_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main([]) == 0
    printed = capsys.readouterr().out
    offered = re.findall(r"^  poise (.+?)(?: \\\n +(.+))?$", printed, re.MULTILINE)
    assert len(offered) == 3 and len(printed.splitlines()) < 15
    for first, rest in offered:
        parse(shlex.split(f"{first} {rest}"))


def test_the_answer_is_first_and_the_belief_last(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml"]) == 0
    printed = capsys.readouterr()
    first, *_, last = printed.out.splitlines()
    assert " with 3 × poise/tiny on " in first and first.endswith(".")
    assert last.startswith("Belief (the default): reports every 1 s, 50 ms late;")
    assert "Load: 120 requests, at" in printed.out and "reachable prefix hits" in printed.out
    assert printed.err == ""  # no bar: this is no terminal
    assert main(["simulate", "scenario.yaml", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_names_of_the_json(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = _json(capsys)
    for name in FIGURES:
        assert isinstance(result[name], int | float), name
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert list(result[name]) == ["mean", "p50", "p90", "p95", "p99"]
        assert all(value > 0 for value in result[name].values())
    assert (result["requests"], result["finished"], result["interrupted"]) == (120, 120, False)
    assert [each["seed"] for each in result["per_seed"]] == [0, 1]
    assert result["interval"]["ttft_s"]["p99"] >= 0
    for each in result["per_seed"]:
        assert set(FIGURES) <= set(each)
    for name in ("ttft_s", "e2e_s"):
        means = [each[name]["mean"] for each in result["per_seed"]]
        assert result[name]["mean"] == pytest.approx(sum(means) / 2)
    assert set(result["provenance"]) == {"poise", "core", "scenario", "engine", "cost", "workload", "belief", "seeds"}
    assert result["provenance"]["engine"] == {"model": "vllm", "version": "v1"}
    assert result["provenance"]["belief"]["period_s"] == 1.0
    assert result["provenance"]["cost"][0]["price"]["usd_per_device_hour"] > 0


def test_overrides_reach_every_field(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = _json(
        capsys, "--set", "cluster.pools.0.replicas=1", "--set", "belief.period_s=0", "--set",
        "policies.router={prefix_cache: {imbalance: 3}}", "--set", "run.warmup_s=0.1", "--seed", "7",
    )  # fmt: skip
    resolved = result["provenance"]["scenario"]
    assert resolved["cluster"]["pools"][0]["replicas"] == 1
    assert resolved["belief"]["period_s"] == 0
    assert resolved["policies"]["router"] == {"prefix_cache": {"imbalance": 3, "deviations": 2.0}}
    assert resolved["run"]["seeds"] == [7]
    assert result["requests"] < 120
    assert len(result["busy_time"]["per_replica"]) == 1


def test_out_has_every_file(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import polars as pl

    assert main(["simulate", "scenario.yaml", "--out", "a/b", "--json", "c/result.json"]) == 0
    assert "Wrote to a/b" in capsys.readouterr().out
    out = scenario.parent / "a" / "b"
    page = (out / "report.html").read_text()
    assert page.index("<h1>") < page.index("Belief (the default)")
    result = json.loads((out / "result.json").read_text())
    assert result == json.loads(Path("c/result.json").read_text())
    events = json.loads(gzip.decompress((out / "timeline.json.gz").read_bytes()))["traceEvents"]
    assert {"X", "C", "b", "e", "M"} <= {event["ph"] for event in events}
    rows = pl.read_parquet(out / "requests.parquet")
    assert len(rows) == 120
    assert rows["ttft_s"].mean() == pytest.approx(result["per_seed"][0]["ttft_s"]["mean"])
    header = (out / "scenario.resolved.yaml").read_text()
    assert "kv_blocks" in header and "version: v1" in header and f"poise: {poise.__version__}" in header


def test_blame_is_shown_where_it_is_requested(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--blame"]) == 0
    assert "Where the time of finished requests went, in the mean" in capsys.readouterr().out
    blamed, plain = _json(capsys, "--blame"), _json(capsys)
    assert "blame" not in plain
    assert sum(blamed["blame"]["ttft"].values()) == pytest.approx(blamed["ttft_s"]["mean"])
    assert blamed["interval"]["blame"]["ttft"]["queue"] >= 0
    for part in (blamed, blamed["interval"], *blamed["per_seed"]):
        del part["blame"]
    assert _timeless(blamed) == _timeless(plain)


def test_a_run_does_not_replace_a_comparisons_report(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study" / "cells").mkdir(parents=True)
    (tmp_path / "study" / "report.html").write_text("a comparison's")
    assert main(["simulate", str(scenario), "--out", str(tmp_path / "study")]) == 2
    assert "has a comparison, whose report a run would replace; give another folder" in capsys.readouterr().err
    assert (tmp_path / "study" / "report.html").read_text() == "a comparison's"


def test_out_changes_no_figure(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--out", "out", "--quiet"]) == 0
    result = json.loads(Path("out/result.json").read_text())
    assert _timeless(result) == _timeless(_json(capsys))


def test_the_resolved_scenario_runs_again_to_the_same_figures(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "scenario.yaml", "--out", "first", "--quiet"]) == 0
    assert main(["simulate", "first/scenario.resolved.yaml", "--out", "second", "--quiet"]) == 0
    first, second = (json.loads(Path(f"{name}/result.json").read_text()) for name in ("first", "second"))
    assert _timeless(first) == _timeless(second)
    assert Path("first/scenario.resolved.yaml").read_bytes() == Path("second/scenario.resolved.yaml").read_bytes()


def test_the_same_seed_gives_the_same_json_in_two_processes(scenario: Path) -> None:
    seen = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        argv = [sys.executable, "-m", "poise", "simulate", "scenario.yaml", "--json", "-", "--router", "prefix_cache"]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=scenario.parent, check=True)
        seen.append(json.dumps(_timeless(json.loads(done.stdout))))
    assert seen[0] == seen[1]


def test_events_are_recorded(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = _json(capsys)
    assert _timeless(_json(capsys, "--trace-events", "events.jsonl")) == _timeless(plain)
    trace = Trace.load("events.jsonl")
    assert trace.header["poise"] == poise.__version__
    assert trace.header["scenario"]["cluster"]["pools"][0]["replicas"] == 3
    kinds = [type(event).__name__ for event in trace.events]
    assert kinds.count("Arrived") == kinds.count("Finished") == 120


def test_bad_rows_are_counted_when_they_are_to_be_skipped(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{at},{-1 if at == 3 else 50},5" for at in range(10))
    Path("trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    changed = "workload={trace: trace.csv}"
    assert main(["simulate", "scenario.yaml", "--set", changed]) == 2
    assert "line 5" in capsys.readouterr().err
    result = _json(capsys, "--set", changed, "--skip-bad")
    assert result["requests"] == 9 and result["provenance"]["workload"]["skipped"] == 1
    assert "sha256" in result["provenance"]["workload"]
    assert "recorded load" in result["notes"]["seeds"]
    assert main(["simulate", "scenario.yaml", "--set", changed, "--skip-bad"]) == 0
    assert "1 bad rows skipped" in capsys.readouterr().out


BROKEN = """\
class Throws:
    needs = ()
    def route(self, request, cluster, chance):
        raise ZeroDivisionError("no such luck")

class Lies:
    needs = ()
    def route(self, request, cluster, chance):
        from poise.core.action import Route
        return Route(99)
"""


@pytest.mark.parametrize(("name", "message"), [("Throws", "ZeroDivisionError: no such luck"), ("Lies", "replica 99")])
def test_our_failures_are_one_line_with_the_way_to_the_traceback(
    scenario: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    Path("broken_routers.py").write_text(BROKEN)
    argv = ["simulate", "scenario.yaml", "--router", f"broken_routers:{name}"]
    monkeypatch.delenv("POISE_DEBUG", raising=False)
    assert main(argv) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert message in printed.err and "POISE_DEBUG=1" in printed.err
    monkeypatch.setenv("POISE_DEBUG", "1")
    with pytest.raises(Exception, match=message.partition(": ")[2] or message):
        main(argv)


READY = """\
import os

from poise.policies.route.least_requests import LeastRequests


class Announced(LeastRequests):
    told = False

    def route(self, request, cluster, chance):
        if request.id == 1000 and not self.told:
            self.told = True
            os.write(int(os.environ["READY"]), b"!")
        return super().route(request, cluster, chance)
"""


def test_an_interrupted_run_keeps_what_it_has_and_says_so(scenario: Path) -> None:
    Path("announced.py").write_text(READY)
    ours, theirs = os.pipe()
    argv = [
        *(sys.executable, "-m", "poise", "simulate", "scenario.yaml", "--router", "announced:Announced"),
        *("--set", "workload={poisson: {rate: 200, requests: 2e6}}", "--out", "out", "--json", "result.json"),
    ]
    environment = {**os.environ, "READY": str(theirs)}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, env=environment, pass_fds=[theirs]) as process:
        os.close(theirs)
        assert os.read(ours, 1) == b"!"  # a thousand requests have been routed
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    os.close(ours)
    assert process.returncode == 130, err
    assert "interrupted: partial" in out and "stopped by the user" in out
    result = json.loads(Path("result.json").read_text())
    assert result["interrupted"] is True and result == json.loads(Path("out/result.json").read_text())
    assert 1000 <= result["requests"] < 2_000_000
    assert result["finished"] + result["unfinished"] == result["requests"]
    assert Path("out/report.html").exists() and Path("out/requests.parquet").exists()


@pytest.mark.parametrize(("what", "name"), [("models", "meta-llama/Llama-3.1-8B"), ("devices", "H100-SXM-80GB")])
def test_lists(capsys: pytest.CaptureFixture[str], what: str, name: str) -> None:
    assert main([what]) == 0
    assert name in capsys.readouterr().out
    assert main([what, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed) >= 20
    entry = next(each for each in printed if each["name"] == name)
    assert "github" in entry["source"] or "https://" in entry["source"]
    assert all(value is not None for value in entry.values())


@pytest.mark.parametrize("command", [["models"], ["devices"], ["policies"], ["systems"], ["systems", "routing"]])
def test_lists_as_json_go_where_a_result_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([*command, "--json"]) == 0
    bare = capsys.readouterr().out
    assert main([*command, "--json", "-"]) == 0
    assert capsys.readouterr().out == bare
    file = tmp_path / "list.json"
    assert main([*command, "--json", str(file)]) == 0
    assert file.read_text() == bare
    table = capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out == table


def test_a_name_is_not_taken_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systems", "--json", "routing"]) == 2
    assert "--json routing: is the name of systems" in capsys.readouterr().err


def test_a_value_may_be_left_out_at_the_end_and_before_another_option() -> None:
    app = typer.Typer()

    @app.command(cls=optional("json", "-"))
    def command(
        place: Annotated[str | None, typer.Option("--json")] = None,
        more: Annotated[bool, typer.Option("--more")] = False,
        names: Annotated[list[str] | None, typer.Argument()] = None,
    ) -> None:
        print(place, more, names)

    def run(*words: str) -> str:
        return CliRunner().invoke(app, words).stdout.strip()

    assert run() == "None False None"
    assert run("a", "--json") == "- False ['a']"
    assert run("--json", "--more", "a") == "- True ['a']"
    assert run("--json", "-", "a") == run("--json=-", "a") == "- False ['a']"
    assert run("--json", "b", "a") == "b False ['a']"
    assert run("--", "--json") == "None False ['--json']"


@dataclass(frozen=True, kw_only=True)
class Options:
    first: Annotated[int, typer.Argument()]
    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=list)
    number: Annotated[int, typer.Option()] = 7
    place: Annotated[Path | None, typer.Option()] = None


def test_a_command_reads_its_options_from_their_dataclass() -> None:
    app = typer.Typer()
    read: list[Options] = []

    @app.command()
    @reads(Options)
    def command(options: Options) -> None:
        """What the help says."""
        read.append(options)

    assert CliRunner().invoke(app, ["3"]).exit_code == 0
    assert CliRunner().invoke(app, ["3", "--name", "a", "--name", "b", "--number", "0", "--place", "x"]).exit_code == 0
    assert read == [Options(first=3), Options(first=3, names=["a", "b"], number=0, place=Path("x"))]
    assert CliRunner().invoke(app, []).exit_code == 2
    assert "What the help says." in CliRunner().invoke(app, ["--help"]).stdout


def test_the_list_of_policies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--json"]) == 0
    printed = {(each["slot"], each["name"]): each for each in json.loads(capsys.readouterr().out)}
    for router in ("round_robin", "least_tokens", "least_requests", "prefix_cache"):
        assert printed["router", router]["about"].endswith(".")
    assert printed["router", "prefix_cache"]["parameters"] == {"imbalance": 16, "deviations": 2.0}
    assert main(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("  prefix_cache: "))
    assert "router: which replica gets a request; acts at the gateway" in lines[:at]
    assert "imbalance=16, deviations=2.0" in lines[at + 1 : at + 3][-1].strip()
    assert max(map(len, lines)) <= 110


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "poise", "models", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("gap_ms", [None, pytest.param(100, marks=pytest.mark.slow), 0])
def test_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, gap_ms: int | None
) -> None:
    monkeypatch.setattr(demo_module, "REQUESTS", 60)
    argv = ["demo", "--out", str(tmp_path / "out")]
    if gap_ms is not None:
        lines = [
            {
                "timestamp": gap_ms * at,
                "input_length": 1500,
                "output_length": 50,
                "hash_ids": [at % 5, 10 + at % 10, 100 + at],
            }
            for at in range(100)
        ]
        trace = tmp_path / "trace.jsonl"
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
        argv += ["--trace", str(trace)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(("Take ", "No policy ", "No verdict "))
    for router in demo_module.ROUTERS:
        assert sum(line.startswith(f"{router} ") for line in printed.splitlines()) >= 4
    assert "reachable prefix hits" in printed
    for file in ("report.html", "timeline.json.gz"):
        assert str(tmp_path / "out" / file) in printed and (tmp_path / "out" / file).stat().st_size > 1000


def test_a_quiet_demo_writes_its_files_and_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "REQUESTS", 60)
    assert main(["demo", "--quiet", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_memory_that_runs_out_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def show(*_: object) -> None:
        raise MemoryError("Unable to allocate 7.45 GiB")

    monkeypatch.setattr("poise.scenario.command.show_listing", show)
    assert main(["models"]) == 2
    line = "poise: memory ran out (Unable to allocate 7.45 GiB); ask for fewer requests, replicas or seeds\n"
    assert capsys.readouterr().err == line


EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.yaml"))


@pytest.mark.parametrize(
    "file", [file for file in EXAMPLES if not is_tournament(file) and not is_step(file)], ids=lambda file: file.stem
)
def test_the_examples_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are, but for fewer requests where they say how many; others have tests of their own."""
    scenario = load(file).scenario
    workload, source = scenario.workload, source_of(scenario.workload)
    command = ["compare", "--jobs", "1"] if isinstance(scenario.policies.router, list) else ["simulate"]
    fewer = [f"--set=workload.{source}.requests=120"] if hasattr(getattr(workload, source), "requests") else []
    assert main([*command, str(file), "--set", "run={seeds: 1}", *fewer]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^Load( 1)?: ", printed, re.MULTILINE) and ("reachable prefix hits" in printed) == (
        workload.shared_prefixes is not None or workload.sessions is not None or workload.workflows is not None
    )


def test_the_load_says_what_was_done_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "x_arrivals.csv").open("a") as file:
        file.write("2,0,1.5,1,Gamma,1\n")
    found = {
        "{trace: u.csv, skip_bad: true, scale: 2, squeeze: true}": "stamps squeezed by 2, 1 bad rows skipped",
        "{servegen: {arrivals: x_arrivals.csv, requests: 9}}": "1 clients without lengths (60 % of the requests) left",
        "{servegen: {arrivals: x_arrivals.csv, requests: 9, unmeasured: pool}}": "given the lengths of others",
        "{poisson: {rate: 5, requests: 9}, recorded_sessions: {trace: u.csv, think_s: 1}, skip_bad: true}": "1 bad",
    }
    for workload, expected in found.items():
        scenario = tmp_path / "s.yaml"
        scenario.write_text(f"model: poise/tiny\ncluster: {{pools: [{{device: H100}}]}}\nworkload: {workload}\n")
        for command in (["simulate"], ["compare", "--jobs", "1"]):
            assert main([*command, str(scenario)]) == 0
            assert expected in capsys.readouterr().out
