"""`poise plan` as its user has it: tables, JSON, the page, and mistakes that are named."""

from __future__ import annotations

import json
import signal
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from poise.cli import main
from poise.plan import confirm
from poise.plan.command import ask
from poise.plan.options import PlanOptions
from poise.plan.plan import plan as find_plan
from poise.plan.verdict import answer
from tests.report.reader import read

QUICK = ["--requests", "200", "--seeds", "2", "--jobs", "1"]
LOAD = ["--rate", "20", "--prompt-tokens", "{lognormal: {mean: 500, cv: 0.8}}", "--output-tokens", "80"]
FEW = ["--no-split", "--no-mix"]
CLOCKS = ("first_s", "wall_s")
ASK = ["--model", "llama-3.1-8b", "--devices", "H100,L40S", "--slo", "ttft_s=1,tpot_s=0.05"]


def plan(*argv: str) -> int:
    """The exit code of `poise plan`."""
    return main(["plan", *argv])


def planned(*argv: str) -> dict[str, Any]:
    """The JSON of a plan."""
    with redirect_stdout(StringIO()) as printed:
        assert plan(*ASK, *LOAD, *QUICK, "--json", "-", *argv) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    """What `planned` says without options."""
    return planned()


@pytest.fixture(scope="module")
def cheap() -> dict[str, Any]:
    """The plan without prefill and decode apart, nor kinds of replicas mixed."""
    found: dict[str, Any] = planned(*FEW)["plan"]
    return found


def test_the_json_adds_up(usual: dict[str, Any]) -> None:
    found = usual
    best = found["plan"]
    assert best["attainment"] >= found["goal"]["attainment"] == 0.99
    assert best["devices"] == {
        device: sum(
            pool["replicas"] * pool["tensor"] * pool["pipeline"] * pool["data"]
            for pool in best["pools"] if pool["device"] == device
        )
        for device in {pool["device"] for pool in best["pools"]}
    }  # fmt: skip
    prices = found["prices"]["per_device_hour"]
    paid = sum(count * prices[device]["per_hour"] for device, count in best["devices"].items())
    assert best["price_per_hour"] == pytest.approx(paid)
    assert all(each["price_per_hour"] >= best["price_per_hour"] - 1e-9 for each in found["next_best"])
    assert found["pareto"] and all(each["price_per_hour"] >= best["price_per_hour"] - 1e-9 for each in found["pareto"])
    assert set(best["slack"]) == {"ttft_s", "tpot_s"} and best["binding"]
    assert found["search"]["first_s"] <= found["search"]["wall_s"]
    assert not found["search"]["interrupted"] and found["changes"]["load"] >= 1


def test_a_plan_repeats_itself(usual: dict[str, Any]) -> None:
    def timeless(found: dict[str, Any]) -> dict[str, Any]:
        return found | {"search": {name: each for name, each in found["search"].items() if name not in CLOCKS}}

    assert timeless(planned()) == timeless(usual)


@pytest.mark.parametrize("aim", ["gpus", pytest.param("energy", marks=pytest.mark.slow)])
def test_another_aim_is_no_worse_in_what_it_makes_least(cheap: dict[str, Any], aim: str) -> None:
    other = planned(*FEW, "--minimize", aim)["plan"]

    def value(best: dict[str, Any]) -> float:
        return float(sum(best["devices"].values()) if aim == "gpus" else best["j_per_mtok"])

    assert value(other) <= value(cheap) * 1.05, "measured over other seeds than were searched"


def test_a_plan_shows_itself_in_a_notebook() -> None:
    slo, load = "ttft_s=1,tpot_s=0.05", "{uniform: {low: 100, high: 900}}"
    options = PlanOptions(
        model="llama-3.1-8b", devices="H100", slo=slo, rate=20.0, prompt_tokens=load, output_tokens="80", no_split=True,
        no_mix=True, requests=200, seeds=2,
    )  # fmt: skip
    found = find_plan(ask(options))
    assert found.best is not None and found.best.fleet.written in repr(found) and len(repr(found)) < 200
    assert answer(found) in found._repr_html_() and "<script" not in found._repr_html_()
    frame = found.frame()
    assert frame["fleet"][0] == found.best.fleet.written
    assert frame["chosen"].to_list() == [True] + [False] * (len(frame) - 1)
    assert found.to_pandas()["price_per_hour"].to_list() == frame["price_per_hour"].to_list()
    axes = found.plot().axes
    heads = ["price, $/h", "devices", "power drawn, kW", "SLO met", "TTFT at 99 %", "TPOT at 99 %"]
    assert [each.get_xlabel() for each in axes] == heads
    assert axes[0].get_yticklabels()[0].get_text() == f"{found.best.fleet.written}, {found.best.fleet.router}"
    assert [text.get_text() for text in axes[-1].texts] == ["limit 50 ms"]


def test_out_has_the_page_and_what_deploys_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert plan(*ASK, *LOAD, *QUICK, "--out", str(out), "--hosts", "gpu1") == 0
    shown = capsys.readouterr().out
    names = {file.name for file in out.iterdir()}
    assert {"plan.json", "plan.html", "vllm.sh", "gateway.yaml", "kubernetes.yaml", "scenario.yaml"} <= names
    found = json.loads((out / "plan.json").read_text())
    assert shown.startswith(f"Take {found['plan']['fleet']}, {found['plan']['router']}: $")
    assert found["answer"] == shown.splitlines()[0] and "× headroom over that load" in found["answer"]
    assert {"figures.csv", "figures.parquet", "figures"} <= names and list((out / "figures").glob("*.svg"))
    figures = pl.read_csv(out / "figures.csv").filter(pl.col("metric") == "attainment")
    assert found["plan"]["attainment"] in figures["value"].to_list()
    assert "gpu1)" in (out / "vllm.sh").read_text()
    page = (out / "plan.html").read_text()
    loaded = {value for _, name, value in read(page).attributes if name in ("src", "href")}
    assert all(each.startswith(("#", "data:")) for each in loaded), "nothing is fetched"
    check_page(page, found["plan"], out)
    assert main(["simulate", str(out / "scenario.yaml"), "--json", "-"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["slo_attainment"] == pytest.approx(found["plan"]["attainment"], abs=0.02)


def check_page(page: str, best: dict[str, Any], out: Path) -> None:
    """The card has the fleet and its price, the table the price second, and every file is there to be copied."""
    words = read(page).sections
    assert next(iter(words)) == "answer" and best["fleet"] in words["answer"]
    assert f"${best['price_per_hour']:.2f}/h" in words["answer"]
    assert words["holds"][1:3] == ["Fleet", "$/h"] and words["holds"][12] == best["fleet"]
    for name in ("vllm.sh", "gateway.yaml", "kubernetes.yaml", "scenario.yaml"):
        assert (out / name).read_text().strip() in words["files"], name
    assert page.count(">target: 99 %</text>") == 2 and ">SLO: 1 s</text>" in page and ">SLO: 50 ms</text>" in page
    assert page.count('<path class="front"') >= 3


def test_ctrl_c_while_it_confirms_gives_the_best_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = confirm.confirm

    def interrupted(*given: Any) -> confirm.Confirmed:
        signal.raise_signal(signal.SIGINT)
        return real(*given)

    monkeypatch.setattr("poise.plan.plan.confirm", interrupted)
    assert plan(*ASK, *LOAD, *QUICK, "--json", "-") == 130
    found = json.loads(capsys.readouterr().out)
    assert found["search"]["interrupted"] and found["plan"]["attainment"] >= 0.99 and found["changes"] is None


def test_formats_of_the_kv_cache_are_tried() -> None:
    found = planned("--kv", "fp8", *FEW)
    assert {pool["kv"] for pool in found["plan"]["pools"]} == {"fp8"}


def test_a_trace_and_a_scenario_are_traffic(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, scenario = tmp_path / "day.csv", tmp_path / "day.yaml"
    rows = [f"{n / 10},{300 + 7 * (n % 50)},{20 + n % 9}" for n in range(400)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    scenario.write_text("workload: {trace: day.csv}\n")
    found = []
    for file in (trace, scenario):
        assert plan(str(file), *ASK, *QUICK, "--json", "-") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["plan"] == found[1]["plan"]
    assert found[0]["traffic"]["rate"] == pytest.approx(10, rel=0.01) and found[0]["traffic"]["recorded"]
    assert plan(str(trace), *ASK, *QUICK, "--set", "workload.scale=3", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["traffic"]["rate"] > 20


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--slo", "ttft_s=0.0001", *LOAD], "ttft_s=0.0001 cannot be met: a prompt of"),
        (["--slo", "tpot_s=0.0001", *LOAD], "tpot_s=0.0001 cannot be met: one request alone takes"),
        (["--budget", "0.5", *LOAD, *FEW], "within the limits; without them the best is"),
        (["--power-w", "50", *LOAD, *FEW], "within the limits; without them the best is"),
        (["--minimize", "fun", *LOAD], "--minimize fun: there is no such aim; give cost, energy, gpus"),
        (["--formats", "fp7", *LOAD], "--formats fp7: is not a format"),
        (["--engine", "triton", *LOAD], "--engine triton: is not known"),
        (["--devices", ",", *LOAD], "--devices: names nothing"),
        (["--devices", "H100,H1000", *LOAD], "H1000"),
        (["--devices", "H100,A10G,L40S", *LOAD], "no one price basis covers"),
        (["--model", "deepseek-v3", "--devices", "L4", "--widest", "2", *LOAD], "does not fit L4"),
        (["--prices", "nowhere.yaml", *LOAD], "nowhere.yaml"),
        (["--checkpoint", "fp8", *LOAD], "--checkpoint fp8: is not NAME=VALUE"),
        (["--checkpoint", "fp7=a/b", *LOAD], "fp7 is not a format"),
        (["--hosts", ",", *LOAD], "--hosts: names nothing"),
        (["--model", "llama-4-scout", "--rate", "1", "--prompt-tokens", "9000000", "--output-tokens", "9",
          "--requests", "4000"], "4,000 requests of 9,000,009 tokens are 3.6e+10 tokens, above the 8e+09"),
        ([], "there is no traffic; give a trace"),
        (["nowhere.csv"], "nowhere.csv"),
        (["one.csv"], "one.csv: it has 1 request, which gives no rate"),
        (["none.csv"], "the file has no rows"),
        (["bad.csv"], "poise: bad.csv, line 2: output_tokens is '0'"),
        (["bad.csv"], "or give --set workload.skip_bad=true"),
        (["one.csv", "--rate", "3"], "one.csv has arrivals of its own"),
        (["one.csv", "--set", "workload.trase=x"], "trase"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n")
    Path("bad.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,0\n1,10,5\n2,10,5\n")
    Path("none.csv").write_text("arrival_s,prompt_tokens,output_tokens\n")
    assert plan(*ASK, *QUICK, *argv) == 2
    shown = capsys.readouterr()
    assert expected in shown.out + shown.err and "Traceback" not in shown.err


def test_a_trace_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        *("plan", "--model", "poise/tiny", "--slo", "ttft_s=1", "--devices", "H100"),
        *("--trace", str(tmp_path / "absent.csv")),
    )
    assert main([*given]) == 2
    assert "absent.csv" in capsys.readouterr().err
    assert main([*given, str(tmp_path / "other.csv")]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [True, False])
def test_an_error_about_a_trace_names_the_trace_and_its_option(
    columns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And neither the scenario that plan makes of it nor an option that was not given."""
    trace = tmp_path / "t.csv"
    head = "created at,in,out,model" if columns else "arrival_s,prompt_tokens,output_tokens,model"
    trace.write_text(f"{head}\n" + "".join(f"{at},10,5,llama\n" for at in range(9)))
    argv = ["plan", "--trace", str(trace), "--model", "llama-3.1-8b", "--devices", "H100", "--slo", "ttft_s=1"]
    argv += ["--columns", "arrival_s=created at,prompt_tokens=in,output_tokens=out"] if columns else []
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"poise: {trace}: the trace asks for 'llama', which no pool serves")
    assert err.endswith("or give --set workload.ignore_model=true\n")
