"""Every mistake of a user is one line on standard error that says where, what and how to cure it; exit code 2."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import poise as ps
from poise.cli import main
from poise.core.errors import ScenarioError

GOOD = """\
model: poise/tiny
cluster:
  pools:
    - device: H100
      replicas: 2
workload:
  poisson:
    rate: 5
    requests: 20
    prompt_tokens: 100
    output_tokens: 10
policies:
  router: least_requests
run:
  seeds: 1
"""

CURE = re.compile(
    r"\b(give|write|remove|did you mean|raise|lower|nearest are|known are|keep|add|set|check|see|choose|correct|save|"
    r"shorten|change|drop|rename|swap|name|put|quote|must be|what fits|takes|needs)\b"
)
"""Words that a cure is made of."""


def _provoke(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that `poise *argv` says as it refuses."""
    assert main(list(argv)) == 2, capsys.readouterr()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1 and printed.err.endswith("\n"), printed.err
    assert "Traceback" not in printed.err
    assert CURE.search(printed.err), f"no cure in {printed.err!r}"
    return printed.err


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "scenario.yaml"
    file.write_text(GOOD)
    return file


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{here}: &{here} [{','.join([f'*{before}'] * 9)}]\n" for before, here in pairwise("abcdefgh")
)


@pytest.mark.parametrize(
    "text, message",
    [
        (BOMB, "its aliases (*name) write out to"),
        ("a: !!x [1]\n", "a: has the tag tag:yaml.org,2002:x"),
        ("a: " + "{a: " * 1000 + "\n", "nested too deeply"),
        ("a: 2026-99-99\n", "is not valid YAML (month must be in 1..12)"),
    ],
)
def test_hostile_yaml_is_refused(scenario: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    scenario.write_text(text + GOOD)
    for command in ("simulate", "serve"):
        assert message in _provoke(capsys, command, "scenario.yaml")


@pytest.mark.parametrize("seeds", [10**6 + 1, 10**30])
def test_more_seeds_than_any_run_takes(scenario: Path, capsys: pytest.CaptureFixture[str], seeds: int) -> None:
    message = _provoke(capsys, "simulate", "scenario.yaml", "--set", f"run.seeds={seeds}")
    assert f"{seeds} seeds are more than the 1,000,000 that one run takes" in message


@pytest.mark.parametrize("replicas", [100_001, 100_000_000])
def test_more_replicas_than_memory_holds(scenario: Path, capsys: pytest.CaptureFixture[str], replicas: int) -> None:
    message = _provoke(capsys, "simulate", "scenario.yaml", "--set", f"cluster.pools.0.replicas={replicas}")
    assert "cluster.pools.0.replicas" in message
    assert (
        f"{replicas:,} replicas with the pools before it are more than the 100,000 that a cluster may have" in message
    )
    with pytest.raises(ScenarioError, match="are more than the 100,000 of a cluster; give fewer"):
        ps.Cluster.of("H100", count=replicas).replicas(replicas, model="llama-3.1-8b")


def test_a_home_folder_of_no_user(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "~nobody-at-all/x: no user of that name has a home folder"
    assert text in _provoke(capsys, "simulate", "scenario.yaml", "--set", "model=~nobody-at-all/x")
    assert text in _provoke(capsys, "simulate", "~nobody-at-all/x")
    assert text in _provoke(capsys, "serve", "~nobody-at-all/x")


def test_the_scenario_itself_is_good(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml"]) == 0
    assert "Belief" in capsys.readouterr().out.splitlines()[-1]


FILE = [
    # what replaces what in the good scenario; what the line must say
    ("    - device: H100", "    - device: H10", ["scenario.yaml:4: cluster.pools.0.device", "'H10'", "H100-SXM-80GB"]),
    (
        "    - device: H100",
        "    - device: {name: mine, bf16_tflops: 100, memory_gb: 20}",
        [":4: cluster.pools.0.device", "mine lacks memory_gb_s"],
    ),
    ("model: poise/tiny", "model: lama-3-8b", ["scenario.yaml:1: model", "'lama-3-8b'", "meta-llama/Meta-Llama-3-8B"]),
    (
        "      replicas: 2",
        "      replicas: -3",
        [":5: cluster.pools.0.replicas: -3 must be at least 1; give the number of"],
    ),
    ("      replicas: 2", "      replicas: 0", [":5: cluster.pools.0.replicas: 0 must be at least 1"]),
    ("      replicas: 2", "      replicas: 2.5", [":5: cluster.pools.0.replicas: 2.5 must be a whole number"]),
    ("      replicas: 2", "      replicas: '2'", [":5: cluster.pools.0.replicas: '2' is a text", "without quotes"]),
    ("      replicas: 2", "      replicas: true", [":5: cluster.pools.0.replicas: true must be a whole number"]),
    ("      replicas: 2", "      replicas:", [":5: cluster.pools.0.replicas: null must be a whole number"]),
    ("      replicas: 2", "      replica: 2", [":5: cluster.pools.0.replica: unknown key; did you mean replicas?"]),
    (
        "      replicas: 2",
        "      tensor_parallel_size: 2",
        [":5: cluster.pools.0.tensor_parallel_size", "did you mean tensor?"],
    ),
    ("      replicas: 2", "      replicas: 2\n      replicas: 3", ["scenario.yaml:6: replicas: stands twice"]),
    ("      replicas: 2", "\t  replicas: 2", ["scenario.yaml:5: a tab indents the line"]),
    ("      replicas: 2", "      replicas: [2", ["is not valid YAML", "brackets"]),
    ("      replicas: 2", "      role: prefil", [":5: cluster.pools.0.role: 'prefil'", "did you mean prefill?"]),
    ("      replicas: 2", "      role: prefill", [":5: cluster.pools.0.role: prefill needs a pool with role decode"]),
    ("      replicas: 2", "      role: decode", [":5: cluster.pools.0.role: decode needs a pool with role prefill"]),
    ("      replicas: 2", "      weights: fp16", [":5: cluster.pools.0.weights: 'fp16' must be bf16, fp8"]),
    ("      replicas: 2", "      expert: 3", [":5: cluster.pools.0.expert: 3, which does not divide"]),
    ("      replicas: 2", "      pipeline: 99", [":5: cluster.pools.0.pipeline: 99", "4 layers"]),
    ("      replicas: 2", "      model: llama-3.1-405b", [":5: cluster.pools.0.model", "does not fit", "tensor 16"]),
    ("      replicas: 2", "      model: ./nothing/config.json", [":5: cluster.pools.0.model", "nothing/config.json"]),
    ("      replicas: 2", "      price_basis: gold", [":4: cluster.pools.0.device", "'gold'", "price"]),
    (
        "      replicas: 2",
        "      engine: {kv_blocks: -1}",
        [":5: cluster.pools.0.engine.kv_blocks: -1 must be at least 0"],
    ),
    ("model: poise/tiny\n", "", ["cluster.pools.0.model: is missing"]),
    ("model: poise/tiny", "model: [a, b]", ["scenario.yaml:1: model: ['a', 'b'] must be a text"]),
    ("model: poise/tiny", "modell: poise/tiny", ["scenario.yaml:1: modell: unknown key; did you mean model?"]),
    ("model: poise/tiny", "model: 2024-01-01", ["scenario.yaml:1: model: is a date"]),
    (
        "    - device: H100\n      replicas: 2",
        "    - replicas: 2",
        [":4: cluster.pools.0.device: is missing", "poise devices"],
    ),
    ("    - device: H100\n      replicas: 2", "    []", ["cluster.pools: the list is empty"]),
    ("    - device: H100\n      replicas: 2", "    - H100", [":4: cluster.pools.0: 'H100' must be a mapping"]),
    (
        "    - device: H100",
        "    - device: {name: own}",
        [":4: cluster.pools.0.device: own lacks bf16_tflops, memory_gb"],
    ),
    (
        "    - device: H100",
        "    - device: {name: own, like: H1}",
        [":4: cluster.pools.0.device", "'H1'", "nearest are"],
    ),
    ("run:", "engine: {block_size: 32}\nrun:", ["engine.block_size: unknown key; did you mean block_tokens?"]),
    (
        "run:",
        "engine: {token_budget: 128}\nrun:",
        [":14: engine.token_budget: token_budget 128 must be at least max_seq"],
    ),
    ("run:", "engine: {lanes: [{share: 2}]}\nrun:", [":14: engine.lanes.0.share: 2 must be at most 1"]),
    ("run:", "engine: {lanes: [{prefill: false}]}\nrun:", [":14: engine.lanes: no lane computes prompts"]),
    ("run:", "engine: {preemption: swap}\nrun:", [":14: engine.preemption", "host_kv_gb"]),
    ("run:", "engine: {memory_fraction: 1.5}\nrun:", [":14: engine.memory_fraction: 1.5 must be at most 1"]),
    ("run:", "engine:\nrun:", [":14: engine: null must be a mapping"]),
    ("run:", "slo: {ttft: 1}\nrun:", [":14: slo.ttft: unknown key; did you mean ttft_s?"]),
    ("run:", "slo: {ttft_s: 0}\nrun:", [":14: slo.ttft_s: 0 must be above 0"]),
    ("run:", "slo: {ttft_s: 500ms}\nrun:", [":14: slo.ttft_s: '500ms' must be a number", "seconds"]),
    ("run:", "belief: {prefix: orcale}\nrun:", [":14: belief.prefix: 'orcale'", "did you mean oracle?"]),
    ("run:", "belief: {period_s: -1}\nrun:", [":14: belief.period_s: -1 must be at least 0"]),
    ("run:", "belief: {in_flight: yes}\nrun:", [":14: belief.in_flight: 'yes' is a text in YAML 1.2", "write true"]),
    ("run:", "cost: {gem_bf16: 0.5}\nrun:", [":14: cost.gem_bf16: unknown key; did you mean gemm_bf16?"]),
    ("run:", "cost: {gemm_bf16: 0}\nrun:", [":14: cost.gemm_bf16: 0 must be above 0; give the peak"]),
    ("run:", "cost: {gemm_bf16: 2}\nrun:", [":14: cost.gemm_bf16: 2 must be at most 1, a part of a datasheet"]),
    ("run:", "notes: hello\nrun:", [":14: notes: unknown key"]),
    ("  seeds: 1", "  seeds: 0", [":15: run.seeds: 0 seeds are none"]),
    ("  seeds: 1", "  seeds: [1, 1]", [":15: run.seeds", "twice"]),
    ("  seeds: 1", "  seeds: [-1]", [":15: run.seeds: [-1]"]),
    ("  seeds: 1", "  drain: false", [":15: run.drain", "run.until_s"]),
    ("  seeds: 1", "  until_s: 5\n  warmup_s: 5", [":16: run.warmup_s: 5 must be below until_s 5"]),
    ("  seeds: 1", "  until_s: .inf", [":15: run.until_s: inf must be a finite number"]),
    (
        "  router: least_requests",
        "  router: least_request",
        [":13: policies.router: 'least_request'", "did you mean least_requests"],
    ),
    ("  router: least_requests", "  router: []", [":13: policies.router: the list is empty"]),
    ("  router: least_requests", "  router: {a: 1, b: 2}", [":13: policies.router", "names no policy"]),
    ("  router: least_requests", "  router: [round_robin, nobody]", [":13: policies.router.1: 'nobody' is no router"]),
    (
        "  router: least_requests",
        "  router: {prefix_cache: {imbalence: 8}}",
        [":13: policies.router.prefix_cache: unknown parameter 'imbalence'; did you mean imbalance?"],
    ),
    (
        "  router: least_requests",
        "  router: {prefix_cache: {imbalance: many}}",
        [":13: policies.router.prefix_cache.imbalance: 'many' is no int"],
    ),
    (
        "  router: least_requests",
        "  router: nowhere.module:Thing",
        [":13: policies.router: cannot import 'nowhere.module'"],
    ),
    ("  router: least_requests", "  router: json:Thing", [":13: policies.router: module json has no class 'Thing'"]),
    ("  router: least_requests", "  router: json:JSONDecoder", [":13: policies.router", "no method 'route'"]),
    ("  router: least_requests", "  routers: least_requests", [":13: policies.routers", "did you mean router?"]),
    ("  router: least_requests", "  queue: fifo", [":13: policies.queue: 'fifo' is no queue", "priority"]),
    ("    rate: 5", "    rate: 0", [":8: workload.poisson.rate: 0 must be above 0; give requests per second"]),
    ("    rate: 5", "    qps: 5", [":8: workload.poisson.qps: unknown key; did you mean rate?"]),
    ("    requests: 20\n", "", [":7: workload.poisson", "neither requests nor duration_s"]),
    ("    requests: 20", "    duration_s: 1e-6", [":7: workload.poisson", "too short"]),
    ("    prompt_tokens: 100", "    prompt_tokens: -1", [":10: workload.poisson.prompt_tokens: -1 must be at least 1"]),
    ("    prompt_tokens: 100", "    prompt_tokens: {normal: 3}", [":10: workload.poisson.prompt_tokens", "lognormal"]),
    (
        "    prompt_tokens: 100",
        "    prompt_tokens: {lognormal: {mean: 3}}",
        [":10: workload.poisson.prompt_tokens", "lacks cv"],
    ),
    (
        "    prompt_tokens: 100",
        "    prompt_tokens: {uniform: {low: 9, high: 2}}",
        [":10: workload.poisson", "below low 9"],
    ),
    (
        "    prompt_tokens: 100",
        "    prompt_tokens: long",
        [":10: workload.poisson.prompt_tokens: 'long'", "give a number"],
    ),
    ("    prompt_tokens: 100", "    lengths: lengths.csv", [":10: workload.poisson.lengths", "one or the other"]),
    ("  poisson:", "  poison:", [":7: workload.poison: unknown key; did you mean poisson?"]),
    (
        "policies:",
        "  gamma: {rate: 1, cv: 2, requests: 3}\npolicies:",
        ["workload: names poisson and gamma; give exactly one"],
    ),
    ("policies:", "  scale: 2\npolicies:", [":12: workload.scale: belongs to a trace", "rate"]),
    ("policies:", "  sessions: {turns: 0}\npolicies:", [":12: workload.sessions.turns: 0 must be at least 1"]),
    (
        "policies:",
        "  shared_prefixes: {groups: 5}\npolicies:",
        [":12: workload.shared_prefixes.prefix_tokens: is missing"],
    ),
    ("policies:", "  timeout_s: -2\npolicies:", [":12: workload.timeout_s: -2 must be above 0"]),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: lost, replica: 2}]",
        [":6: cluster.faults.0.replica: 2 does not"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: explode, replica: 0}]",
        [":6: cluster.faults.0.kind: 'explode'"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{kind: lost, replica: 0}]",
        [":6: cluster.faults.0.at_s: is missing"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: lost, replica: 0, notice_s: 3}]",
        [":6: cluster.faults.0.notice_s: belongs to kind reclaimed"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: slow, replica: 0, for_s: 3}]",
        [":6: cluster.faults.0.factor: 1 must be above 1"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: link_lost, replica: 0}]",
        [":6: cluster.faults.0.for_s: 0 would never end"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: device_lost, replica: 0, for_s: -3}]",
        [":6: cluster.faults.0.for_s: "],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: device_lost, replica: 1, devices: 2}]",
        [":6: cluster.faults.0.devices: 2 are more than the 1 of replica 1"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  fault_rates: [{kind: device_lost, per_hour: 1, for_s: 9, devices: 2}]",
        [":6: cluster.fault_rates.0.devices: 2 are more than the 1 of replica 0"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: lost, replica: 1, devices: 2}]",
        [":6: cluster.faults.0.devices: belongs to kind device_lost"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  faults: [{at_s: 1, kind: lost, replica: 0, factor: 2}]",
        [":6: cluster.faults.0.factor: belongs to slow, link_slow or join"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  fault_rates: [{kind: lost, per_hour: 1, replicas: [2]}]",
        [":6: cluster.fault_rates.0.replicas.0: 2 does not"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  fault_rates: [{kind: slow, per_hour: 1, factor: 2}]",
        [":6: cluster.fault_rates.0.for_s: of a slow that comes again is 0"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n  fault_rates: [{kind: slow, per_hour: 1, factor: 2, for_s: 1, back_s: 3}]",
        [":6: cluster.fault_rates.0.back_s: belongs to a replica that goes"],
    ),
    (
        "    replicas: 2",
        "    replicas: 2\n    - device: H100\n      model: phi-4",
        ["workload: the pools serve", "model"],
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), FILE, ids=[f"{at}-{new.strip()[:30]}" for at, (_, new, _) in enumerate(FILE)]
)
def test_a_mistake_in_the_file(
    scenario: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, expected: list[str]
) -> None:
    assert old in GOOD
    scenario.write_text(GOOD.replace(old, new))
    message = _provoke(capsys, "simulate", "scenario.yaml")
    assert "scenario.yaml" in message
    for part in expected:
        assert part in message


WORKLOADS = [
    # a workload in place of that of the good scenario, in line 6; what the line must say
    ("{diurnal: {duration_s: 9}}", ["workload.diurnal: has neither points nor counts; give one"]),
    ("{diurnal: {points: [[0, 1], [9, 2]], counts: c.csv}}", ["workload.diurnal: has both points and counts"]),
    ("{diurnal: {points: [[0, 1]]}}", ["workload.diurnal: a profile has 1 points; give at least two pairs"]),
    ("{diurnal: {points: [[0, 1], [9]]}}", ["workload.diurnal: points holds something else than pairs"]),
    ("{diurnal: {points: [[0, 1], [9, x]]}}", ["workload.diurnal.points.1.1: 'x' must be a number; give pairs of"]),
    (
        "{diurnal: {points: [[5, 1], [9, 1]]}}",
        ["the points of a profile begin at 5; give points that ascend from second 0"],
    ),
    ("{diurnal: {points: [[0, 1], [9, 1]], begin_s: 3}}", ["workload.diurnal.begin_s: belongs to counts"]),
    ("{diurnal: {points: [[0, 1], [9, 1]], repeat: true}}", ["has neither requests nor duration_s"]),
    ("{diurnal: {points: [[0, 1], [9, 1]], duration_s: 20}}", ["the profile ends at 9 s; shorten it or set repeat"]),
    (
        "{diurnal: {points: [[0, 1], [9, 1]], spikes: [{at_s: 1, lasting_s: 50, factor: 3}]}}",
        ["a spike ends at 51 s, behind the profile's end at 9 s; shorten it"],
    ),
    (
        "{diurnal: {points: [[0, 1], [9, 1]], spikes: [{at: 1, lasting_s: 5, factor: 3}]}}",
        ["workload.diurnal.spikes.0.at: unknown key; did you mean at_s?"],
    ),
    ("{diurnal: {counts: c.csv}}", ["workload.diurnal.counts: c.csv, line 3: requests is 'x'", "skip_bad: true"]),
    ("{diurnal: {counts: none.csv}}", ["workload.diurnal.counts: none.csv: no such file; check the path"]),
    ("{on_off: {rate_on: 5, on_s: 3, requests: 9}}", ["workload.on_off.off_s: is missing; give the seconds that off"]),
    ("{on_off: {rate_on: 5, on_s: 3, off_s: 2}}", ["workload.on_off: has neither requests nor duration_s; give one"]),
    ("{on_off: {rate_on: 5, on_s: 0, off_s: 2, requests: 9}}", ["on_s draws nothing but 0; give turns that last"]),
    ("{on_off: {rate_on: 0, on_s: 1, off_s: 2, requests: 9}}", ["workload.on_off.rate_on: 0 must be above 0"]),
    ("{servegen: {arrivals: x_arrivals.csv}}", ["workload.servegen: has neither requests nor duration_s; give one"]),
    ("{servegen: {arrivals: t.csv, requests: 9}}", ["workload.servegen.arrivals: t.csv: its name has no `arrivals`"]),
    (
        "{servegen: {arrivals: x_arrivals.csv, requests: 9}}",
        ["workload.servegen.arrivals: x_lengths.csv: no such file"],
    ),
    ("{trace: x_arrivals.csv}", ["is a table of clients, not of requests; give it as servegen: {arrivals: FILE"]),
    ("{trace: c.csv}", ["c.csv: is a table of counts over time; give it as diurnal: {counts: FILE}"]),
    (
        "{trace: t.csv, scale: {rat: 4}}",
        ["workload.scale: {'rat': 4} is not a scale; give a factor, as in 1.5, or {rate"],
    ),
    ("{trace: t.csv, scale: {rate: 0}}", ["workload.scale: 0 must be above 0; give a factor"]),
    ("{trace: t.csv, scale: -1}", ["workload.scale: -1 must be above 0; give a factor"]),
    ("{trace: t.csv, limit: 1, scale: {rate: 4}}", ["workload.scale: rate is 4, but the requests all begin at one"]),
    ("{trace: t.csv, format: burst}", ["workload.format: 'burst' must be auto", "did you mean burstgpt?"]),
    (
        "{poisson: {rate: 5, requests: 9}, workflows: "
        "{w: {tasks: {a: {after: b, prompt_tokens: 1, output_tokens: 1}}}}}",
        ["workload.workflows.w: a waits for 'b', which is no task; known are a"],
    ),
    (
        "{closed: {concurrency: 5, requests: 9}, workflows: {w: {tasks: {a: {prompt_tokens: 1, output_tokens: 1}}}}}",
        ["workload.workflows: needs open arrivals of its own, and the source is closed"],
    ),
    (
        "{poisson: {rate: 5, requests: 9}, workflows: {w: {tasks: {a: {prompt_tokens: 1, count: 0}}}}}",
        ["workload.workflows.w.tasks.a.count: 0 must be at least 1"],
    ),
    (
        "{poisson: {rate: 5, requests: 9}, recorded_sessions: {trace: t.csv}}",
        ["workload.recorded_sessions: the recording has no sessions; give one with a column `session` or `after`"],
    ),
    (
        "{poisson: {rate: 5, requests: 9}, recorded_sessions: {trace: u.csv}}",
        ["workload.recorded_sessions: the recording does not say who waits for whom; give think_s"],
    ),
    (
        "{poisson: {rate: 5, requests: 9, prompt_tokens: 7}, recorded_sessions: {trace: u.csv}}",
        ["workload.poisson.prompt_tokens: recorded_sessions have their own lengths; remove it"],
    ),
    (
        "{poisson: {rate: 5, requests: 9}, sessions: {}, recorded_sessions: {trace: u.csv}}",
        ["workload.recorded_sessions: conflicts with sessions; give one or the other"],
    ),
    (
        "{trace: t.csv, recorded_sessions: {trace: u.csv}}",
        ["workload.recorded_sessions: needs open arrivals of its own, and the source is trace; take poisson"],
    ),
    ("{poisson: {rate: 5, requests: 9, prompt_tokens: {llumnix: XL}}}", ["llumnix: size is 'XL'; it must be S, M, L"]),
    (
        "{poisson: {rate: 5, requests: 9, prompt_tokens: {pareto: {min: 9, alpha: 1}}}}",
        ["workload.poisson.prompt_tokens: pareto lacks max; it takes min, alpha, max"],
    ),
]


@pytest.mark.parametrize(("workload", "expected"), WORKLOADS, ids=[text for text, _ in WORKLOADS])
def test_a_mistake_in_the_workload(
    scenario: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, workload: str, expected: list[str]
) -> None:
    (tmp_path / "c.csv").write_text("time_bin,requests\n0,4\n60,x\n")
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,9,5\n")
    (tmp_path / "u.csv").write_text("arrival_s,session,prompt_tokens,output_tokens\n0,a,10,5\n1,a,19,5\n")
    windows = "1,0,0.5,Gamma,1\n1,60,0.5,Gamma,1\n"
    (tmp_path / "x_arrivals.csv").write_text(f"client,window_start_s,rate_rps,pattern,param1\n{windows}")
    head, tail = GOOD.split("workload:\n")[0], "policies:" + GOOD.split("policies:")[1]
    scenario.write_text(f"{head}workload: {workload}\n{tail}")
    message = _provoke(capsys, "simulate", "scenario.yaml")
    assert message.startswith("poise: scenario.yaml:6: workload.")
    for part in expected:
        assert part in message


WHOLE = [
    ("", ["is empty", "cluster and workload"]),
    ("# nothing\n", ["is empty"]),
    ("- a\n- b\n", ["is a list", "mapping"]),
    ("hello\n", ["is a text", "mapping"]),
    ("a: {b: c\n", ["is not valid YAML"]),
    ("a: 1\n---\nb: 2\n", ["second document"]),
    ("1: 2\n", ["1: unknown key"]),
    ("cluster: {pools: [{device: H100}]}\n", ["workload: is missing; give a section workload"]),
    ("workload: {trace: x}\n", ["cluster: is missing; give a section cluster"]),
    ("a: &x [*x]\n", ["scenario.yaml"]),
    ("model: !!python/object:os.system {}\n", ["scenario.yaml"]),
]


@pytest.mark.parametrize(("text", "expected"), WHOLE)
def test_a_file_that_is_no_scenario(
    scenario: Path, capsys: pytest.CaptureFixture[str], text: str, expected: list[str]
) -> None:
    scenario.write_text(text)
    message = _provoke(capsys, "simulate", "scenario.yaml")
    for part in expected:
        assert part in message


def test_a_file_that_is_no_text(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario.write_bytes(b"model: \xff\xfe")
    assert "byte 7 is not UTF-8" in _provoke(capsys, "simulate", "scenario.yaml")


LINE = [
    (["simulate"], ["Missing argument", "poise simulate --help"]),
    (["simulate", "nothing.yaml"], ["nothing.yaml: no such file"]),
    (["simulate", "."], ["is a folder"]),
    (["simulate", "scenario.yaml", "--jsn", "x"], ["--jsn", "--json"]),
    (["simulate", "scenario.yaml", "--seed", "x"], ["--seed", "'x'"]),
    (["simulate", "scenario.yaml", "--seed", "-1"], ["--seed -1: run.seeds"]),
    (["simulate", "scenario.yaml", "more"], ["more"]),
    (["simulat", "scenario.yaml"], ["simulat"]),
    (["simulate", "scenario.yaml", "--set", "run.seeds"], ["--set run.seeds: has no '='"]),
    (["simulate", "scenario.yaml", "--set", "=3"], ["--set =3: the path '' has an empty part"]),
    (["simulate", "scenario.yaml", "--set", "run..seeds=3"], ["has an empty part"]),
    (["simulate", "scenario.yaml", "--set", "run.seeds=[1"], ["--set run.seeds=[1: '[1' is not a YAML value"]),
    (["simulate", "scenario.yaml", "--set", "run.sedes=3"], ["--set run.sedes=3: run.sedes", "did you mean seeds?"]),
    (["simulate", "scenario.yaml", "--set", "cluster.pols.0.replicas=3"], ["cluster.pols", "did you mean pools?"]),
    (["simulate", "scenario.yaml", "--set", "cluster.pools.7.replicas=3"], ["cluster.pools has no item 7; give 0"]),
    (["simulate", "scenario.yaml", "--set", "cluster.pools.x.replicas=3"], ["cluster.pools is a list; 'x' must be"]),
    (["simulate", "scenario.yaml", "--set", "run.seeds.a=3"], ["run.seeds is 1, which has no parts"]),
    (["simulate", "scenario.yaml", "--set", "cluster.pools.0.replicas=x"], ["cluster.pools.0.replicas: 'x' must be"]),
    (["simulate", "scenario.yaml", "--set", "slo.ttft_s=-1"], ["--set slo.ttft_s=-1: slo.ttft_s: -1 must be above 0"]),
    (
        ["simulate", "scenario.yaml", "--set", "engine.max_sequences=9000"],
        ["--set engine.max_sequences=9000: engine.max_sequences: token_budget 8192 must be at least max_sequences"],
    ),
    (["simulate", "scenario.yaml", "--router", "robin"], ["--router robin: policies.router: 'robin' is no router"]),
    (
        ["simulate", "scenario.yaml", "--router", "round_robin", "--router", "x"],
        ["--router: a run has one router", "poise compare --policies round_robin,x"],
    ),
    (["simulate", "scenario.yaml", "--set", "workload={}"], ["workload: names no source; give exactly one of trace"]),
    (["simulate", "scenario.yaml", "--skip-bad"], ["--skip-bad: workload.skip_bad: belongs to a trace"]),
    (
        ["simulate", "scenario.yaml", "--json", "scenario.yaml/x.json"],
        ["--json scenario.yaml/x.json: cannot be written"],
    ),
    (["simulate", "scenario.yaml", "--json", "."], ["--json .: is a folder"]),
    (["simulate", "scenario.yaml", "--out", "scenario.yaml"], ["--out scenario.yaml: cannot be written"]),
    (["simulate", "scenario.yaml", "--trace-events", "scenario.yaml/x"], ["--trace-events scenario.yaml/x: cannot be"]),
    (["demo", "--trace", "nothing.jsonl", "--out", "d"], ["nothing.jsonl"]),
    (["demo", "--out", "scenario.yaml/x"], ["--out scenario.yaml/x: cannot be written"]),
    (["demo", "--trace", "scenario.yaml", "--out", "d"], ["scenario.yaml"]),
    (["models", "--jason"], ["--jason", "--json"]),
]


@pytest.mark.parametrize(("argv", "expected"), LINE, ids=[" ".join(argv) for argv, _ in LINE])
def test_a_mistake_on_the_command_line(
    scenario: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: list[str]
) -> None:
    message = _provoke(capsys, *argv)
    for part in expected:
        assert part in message


COMPARISONS = [
    ([], ["Missing argument", "poise compare --help"]),
    (["nothing.yaml"], ["nothing.yaml: no such file"]),
    (["scenario.yaml", "--policies", "round_robin,prefx_cache"], ["policies.router.1", "did you mean prefix_cache"]),
    (
        ["scenario.yaml", "--policies", "round_robin,round_robin"],
        ["round_robin stands twice in the list; keep it once"],
    ),
    (["scenario.yaml", "--policies", ""], ["--policies : policies.router", "the list is empty; give at least one"]),
    (["scenario.yaml", "--policies", "a: ["], ["--policies a: [:", "is not a YAML value"]),
    (["scenario.yaml", "--loads", "0"], ["--loads 0: compare.loads.0: 0 must be above 0"]),
    (["scenario.yaml", "--loads", "1,x"], ["--loads 1,x: compare.loads.1: 'x' must be a number"]),
    (["scenario.yaml", "--loads", "-1"], ["compare.loads.0: -1 must be above 0"]),
    (["scenario.yaml", "--loads", ".inf"], ["--loads .inf: compare.loads.0"]),
    (["scenario.yaml", "--loads", ""], ["compare.loads"]),
    (["scenario.yaml", "--loads", "1,1.0"], ["compare.loads: [1.0, 1.0] names a load twice; give each load once"]),
    (["scenario.yaml", "--seeds", "0"], ["--seeds 0: run.seeds: 0 seeds are none; give how many"]),
    (["scenario.yaml", "--seeds", "-2"], ["--seeds -2: run.seeds: -2 seeds are none"]),
    (["scenario.yaml", "--seeds", "x"], ["--seeds x: run.seeds: 'x' is not a valid choice of seeds"]),
    (["scenario.yaml", "--seeds", "[3,3]"], ["names a seed twice; give each seed once"]),
    (["scenario.yaml", "--by", "ttft.p99"], ["--by ttft.p99: compare.by", "did you mean ttft_s.p99"]),
    (["scenario.yaml", "--by", "speed"], ["compare.by: 'speed' is not a figure", "known are slo_attainment"]),
    (["scenario.yaml", "--by", "slo_attainment"], ["compare.by: slo_attainment needs an SLO to meet; give"]),
    (["scenario.yaml", "--jobs", "0"], ["--jobs 0: must be a whole number of at least 1"]),
    (["scenario.yaml", "--jobs", "two"], ["--jobs two: must be a whole number"]),
    (["scenario.yaml", "--set", "compare.target=1.5"], ["compare.target: 1.5 must be at most 1"]),
    (["scenario.yaml", "--resume"], ["--resume: needs a folder that keeps the cells; give --out DIR"]),
    (["scenario.yaml", "--requests"], ["--requests: needs a folder"]),
    (["scenario.yaml", "--out", "scenario.yaml"], ["--out scenario.yaml: cannot be written"]),
    (["scenario.yaml", "--json", "."], ["--json .: is a folder"]),
    (["scenario.yaml", "--policy", "x"], ["--policy", "--policies"]),
    (["scenario.yaml", "--set", "run.warmup_s=100"], ["run.warmup_s = 100", "shorten the warm-up"]),
    (
        ["scenario.yaml", "--set", "workload={closed: {concurrency: 2, requests: 9}}", "--set", "run.warmup_s=1000"],
        ["run.warmup_s = 1000: no request arrived after it, so none would count; shorten the warm-up"],
    ),
    (
        ["scenario.yaml", "--set", "workload={all_at_once: {requests: 9}}", "--set", "run.warmup_s=1"],
        ["run.warmup_s = 1: the last of 9 requests arrives after 0 s, so none would count; shorten the warm-up"],
    ),
    (
        ["scenario.yaml", "--set", "workload={closed: {concurrency: 2, requests: 9}}", "--loads", "1,2"],
        ["workload.closed: has no rate that load 2 could multiply; compare at load 1, or give poisson"],
    ),
    (
        ["scenario.yaml", "--set", "workload={closed: {concurrency: 2, requests: 9}}", "--find-collapse"],
        ["workload.closed: has no rate that load"],
    ),
]


@pytest.mark.parametrize(("argv", "expected"), COMPARISONS, ids=[" ".join(argv) for argv, _ in COMPARISONS])
def test_a_mistake_in_a_comparison(
    scenario: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: list[str]
) -> None:
    message = _provoke(capsys, "compare", *argv, *(["--jobs", "1"] if argv and "--jobs" not in argv else []))
    for part in expected:
        assert part in message


FOLDERS = [
    ((), [], "--out out: holds 2 cells of an earlier comparison; add --resume"),
    (
        (),
        ["--resume", "--set", "cluster.pools.0.replicas=3"],
        "(cluster.pools.0.replicas was 2 and is 3); name another",
    ),
    ((), ["--resume", "--set", "workload.poisson.rate=6"], "cells are of another scenario (workload.poisson.rate was"),
    (("scenario.resolved.yaml", None), ["--resume"], "scenario.resolved.yaml: no such file"),
    (("scenario.resolved.yaml", "model: x"), ["--resume"], "does not say what the cells beside it are; name another"),
    (("cells/load-1/round_robin/seed-0/cell.json", "{"), ["--resume"], "cell.json: cannot be read"),
    (("cells/load-1/round_robin/seed-0/cell.npz", "no"), ["--resume"], "cell.npz: cannot be read"),
    (("cells/load-1/load.json", "{"), ["--resume"], "load.json: cannot be read"),
]


@pytest.mark.parametrize(("broken", "argv", "message"), FOLDERS, ids=[message[:40] for *_, message in FOLDERS])
def test_a_folder_that_a_comparison_cannot_go_on_in(
    scenario: Path, capsys: pytest.CaptureFixture[str], broken: tuple[str, str | None], argv: list[str], message: str
) -> None:
    command = ["compare", "scenario.yaml", "--policies", "round_robin,least_tokens", "--jobs", "1", "--out", "out"]
    assert main([*command, "--quiet"]) == 0
    if broken:
        file, text = Path("out", broken[0]), broken[1]
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
    assert message in _provoke(capsys, *command, *argv)


def test_a_policy_whose_code_changed_since(scenario: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    module = tmp_path / "changing_router.py"
    module.write_text("from poise.policies.route.round_robin import RoundRobin\nclass Mine(RoundRobin): pass\n")
    command = ["compare", "scenario.yaml", "--policies", "changing_router:Mine", "--jobs", "1", "--out", "out"]
    assert main([*command, "--quiet"]) == 0
    module.write_text(module.read_text() + "# changed\n")
    assert "is a cell of another Mine (its parameters or its code changed)" in _provoke(capsys, *command, "--resume")


TRACES = [
    (
        "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,-3,5\n",
        ["line 3", "prompt_tokens is", "skip_bad: true (--skip-bad)"],
    ),
    ("arrival_s,prompt_tokens,output_tokens\n0,10,5\nx,3,5\n", ["line 3", "arrival_s is 'x'"]),
    (
        "arrival_s,prompt\n0,10\n",
        [
            "no column for prompt_tokens (tokens), output_tokens (tokens) among arrival_s, prompt",
            "prompt_tokens: prompt",
        ],
    ),
    ("arrival_s,prompt_tokens,output_tokens\n", ["no rows"]),
    ("", ["the file is empty"]),
    (
        "arrival_s,prompt_tokens,output_tokens,model\n0,10,5,gpt-x\n",
        ["'gpt-x'", "which no pool serves", "ignore_model: true"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), TRACES)
def test_a_mistake_in_a_trace(
    scenario: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, expected: list[str]
) -> None:
    (tmp_path / "requests.csv").write_text(text)
    head, tail = GOOD.split("workload:\n")[0], "policies:" + GOOD.split("policies:")[1]
    scenario.write_text(f"{head}workload:\n  trace: requests.csv\n{tail}")
    message = _provoke(capsys, "simulate", "scenario.yaml")
    assert message.startswith("poise: scenario.yaml:7: workload.trace: requests.csv") or "workload.trace" in message
    for part in expected:
        assert part in message


def test_a_trace_too_short_for_the_demo(scenario: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n")
    assert "short.csv: 1 of its requests fit" in _provoke(capsys, "demo", "--trace", "short.csv", "--out", "d")


def test_a_missing_trace(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = _provoke(capsys, "simulate", "scenario.yaml", "--set", "workload={trace: no/such.csv}")
    assert "--set workload={trace: no/such.csv}: workload.trace: no/such.csv" in message


def test_a_broken_policy_module(scenario: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken_router_module.py").write_text("def route(:\n")
    message = _provoke(capsys, "simulate", "scenario.yaml", "--router", "broken_router_module:Mine")
    assert "policies.router: cannot import 'broken_router_module' (SyntaxError" in message


def test_several_mistakes_are_counted(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario.write_text(
        GOOD.replace("replicas: 2", "replicas: 0").replace("rate: 5", "rate: x").replace("seeds: 1", "a: 1")
    )
    message = _provoke(capsys, "simulate", "scenario.yaml")
    assert "scenario.yaml:5:" in message and message.endswith("(2 more after this one)\n")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["simulate", "scenario.yaml", "--set", "cluster.pools.0.replicas=-3"], "-3 must be at least 1"),
        (["simulate", "scenario.yaml", "--nothing"], "--nothing"),
        (["demo", "--trace", "absent.csv"], "absent.csv"),
    ],
)
def test_in_a_process_of_its_own(scenario: Path, tmp_path: Path, argv: list[str], expected: str) -> None:
    done = subprocess.run([sys.executable, "-m", "poise", *argv], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and expected in done.stderr
