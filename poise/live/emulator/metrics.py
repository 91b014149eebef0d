"""vLLM's metrics of an engine: its names, labels and buckets, filled from the replica's exact state.

Durations are those that clients see: picoseconds of the engine over its speed. As seen from vLLM 0.32, requests whose
client left are not counted in `request_success`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from poise.core.units import SECOND
from poise.live.emulator.drive import Driver
from poise.live.emulator.histogram import Histogram, header, labelled, lines
from poise.live.emulator.loras import Loras

FIRST: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
BETWEEN: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
WHOLE: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
"""Bounds, in seconds, of time to first token, time between tokens, and of whole phases (vLLM `v1/metrics`)."""

_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


def _one_two_five(most: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, … up to `most` (vLLM `build_1_2_5_buckets`)."""
    return [digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5) if digit * 10**power <= most]


class Metrics:
    """Counts of one engine.

    model: the name in labels.  speed: engine seconds per second of the clients.
    block, blocks: tokens of a KV block, and how many there are.  context: tokens of the longest request.
    caching: whether prefixes are kept.
    """

    def __init__(
        self,
        model: str,
        speed: float = 1.0,
        *,
        block: int = 16,
        blocks: int = 0,
        context: int = 1,
        caching: bool = True,
    ) -> None:
        self._labels = labelled({"engine": "0", "model_name": model})
        self._info = labelled(
            {
                "block_size": block,
                "enable_prefix_caching": caching,
                "engine": "0",
                "kv_cache_max_concurrency": round(blocks * block / context, 2),
                "kv_cache_size_tokens": blocks * block,
                "num_gpu_blocks": blocks,
            }
        )
        self._per_second = SECOND * speed
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.tokens = 0
        self.finished = dict.fromkeys(_REASONS, 0)
        self.first = Histogram(FIRST)
        self.between = Histogram(BETWEEN)
        self.whole = Histogram(WHOLE)
        self.queued = Histogram(WHOLE)
        self.prefill = Histogram(WHOLE)
        self.decode = Histogram(WHOLE)
        sizes = _one_two_five(context)
        self.prompts = Histogram(sizes)
        self.answers = Histogram(sizes)

    def step(self, gap: int, tokens: int) -> None:
        """A number of requests made a further token, `gap` picoseconds after the one before."""
        self.tokens += tokens
        self.between.observe(gap / self._per_second, tokens)

    def began(self, waited: int, took: int, prompt_tokens: int, cached: int) -> None:
        """A request made its first token: picoseconds in the queue, and from arrival."""
        self.tokens += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached
        self.first.observe(took / self._per_second)
        self.queued.observe(waited / self._per_second)
        self.prefill.observe((took - waited) / self._per_second)

    def ended(self, reason: str, took: int, decoding: int, prompt_tokens: int, made: int) -> None:
        """A request made its last token: picoseconds from arrival, and from its first token; its tokens."""
        self.finished[reason] += 1
        self.prompts.observe(prompt_tokens)
        self.answers.observe(made)
        self.whole.observe(took / self._per_second)
        self.decode.observe(decoding / self._per_second)

    def render(self, driver: Driver, loras: Loras) -> bytes:
        """The text of `/metrics`."""
        return lines((*self._parts(driver), *self._loras(driver, loras)))

    def _loras(self, driver: Driver, loras: Loras) -> Iterator[str]:
        """vLLM's line on adapters: as in 0.32 both labels name all adapters with a request, running or waiting.

        The value is the time of the line. vLLM keeps a line for each combination that ever was; here is the last.
        """
        slots = driver.replica.adapters
        if slots is None:
            return
        names = ",".join([loras.name(each) for each in (*slots.running, *slots.waiting())])
        labels: dict[str, object] = {"max_lora": driver.replica.engine.max_loras}
        labels |= {"running_lora_adapters": names, "waiting_lora_adapters": names}
        yield from header("vllm:lora_requests_info", "gauge", "Running stats on lora requests.")
        yield f"vllm:lora_requests_info{{{labelled(labels)}}} {time.time()}"

    def _parts(self, driver: Driver) -> Iterator[str]:
        replica, now = driver.replica, driver.now
        waiting = len(replica.waiting)
        used = 1 - replica.look("free_blocks", now) / replica.pool.total
        yield from self._gauge(
            "num_requests_running", "Number of requests in model execution batches.", replica.running
        )
        yield from self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", waiting)
        yield from self._reasons(waiting)
        yield from self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", used)
        yield from self._awake()
        yield from self._counts(driver)
        yield from self._success()
        for name, text, histogram in self._histograms():
            yield from header(f"vllm:{name}", "histogram", text)
            yield from histogram.samples(f"vllm:{name}", self._labels)
        yield from header("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        yield f"vllm:cache_config_info{{{self._info}}} 1.0"

    def _gauge(self, name: str, text: str, value: float) -> Iterator[str]:
        yield from header(f"vllm:{name}", "gauge", text)
        yield f"vllm:{name}{{{self._labels}}} {float(value)}"

    def _reasons(self, waiting: int) -> Iterator[str]:
        name = "vllm:num_requests_waiting_by_reason"
        yield from header(name, "gauge", "Number of requests waiting, by reason.")
        for reason, value in (("capacity", waiting), ("deferred", 0)):
            yield f'{name}{{{self._labels},reason="{reason}"}} {float(value)}'

    def _awake(self) -> Iterator[str]:
        name = "vllm:engine_sleep_state"
        yield from header(name, "gauge", "Engine sleep state; awake = 1 means engine is awake.")
        for state, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)):
            yield f'{name}{{{self._labels},sleep_state="{state}"}} {float(value)}'

    def _counts(self, driver: Driver) -> Iterator[str]:
        for name, text, value in (
            ("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", self.prompt_tokens),
            ("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", self.cached_tokens),
            (
                "num_preemptions",
                "Cumulative number of preemption from the engine.",
                driver.preemptions,
            ),
            ("external_prefix_cache_queries", "External prefix cache queries, in tokens.", 0),
            ("external_prefix_cache_hits", "External prefix cache hits, in tokens.", 0),
            ("prompt_tokens", "Number of prefill tokens processed.", self.prompt_tokens),
            ("prompt_tokens_cached", "Number of prompt tokens found in the cache.", self.cached_tokens),
            ("generation_tokens", "Number of generation tokens processed.", self.tokens),
        ):
            yield from header(f"vllm:{name}_total", "counter", text)
            yield f"vllm:{name}_total{{{self._labels}}} {float(value)}"

    def _success(self) -> Iterator[str]:
        name = "vllm:request_success_total"
        yield from header(name, "counter", "Count of successfully processed requests.")
        for reason, count in self.finished.items():
            yield f'{name}{{{self._labels},finished_reason="{reason}"}} {float(count)}'

    def _histograms(self) -> Iterator[tuple[str, str, Histogram]]:
        yield "time_to_first_token_seconds", "Histogram of time to first token in seconds.", self.first
        yield "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", self.between
        yield "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", self.whole
        yield "request_prompt_tokens", "Number of prefill tokens processed.", self.prompts
        yield "request_generation_tokens", "Number of generation tokens processed.", self.answers
        yield "request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", self.queued
        yield "request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", self.prefill
        yield "request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", self.decode
