"""Workloads of scenarios: sources, clients, models, traces."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.run import run
from poise.scenario.schema_workload import Formats
from poise.scenario.traffic import Traffic
from poise.workload.readers import FORMATS, WEKA

SOURCES = [
    ("poisson: {rate: 5, requests: 9}", 9),
    ("gamma: {rate: 5, cv: 0.5, requests: 9}", 9),
    ("constant: {gap_s: 0.5, duration_s: 2}", 4),
    ("closed: {concurrency: 2, requests: 9}", 9),
    ("all_at_once: {requests: 9}", 9),
    ("trace: t.csv", 6),
    ("trace: t.csv\n  limit: 4", 4),
    ("trace: t.csv\n  scale: 2", 12),
    ("trace: t.csv\n  scale: {rate: 3}\n  squeeze: true", 6),
    ("poisson: {rate: 5, requests: 9}\n  sessions: {turns: 2}", 18),
    ("diurnal: {points: [[0, 1], [10, 9]], repeat: true, requests: 9}", 9),
    ("diurnal: {counts: c.csv, begin_s: 60, cv: 0}", 29),
    ("burstgpt: {rate: 5, requests: 40, prompt_tokens: 50}", 40),
    ("on_off: {rate_on: 50, on_s: 2, off_s: {exponential: 3}, requests: 9, prompt_tokens: {llumnix: S}}", 9),
    ("servegen: {arrivals: x_arrivals.csv, requests: 9}", 9),
    ("servegen: {arrivals: x_arrivals.csv, lengths: x_lengths.csv, duration_s: 60, top: 1}", 30),
    ("poisson: {rate: 5, requests: 9}\n  recorded_sessions: {trace: s.csv}", 18),
    ("poisson: {rate: 5, requests: 9}\n  recorded_sessions: {trace: u.csv, think_s: 3}\n  skip_bad: true", 18),
    ("poisson: {rate: 5, requests: 9, lengths: u.csv}\n  skip_bad: true", 9),
    (
        "poisson: {rate: 5, requests: 9}\n  workflows: {w: {tasks: {a: {prompt_tokens: 9, output_tokens: 2, count: 2}, "
        "b: {after: a, prompt_tokens: 9, output_tokens: 2}}}}",
        27,
    ),
    ("poisson: {rate: 5, requests: 9}\n  classes: {a: {share: 2, prompt_tokens: 5}, b: {priority: -1}}", 9),
    ("trace: t.csv\n  shift: {prompt: 2, output: 0.5}\n  cut: {prompt_tokens: 8}", 6),
    ("phases: [{rate: 100, duration_s: 2, cv: 0}, {rate: 10, duration_s: 3, cv: 0, prompt_tokens: 9}]", 228),
    (
        "poisson: {rate: 5, requests: 9}\n  sessions: {turns: 2, tool: search, hung: 0.5, hung_s: {fixed: {value: 9}}}",
        18,
    ),
    ("poisson: {rate: 5, requests: 9}\n  shared_prefixes: {groups: 4, prefix_tokens: 9, tenants: 2}", 9),
    ("poisson: {rate: 5, requests: 9}\n  adapters: {count: 4, rank: [8, 64], zipf: 1.2, share: 0.5}", 9),
]

FILES = {
    "c.csv": "time_bin,requests\n0,10\n60,10\n120,20\n",
    "s.csv": "arrival_s,prompt_tokens,output_tokens,request_id,after,delay_s\n0,5,3,a,,\n,9,3,b,a,2\n",
    "u.csv": "arrival_s,session,prompt_tokens,output_tokens\n0,a,5,3\n1,a,8,2\n1,a,0,2\n",
    "x_arrivals.csv": "client,window_start_s,rate_rps,cv,pattern,param1\n1,0,0.5,1,Gamma,1\n1,60,0.5,1,Weibull,1\n",
    "x_lengths.csv": "client,window_start_s,field,q0,q100\n1,0,input_tokens,5,9\n1,0,output_tokens,2,4\n",
}
"""What the sources above read."""

CSV = "arrival_s,prompt_tokens,output_tokens,timeout_s\n" + "".join(f"{at},{at + 5},3,{at % 2}\n" for at in range(6))


def _traffic(tmp_path: Path, workload: str, pools: str = "[{device: H100}]") -> Traffic:
    if not (tmp_path / "t.csv").exists():
        (tmp_path / "t.csv").write_text(CSV)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    file = tmp_path / "s.yaml"
    file.write_text(f"model: poise/tiny\ncluster: {{pools: {pools}}}\nworkload:\n  {workload}\n")
    return build(load(file)).traffic


@pytest.mark.parametrize(("workload", "rows"), SOURCES)
def test_sources(tmp_path: Path, workload: str, rows: int) -> None:
    made = _traffic(tmp_path, workload).make(0)
    assert len(made.check()) == rows


def test_clients_of_generated_load(tmp_path: Path) -> None:
    clients = "timeout_s: 3\n  deadline_s: 2\n  retry: 4\n  priority: -1"
    made = _traffic(tmp_path, f"poisson: {{rate: 5, requests: 9}}\n  {clients}").make(0)
    assert made.timeout is not None and set(made.timeout.tolist()) == {3 * SECOND}
    assert made.deadline is not None and set(made.deadline.tolist()) == {2 * SECOND}
    assert made.priority is not None and set(made.priority.tolist()) == {-1}
    assert made.retry == 4


def test_a_trace_keeps_what_it_says_of_clients_itself(tmp_path: Path) -> None:
    made = _traffic(tmp_path, "trace: t.csv\n  timeout_s: 9").make(0)
    assert made.timeout is not None
    assert (made.timeout // SECOND).tolist() == [9, 1, 9, 1, 9, 1]


def test_only_an_unchanged_trace_is_the_same_under_every_seed(tmp_path: Path) -> None:
    for workload, recorded in (
        ("trace: t.csv", True),
        ("trace: t.csv\n  scale: 0.5", False),
        ("trace: t.csv\n  scale: 2\n  squeeze: true", True),
        ("trace: t.csv\n  shared_prefixes: {groups: 2, prefix_tokens: 9}", False),
        ("poisson: {rate: 5, requests: 9}", False),
    ):
        traffic = _traffic(tmp_path, workload)
        assert traffic.recorded is recorded
        one, other = traffic.make(1), traffic.make(2)
        same = np.array_equal(one.arrival, other.arrival) and np.array_equal(one.prompt, other.prompt)
        assert same or not recorded


def test_models_of_a_trace_are_found_by_any_of_their_names(tmp_path: Path) -> None:
    rows = "".join(f"{at},5,3,{name}\n" for at, name in enumerate(["llama-3.1-8b", "Tiny", "poise/tiny"]))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens,model\n{rows}")
    pools = "[{device: H100}, {device: H100, model: Llama-3.1-8B}]"
    made = _traffic(tmp_path, "trace: t.csv", pools).make(0)
    assert made.model is not None
    assert [made.models[model] for model in made.model] == ["meta-llama/Llama-3.1-8B", "poise/tiny", "poise/tiny"]
    ignored = _traffic(tmp_path, "trace: t.csv\n  ignore_model: true").make(0)
    assert ignored.model is None and not ignored.models


def test_what_a_generator_finds_wrong_is_placed(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"s\.yaml:5: workload\.sessions: sessions need open load"):
        _traffic(tmp_path, "closed: {concurrency: 5, requests: 9}\n  sessions: {turns: 2}").make(0)


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ("trace: t.csv\n  classes: {a: {}}", "classes: draws requests anew, and the source is trace"),
        ("poisson: {rate: 5, requests: 9}\n  classes: {}", "classes: names no class; give one or more"),
        ("poisson: {rate: 5, requests: 9}\n  classes: {a: {share: 0}}", "share: 0 must be above 0"),
        ("poisson: {rate: 5, requests: 9}\n  classes: {a: {}}\n  recorded_sessions: {trace: s.csv}", "conflicts with"),
        ("poisson: {rate: 5, requests: 9}\n  sessions: {hung: 0.1}", "hung: needs a tool that hangs; give tool"),
        ("phases: []", "phases"),
        ("phases: [{rate: 5}]", "duration_s"),
        ("phases: [{rate: 5, duration_s: 2}]\n  scale: 2", "scale: belongs to a trace, and the source is phases"),
        ("poisson: {rate: 5, requests: 9}\n  cut: {prompt_tokens: 0}", "prompt_tokens: 0 must be at least 1"),
    ],
)
def test_mistakes_in_classes_shifts_and_phases_are_placed(tmp_path: Path, workload: str, why: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _traffic(tmp_path, workload)
    assert why in str(error.value) and "s.yaml" in str(error.value)


def test_phases_are_scaled_by_a_load(tmp_path: Path) -> None:
    made = _traffic(tmp_path, "phases: [{rate: 100, duration_s: 2, cv: 0}]")
    assert (len(made.make(0)), len(made.make(0, 0.5))) == (199, 99)


def test_a_pool_may_allow_more_tokens_than_its_model(tmp_path: Path) -> None:
    made = _traffic(tmp_path, "poisson: {rate: 5, requests: 9}", "[{device: H100, max_context: 99}]")
    assert made.cluster.pools[0].model.max_context == 99


def test_formats_of_the_schema_are_those_of_the_readers() -> None:
    assert set(get_args(Formats)) == {"auto", WEKA, *FORMATS}


def test_a_rate_to_reach_is_reached_by_whole_copies_and_a_part(tmp_path: Path) -> None:
    rows = "".join(f"{at},{at % 7 + 5},3\n" for at in range(600))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    made = _traffic(tmp_path, "trace: t.csv\n  scale: {rate: 2.5}").make(1)
    assert len(made.check()) == 1500 and made.rate == pytest.approx(2.5, rel=0.01)
    assert _traffic(tmp_path, "trace: t.csv\n  scale: {rate: 0.5}").make(1).rate == pytest.approx(0.5, rel=0.02)


def test_models_and_bad_rows_of_recorded_sessions(tmp_path: Path) -> None:
    text = "arrival_s,session,prompt_tokens,output_tokens,model\n0,a,5,3,gpt-x\n1,a,8,2,gpt-x\n2,a,0,1,gpt-x\n"
    (tmp_path / "m.csv").write_text(text)
    sessions = "poisson: {rate: 5, requests: 9}\n  recorded_sessions: {trace: m.csv, think_s: 3}\n  skip_bad: true"
    with pytest.raises(
        ScenarioError, match=r"s\.yaml:5: workload\.recorded_sessions\.trace: the trace asks for 'gpt-x'"
    ):
        _traffic(tmp_path, sessions).make(0)
    made = _traffic(tmp_path, f"{sessions}\n  ignore_model: true").make(0)
    assert made.model is None and made.source["recorded_sessions"]["skipped"] == 1
    assert len(made.source["recorded_sessions"]["sha256"]) == 64


def test_files_are_read_once_for_all_seeds(tmp_path: Path) -> None:
    for workload in (workload for workload, _ in SOURCES if ".csv" in workload):
        traffic = _traffic(tmp_path, workload)
        first = traffic.make(1)
        for name in ("t.csv", *FILES):
            (tmp_path / name).unlink()
        assert traffic.make(1).arrival.tolist() == first.arrival.tolist()


TRACES = [
    "azure_llm_2023/conv.csv.gz",
    "azure_llm_2023/code.csv.gz",
    "mooncake/conversation_trace.jsonl.gz",
    "mooncake/synthetic_trace.jsonl.gz",
]


def _served(tmp_path: Path, workload: str) -> None:
    """Run a workload end to end and see that every request ended once and every token is accounted for."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "model: llama-3.1-8b\ncluster: {pools: [{device: H100, replicas: 8}]}\n"
        f"workload: {workload}\npolicies: {{router: prefix_cache}}\n"
    )
    problem = build(load(file))
    workload = problem.traffic.make(0)
    outcome = run(problem)
    result = outcome.as_dict()
    assert result["requests"] == len(workload) == result["finished"] + result["rejected"]
    assert result["finished"] > 0.95 * len(workload)
    # Routers and queues change the order of rows a little, and with it who comes first.
    assert result["prefix_hit_rate"] <= 1.001 * workload.reachable_hit_rate()
    if not result["rejected"]:
        assert outcome.first is not None
        done = outcome.first.records
        assert sum(done.prompt_tokens) == int(workload.prompt.sum())
        assert sum(done.output_tokens) == int(workload.output.sum())


@pytest.mark.parametrize("trace", TRACES)
def test_the_beginning_of_each_recorded_trace(data_dir: Path, tmp_path: Path, trace: str) -> None:
    _served(tmp_path, f"{{trace: '{data_dir / trace}', limit: 150}}")


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES)
def test_each_recorded_trace_as_a_whole(data_dir: Path, tmp_path: Path, trace: str) -> None:
    _served(tmp_path, f"{{trace: '{data_dir / trace}'}}")


FAMILIES = [
    "{trace: DATA/agent_prefix_traces/miniswe.jsonl.gz}",
    "{trace: DATA/agent_prefix_traces/magagent.jsonl.gz, skip_bad: true, scale: {rate: 1}}",
    "{trace: DATA/agent_swe_sessions/events.csv.gz, limit: 800}",
    "{poisson: {rate: 0.5, requests: 12},"
    " recorded_sessions: {trace: DATA/agent_swe_sessions/events.csv.gz, limit: 900}}",
    "{on_off: {rate_on: 2, on_s: 9, off_s: 9, requests: 20}, skip_bad: true,"
    " recorded_sessions: {trace: DATA/agent_prefix_traces/magagent.jsonl.gz, think_s: {exponential: {mean: 3}}}}",
    "{poisson: {rate: 0.5, requests: 12}, recorded_sessions: {trace: DATA/agent_text2sql/trace1.jsonl.gz}}",
    "{diurnal: {counts: DATA/burstgpt_hourly/hourly.csv.gz, begin_s: 864000, lasting_s: 172800, rate: 0.003,"
    " lengths: DATA/length_tables/alpaca.parquet}}",
    "{poisson: {rate: 30, requests: 300, lengths: DATA/length_tables/lmsys_short_turns.parquet}, skip_bad: true}",
    "{gamma: {rate: 5, cv: 3, requests: 150, lengths: DATA/length_tables/arxiv_summarization.parquet}}",
    "{constant: {gap_s: 0.2, requests: 150, lengths: DATA/length_tables/sharegpt_8k.parquet}}",
    *(
        f"{{servegen: {{arrivals: DATA/servegen_alibaba/{family}_arrivals.parquet, begin_s: 36000, duration_s: 60,"
        " rate: 5, unmeasured: pool}}"
        for family in ("m-large", "m-small", "deepseek-r1", "mm-image")
    ),
]


@pytest.mark.parametrize("workload", FAMILIES, ids=[text.split("DATA/")[1][:32] for text in FAMILIES])
def test_each_family_of_data(data_dir: Path, tmp_path: Path, workload: str) -> None:
    _served(tmp_path, workload.replace("DATA", str(data_dir)))
