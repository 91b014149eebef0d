"""vLLM's names, filled with what really happened."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from poise.core.request import Sequence
from poise.core.units import NEVER, ps
from poise.live.emulator.drive import Driver
from poise.live.emulator.histogram import Histogram, labelled
from poise.live.emulator.loras import Loras
from poise.live.emulator.metrics import Metrics
from poise.live.emulator.options import Options, plan
from poise.policies import Policies
from poise.testing import a_request
from tests.live.emulator.hand import Kept


def read(body: bytes) -> dict[tuple[str, str], float]:
    """Samples by name and the one label that tells them apart."""
    found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            label = sample.labels.get("le") or sample.labels.get("finished_reason") or sample.labels.get("reason") or ""
            found[sample.name, label] = sample.value
            assert sample.labels["engine"] == "0"
    return found


def test_names_and_values() -> None:
    made = plan(Options(num_gpu_blocks_override=100, max_model_len=1000, max_num_seqs=1))
    replica, _ = made.replica(Policies())
    metrics = Metrics("tiny", block=16, blocks=100)
    driver = Driver(replica, watch=metrics.step)
    driver.add(Sequence(a_request(id=0, prompt_tokens=160), 100), Kept(), 0)
    driver.add(Sequence(a_request(id=1, prompt_tokens=100), 10), Kept(), 0)
    driver.advance(0)
    driver.advance(ps(0.2))
    metrics.began(ps(0.5), ps(1.5), 160, 64)
    metrics.ended("stop", ps(3.0), ps(1.5), 160, 30)
    reading = read(metrics.render(driver, Loras((), 16)))
    assert reading["vllm:num_requests_running", ""] == 1
    assert reading["vllm:num_requests_waiting", ""] == reading["vllm:num_requests_waiting_by_reason", "capacity"] == 1
    tokens = 160 + replica.progress(0, driver.now, True)
    assert reading["vllm:kv_cache_usage_perc", ""] == -(-tokens // 16) / 100
    assert reading["vllm:prefix_cache_queries_total", ""] == reading["vllm:prompt_tokens_total", ""] == 160
    assert reading["vllm:prefix_cache_hits_total", ""] == 64
    assert reading["vllm:num_preemptions_total", ""] == 0
    assert reading["vllm:generation_tokens_total", ""] == replica.progress(0, driver.now, True)
    assert (
        reading["vllm:request_prompt_tokens_sum", ""] == 160 and reading["vllm:request_generation_tokens_sum", ""] == 30
    )
    assert reading["vllm:request_success_total", "stop"] == 1 and reading["vllm:request_success_total", "abort"] == 0
    assert reading["vllm:time_to_first_token_seconds_sum", ""] == 1.5
    assert reading["vllm:time_to_first_token_seconds_bucket", "1.0"] == 0
    assert reading["vllm:time_to_first_token_seconds_bucket", "2.5"] == 1
    assert reading["vllm:request_queue_time_seconds_bucket", "0.5"] == 1
    assert reading["vllm:e2e_request_latency_seconds_sum", ""] == 3.0
    assert reading["vllm:inter_token_latency_seconds_count", ""] == replica.progress(0, driver.now, True) - 1
    assert ("vllm:cache_config_info", "") in reading
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
    assert read(metrics.render(driver, Loras((), 16)))["vllm:kv_cache_usage_perc", ""] == 0


def test_durations_are_those_of_clients() -> None:
    metrics = Metrics("tiny", speed=10.0)
    metrics.began(ps(5.0), ps(10.0), 1, 0)
    metrics.step(ps(2.0), 3)
    assert (metrics.first.total, metrics.queued.total, metrics.tokens) == (1.0, 0.5, 4)
    assert (metrics.between.count, round(metrics.between.total, 9)) == (3, 0.6)


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 2, 9):
        histogram.observe(value)
    assert list(histogram.samples("h", 'a="b"')) == [
        'h_bucket{a="b",le="1.0"} 2.0',
        'h_bucket{a="b",le="2.0"} 4.0',
        'h_bucket{a="b",le="+Inf"} 5.0',
        'h_count{a="b"} 5.0',
        'h_sum{a="b"} 14.0',
    ]
    assert labelled({"model": 'a"b\\\n'}) == r'model="a\"b\\\n"'
