"""The resolved scenario means the same as the one it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.catalogue import models
from poise.scenario.build import Problem, build
from poise.scenario.load import load
from poise.scenario.resolve import provenance, resolved, write_yaml
from tests.scenario.test_traffic import FILES

CASES = [
    "workload: {poisson: {rate: 5, requests: 9}}",
    "workload: {trace: t.csv, limit: 5, scale: 2, skip_bad: true}\nrun: {seeds: [3, 5], warmup_s: 1}",
    "workload: {gamma: {rate: 5, cv: 2, duration_s: 3, lengths: t.csv}, timeout_s: 5, retry: 1, priority: -2}",
    "workload: {closed: {concurrency: 4, requests: 9, prompt_tokens: {zipf: {exponent: 1, max: 50}}}}",
    "workload: {all_at_once: {requests: 9}, sessions: {turns: 3}, shared_prefixes: {groups: 2, prefix_tokens: 30}}",
    "workload: {trace: t.csv, scale: {rate: 4}}\nrun: {seeds: 2}",
    "workload: {diurnal: {points: [[0, 1], [60, 5]], spikes: [{at_s: 5, lasting_s: 5, factor: 4}]}}",
    "workload: {diurnal: {counts: c.csv, begin_s: 60, rate: 2, lengths: t.csv}, skip_bad: true}",
    "workload: {on_off: {rate_on: 9, on_s: 2, off_s: {exponential: 3}, requests: 9, prompt_tokens: {llumnix: M}}}",
    "workload: {phases: [{rate: 9, duration_s: 3}, {rate: 4, duration_s: 2, cv: 2, prompt_tokens: 9}]}",
    "workload: {servegen: {arrivals: x_arrivals.csv, duration_s: 60, rate: 1}, deadline_s: 3}",
    "workload: {poisson: {rate: 5, requests: 9}, recorded_sessions: {trace: s.csv}, ignore_model: true}",
    "workload: {poisson: {rate: 5, requests: 9}, workflows: {w: {texts: {s: {tokens: 20}}, tasks: {a: {begins_with: s, "
    "prompt_tokens: 9, output_tokens: 2}, t: {after: a, seconds: {exponential: 2}, count: 2}, "
    "b: {each: t, prompt_tokens: 5, output_tokens: 1}}}}}\nslo: {program_s: 9}",
    "workload: {constant: {gap_s: 1, requests: 9}}\nengine: {preemption: swap, host_kv_gb: 2}\nslo: {e2e_s: 4}",
    "workload: {constant: {gap_s: 1, requests: 9}}\npolicies: {router: [round_robin, {prefix_cache: {imbalance: 2}}]}",
    "workload: {constant: {gap_s: 1, requests: 9}}\npolicies: {queue: priority, preempt: last_admitted}",
    "workload: {constant: {gap_s: 1, requests: 9}}\nbelief: {period_s: 0, prefix: oracle}\ncost: {gemm_bf16: 0.5}",
]


def _problem(
    tmp_path: Path, text: str, pools: str = "[{device: H100, replicas: 2}]", model: str = "poise/tiny"
) -> Problem:
    (tmp_path / "t.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{at},{at + 5},{at + 1}\n" for at in range(8))
    )
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    file = tmp_path / "s.yaml"
    file.write_text(f"model: {model}\ncluster: {{pools: {pools}}}\n{text}\n")
    return build(load(file))


def _again(problem: Problem, folder: Path) -> Problem:
    """The problem of the resolved scenario, written to another folder and read from there."""
    file = folder / "elsewhere" / "resolved.yaml"
    workload = problem.traffic.make(problem.seeds[0])
    rest = {name: value for name, value in provenance(problem, workload).items() if name != "scenario"}
    write_yaml({**resolved(problem), "provenance": rest}, file)
    return build(load(file))


def _same(one: Problem, other: Problem) -> None:
    assert resolved(one) == resolved(other)
    assert one.cluster == other.cluster
    for name in ("slo", "belief", "cost", "seeds", "warmup_s", "until_s", "drain"):
        assert getattr(one, name) == getattr(other, name)
    assert [label for label, _ in one.bundles] == [label for label, _ in other.bundles]
    for seed in one.seeds:
        first, second = one.traffic.make(seed), other.traffic.make(seed)
        for name in ("arrival", "prompt", "output", "timeout", "priority", "delay"):
            left, right = getattr(first, name), getattr(second, name)
            assert (left is None and right is None) or left.tolist() == right.tolist()
        assert (first.retry, first.concurrency) == (second.retry, second.concurrency)


@pytest.mark.parametrize("text", CASES)
def test_workloads_and_settings_come_back(tmp_path: Path, text: str) -> None:
    problem = _problem(tmp_path, text)
    _same(problem, _again(problem, tmp_path))


@pytest.mark.parametrize(
    "pools",
    [
        "[{device: h100-sxm, replicas: 2, role: prefill}, {device: A100, role: decode, kv: fp8, price: 1.5}]",
        "[{device: {name: mine, like: H200, memory_gb: 96}, engine: {token_budget: 512, kv_blocks: 900}}]",
        "[{device: {name: mine, bf16_tflops: 100, memory_gb: 20, memory_gb_s: 800}, start_s: 3, name: small}]",
        "[{device: H100, price_basis: 'on-demand, 2024', tensor: 2}]",
        "[{device: H100, engine: {lanes: [{decode: false, share: 0.5}, {name: d, prefill: false, share: 0.5}]}}]",
    ],
)
def test_pools_come_back(tmp_path: Path, pools: str) -> None:
    problem = _problem(tmp_path, CASES[0], pools)
    _same(problem, _again(problem, tmp_path))


def test_a_models_own_config_comes_back(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    config = {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 2048,
    }  # fmt: skip
    (tmp_path / "my-model" / "config.json").write_text(json.dumps(config))
    for text in ("my-model", "./my-model", "my-model/config.json"):
        problem = _problem(tmp_path, CASES[0], model=text)
        assert problem.cluster.pools[0].model.name == "my-model"
        _same(problem, _again(problem, tmp_path))


def test_nothing_is_left_to_defaults(tmp_path: Path) -> None:
    settings = resolved(_problem(tmp_path, CASES[0]))
    assert settings["workload"] == {"poisson": {"prompt_tokens": 512, "output_tokens": 128, "rate": 5.0, "requests": 9}}
    assert settings["cluster"]["pools"][0]["device"] == "H100-SXM-80GB"
    assert settings["policies"]["batcher"] == {"chunked": {"tokens": 0, "long_prefill": 0}}
    assert 0 < settings["cost"]["gemm_bf16"] <= 1
    assert settings["model"] in {model.name for model in models()}


def test_provenance_says_what_the_figures_rest_on(tmp_path: Path) -> None:
    problem = _problem(tmp_path, CASES[1])
    found = provenance(problem, problem.traffic.make(3))
    assert found["seeds"] == [3, 5]
    assert found["workload"]["path"].endswith("t.csv") and len(found["workload"]["sha256"]) == 64
    assert found["cost"][0]["kv_blocks"] > 0 and found["cost"][0]["estimator"]
    assert json.loads(json.dumps(found, allow_nan=False))["seeds"] == found["seeds"]
