"""Metrics pages of the three engine families in the words of the cluster view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.view import REPORTED
from poise.live.telemetry.metrics import COUNTERS, AdapterNames, Reading, read
from tests.live.requests.damage import DAMAGE, Damage, damaged

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1296.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 608.0
vllm:prefix_cache_hits_created{engine="0",model_name="tiny"} 1.7e+09
vllm:num_preemptions_total{engine="0",model_name="tiny"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1300.0
vllm:request_prompt_tokens_bucket{engine="0",le="1000.0",model_name="tiny"} 2.0
vllm:request_prompt_tokens_count{engine="0",model_name="tiny"} 2.0
vllm:request_prompt_tokens_sum{engine="0",model_name="tiny"} 1280.0
vllm:cache_config_info{block_size="32",engine="0",kv_cache_size_tokens="5120",num_gpu_blocks="160"} 1.0
"""

SGLANG = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="0",priority=""} 4
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="0",priority="10"} 4
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="1",priority=""} 4
sglang:num_running_reqs{dp_rank="1",model_name="m",tp_rank="0",priority=""} 1
sglang:num_queue_reqs{dp_rank="0",model_name="m",tp_rank="0"} 2
sglang:num_queue_reqs{dp_rank="1",model_name="m",tp_rank="0"} 0
sglang:max_total_num_tokens{dp_rank="0",model_name="m",tp_rank="0"} 1000
sglang:max_total_num_tokens{dp_rank="0",model_name="m",tp_rank="1"} 1000
sglang:max_total_num_tokens{dp_rank="1",model_name="m",tp_rank="0"} 1000
sglang:num_used_tokens{dp_rank="0",model_name="m",tp_rank="0"} 600
sglang:num_used_tokens{dp_rank="0",model_name="m",tp_rank="1"} 600
sglang:num_used_tokens{dp_rank="1",model_name="m",tp_rank="0"} 100
sglang:token_usage{dp_rank="0",model_name="m",tp_rank="0"} 0.6
sglang:prompt_tokens_total{model_name="m"} 500
sglang:cached_tokens_total{model_name="m",cache_source="device"} 100
sglang:cached_tokens_total{model_name="m",cache_source="host"} 50
sglang:num_requests_total{model_name="m",is_streaming="true"} 4
sglang:num_requests_total{model_name="m",is_streaming="false"} 1
"""

LLAMA = b"""llamacpp:prompt_tokens_total 512
llamacpp:requests_processing 3
llamacpp:requests_deferred 0
llamacpp:n_tokens_max 900
"""


def _reading(page: bytes) -> Reading:
    reading = read(page)
    assert isinstance(reading, Reading), reading
    assert set(reading.columns) <= {*REPORTED, "requests"}
    assert set(reading.counters) <= set(COUNTERS)
    return reading


def test_vllm() -> None:
    assert _reading(VLLM) == Reading(
        "vllm",
        {"waiting": 2, "running": 3, "requests": 5, "queued_tokens": 1280, "free_blocks": 120, "tokens": 2560},
        frozenset({"queued_tokens", "tokens"}),
        160,
        32,
        ("tiny",),
        {
            "prompt_tokens": 1300,
            "finished": 2,
            "finished_tokens": 1280,
            "prefix_queries": 1296,
            "prefix_hits": 608,
            "preemptions": 1,
        },
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 5'], AdapterNames(2, (), ())),
        (
            [
                'max_lora="2",running_lora_adapters="a,b,c",waiting_lora_adapters="a,b,c"} 9.5',
                'max_lora="2",running_lora_adapters="z",waiting_lora_adapters="z"} 9.25',
            ],
            AdapterNames(2, ("a", "b"), ("c",)),
        ),
        (['max_lora="4",running_lora_adapters="a",waiting_lora_adapters="b,a"} 1'], AdapterNames(4, ("a",), ("b",))),
        (['running_lora_adapters="a,,b"} 1'], AdapterNames(0, ("a", "b"), ())),
        (['max_lora="2",running_lora_adapters="a",waiting_lora_adapters=""} NaN'], None),
        ([], None),
    ],
)
def test_adapters_of_vllm_are_those_of_the_newest_line(lines: list[str], expected: AdapterNames | None) -> None:
    page = VLLM + "".join(f"vllm:lora_requests_info{{{line}\n" for line in lines).encode()
    assert _reading(page).adapters == expected


def test_data_parallel_ranks_of_vllm_are_one_engine() -> None:
    second = VLLM.replace(b'engine="0"', b'engine="1"').replace(b"0.25", b"0.75")
    reading = _reading(VLLM + second)
    assert reading.columns == {
        "waiting": 4, "running": 6, "requests": 10, "queued_tokens": 2560, "free_blocks": 160, "tokens": 7680,
    }  # fmt: skip
    assert (reading.total_blocks, reading.models) == (320, ("tiny",))


def test_older_names_of_vllm() -> None:
    page = (
        b'vllm:num_requests_running{model_name="m"} 1\nvllm:num_requests_waiting{model_name="m"} 0\n'
        b'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\nvllm:gpu_prefix_cache_queries_total 10\n'
        b'vllm:gpu_prefix_cache_hits_total 4\nvllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1\n'
    )
    reading = _reading(page)
    assert reading.columns["free_blocks"] == 50 and reading.columns["tokens"] == 800
    assert reading.counters == {"prefix_queries": 10, "prefix_hits": 4}


def test_sglang_counts_ranks_and_priorities_once() -> None:
    reading = _reading(SGLANG)
    assert reading.columns == {
        "waiting": 2, "running": 5, "requests": 7, "queued_tokens": 200, "free_blocks": 1300, "tokens": 900,
    }  # fmt: skip
    assert (reading.total_blocks, reading.block_tokens, reading.models) == (2000, 1, ("m",))
    assert reading.counters["prefix_hits"] / reading.counters["prefix_queries"] == 0.3


def test_llama_cpp_says_little_and_nothing_is_made_up() -> None:
    reading = _reading(LLAMA)
    assert reading.columns == {"waiting": 0, "running": 3, "requests": 3, "queued_tokens": 0}
    assert reading.total_blocks == 0 and reading.profile == "llama.cpp"


def test_llama_cpp_counts_cached_tokens_apart() -> None:
    assert _reading(LLAMA).counters == {"prompt_tokens": 512}, "an old version, which says nothing of its cache"
    new = _reading(LLAMA + b"llamacpp:prompt_tokens_cached_total 256\n")
    assert new.counters == {"prompt_tokens": 768, "prefix_queries": 768, "prefix_hits": 256}


def test_waiting_without_a_mean_prompt_is_no_number_of_tokens() -> None:
    assert "queued_tokens" not in _reading(LLAMA.replace(b"deferred 0", b"deferred 4")).columns


def test_numbers_that_are_none_are_missing() -> None:
    reading = _reading(VLLM.replace(b"0.25", b"NaN").replace(b'"tiny"} 2.0', b'"tiny"} +Inf'))
    assert reading.columns == {"running": 3}
    nothing = read(VLLM.replace(b" 3.0", b" NaN").replace(b'"tiny"} 2.0', b'"tiny"} NaN'))
    assert nothing == "the page of vllm says neither how many requests run nor how many wait"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"", "no metric of vLLM, SGLang or llama.cpp on the page"),
        (b"<html>not found</html>", "no metric of vLLM, SGLang or llama.cpp on the page"),
        (b"vllm:num_requests_running oops\n", "this line makes no sense: num_requests_running oops"),
        (b"vllm:num_requests_running{\xff} 1\n", "this line makes no sense: num_requests_running{\ufffd} 1"),
    ],
)
def test_pages_that_say_nothing_say_why(page: bytes, expected: str) -> None:
    assert read(page) == expected


@given(st.sampled_from([VLLM, SGLANG, LLAMA]), DAMAGE)
def test_a_damaged_page_is_read_or_says_why_not(page: bytes, damage: Damage) -> None:
    """And no column or counter is below 0."""
    broken = damaged(page, damage)
    if not isinstance(read(broken), str):
        reading = _reading(broken)
        assert all(value >= 0 for value in (*reading.columns.values(), *reading.counters.values()))
        assert reading.total_blocks >= 0 and reading.block_tokens >= 0
