"""Recorded runs: statistics by hand, and one line for every broken file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from poise.core.errors import TraceError
from poise.scenario.engine_cost import cost_for
from poise.validation.batch import decode_s, prefill_s
from poise.validation.condition import read_condition
from poise.validation.replay import METRICS, SOURCE, replay
from tests.validation.made import row

META = {"model": "meta-llama/Llama-3.1-8B", "vllm_version": "0.19.0", "engine_kwargs": {"tensor_parallel_size": 1}}


def _run(folder: Path, requests: list[dict[str, Any]], meta: object = META, name: str = "h100__llama") -> Path:
    run = folder / name
    run.mkdir(parents=True)
    (run / "meta.json").write_text(json.dumps(meta))
    (run / "requests.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, requests)).encode()))
    return run


def _request(at: float, first: float = 0.5, last: float = 1.5, prompt: int = 512, output: int = 64) -> dict[str, Any]:
    return {
        "input_toks": prompt, "output_toks": output, "queued_ts": at, "first_token_ts": at + first,
        "last_token_ts": at + last,
    }  # fmt: skip


def test_requests_far_apart_take_their_own_time(tmp_path: Path) -> None:
    answers = {each.row.metric: each for each in replay(_run(tmp_path, [_request(0.0), _request(100.0)]))}
    assert set(answers) == set(METRICS)
    estimator = cost_for(read_condition(row()).condition.pools[0], "vLLM", "")
    assert answers["ttft_mean_ms"].row.value == pytest.approx(500)
    assert answers["tpot_p99_ms"].row.value == pytest.approx(1000 / 63)
    assert answers["ttft_mean_ms"].predicted == pytest.approx(prefill_s(estimator, 1, 512, 8192) * 1e3)
    assert answers["tpot_p50_ms"].predicted == pytest.approx(decode_s(estimator, 1, 512, 63) / 63 * 1e3, rel=1e-3)


def test_each_of_two_data_ranks_has_the_engine_s_limits(tmp_path: Path) -> None:
    meta = {**META, "engine_kwargs": {"data_parallel_size": 2, "max_num_seqs": 1}}
    answers = {each.row.metric: each for each in replay(_run(tmp_path, [_request(0.0), _request(0.0)], meta))}
    first, whole = (answers[f"{name}_p99_ms"].predicted for name in ("ttft", "e2e_latency"))
    assert first is not None and whole is not None
    assert first < whole / 4, "neither waits for the other's end"


def test_a_preempted_request_finds_the_blocks_that_it_left(tmp_path: Path) -> None:
    requests = [_request(0.0, prompt=160, output=200) for _ in range(8)]
    kept = {"num_gpu_blocks": 100, "enable_prefix_caching": True}
    found = []
    for name, cached in (("h100__with", True), ("h100__without", False)):
        meta = {**META, "kv_cache": {**kept, "enable_prefix_caching": cached}}
        answers = {each.row.metric: each for each in replay(_run(tmp_path, requests, meta, name))}
        found.append(answers["e2e_latency_mean_ms"].predicted)
    assert found[0] is not None and found[1] is not None
    assert found[0] < found[1]


def test_the_machine_s_own_word_for_the_device_counts_first(tmp_path: Path) -> None:
    meta = {**META, "hardware": {"device_name": "NVIDIA GeForce RTX 4090"}}
    assert {each.row.device for each in replay(_run(tmp_path, [_request(0.0)], meta))} == {"NVIDIA GeForce RTX 4090"}


def test_an_unknown_device_is_not_answered(tmp_path: Path) -> None:
    answers = replay(_run(tmp_path, [_request(0.0)], name="abacus__llama"))
    assert all(each.predicted is None and "abacus" in each.why for each in answers)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "no request"),
        ([{"input_toks": 3}], "line 1: output_toks"),
        ([{**_request(0.0), "queued_ts": "x"}], "queued_ts"),
    ],
)
def test_broken_requests_are_one_line(tmp_path: Path, requests: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        replay(_run(tmp_path, requests))
    assert "\n" not in str(caught.value)


def test_broken_files_are_one_line(tmp_path: Path) -> None:
    run = _run(tmp_path, [_request(0.0)])
    (run / "requests.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(TraceError, match=r"requests\.jsonl\.gz: the gzip stream is broken"):
        replay(run)
    (run / "meta.json").write_text("[]")
    with pytest.raises(TraceError, match=r"meta\.json: holds no JSON object"):
        replay(run)


def test_two_cards_reach_one_another_as_the_runs_machine_had_them(tmp_path: Path) -> None:
    """The recorded machines sent over PCIe through the host's memory, whatever the card can do elsewhere."""
    meta = {**META, "engine_kwargs": {"tensor_parallel_size": 2}}
    config = {"nodes": [{"instances": [{"hardware": "RTXPRO6000"}]}]}
    answers = {}
    for source in (SOURCE, "another"):
        run = _run(tmp_path / source, [_request(0.0)], meta, "rtxpro6000__llama")
        (run / "config.json").write_text(json.dumps(config))
        with patch("poise.validation.replay.SOURCE", source):
            answers[source] = next(each.predicted for each in replay(run) if each.row.metric == "tpot_p50_ms")
    assert (answers[SOURCE] or 0.0) > 1.05 * (answers["another"] or 1.0)
