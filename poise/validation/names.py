"""Metrics' names in words: short in tables and sentences, long in headings of the page."""

from __future__ import annotations

import re

NAMES = {
    "ttft": ("TTFT", "Time to first token"),
    "tpot": ("TPOT", "Time per output token"),
    "itl": ("ITL", "Time between tokens"),
    "e2e": ("end to end", "End-to-end time"),
    "e2e_latency": ("end to end latency", "End-to-end time"),
    "batch_latency": ("batch latency", "Time of a batch"),
    "latency": ("latency", "Time of a request"),
    "total_token_throughput": ("total token throughput", "All tokens per second"),
    "output_throughput": ("output throughput", "Output tokens per second"),
    "prefill_throughput": ("prefill throughput", "Prompt tokens per second"),
    "request_throughput": ("request throughput", "Requests per second"),
    "step_time": ("step time", "Time of a step"),
    "peak_memory": ("peak memory", "Peak memory"),
    "fits": ("fits", "Whether it fits"),
}
"""What is measured: its short and its long name."""

STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99", "per_gpu": "per GPU"}
"""How it is taken, as the long names have it."""

TRAINING = "training "
"""What metrics of training runs begin with."""

_PARTS = re.compile(rf"(.*?)(?:_({'|'.join(STATISTICS)}))?(?:_m?s)?")


def short_name(metric: str) -> str:
    """A metric's short name, as in `TTFT p99`; without its unit."""
    first, last = _parts(metric)
    name, _ = NAMES.get(first, (first.replace("_", " "), ""))
    return f"{name} {last.replace('_', ' ')}" if last else name


def long_name(metric: str) -> str:
    """A metric's long name, as in `Time to first token, p99`; without its unit."""
    first, last = _parts(metric.removeprefix(TRAINING))
    _, name = NAMES.get(first, ("", first.replace("_", " ").capitalize()))
    name = f"Training: {name.lower()}" if metric.startswith(TRAINING) else name
    return f"{name}, {STATISTICS[last]}" if last else name


def _parts(metric: str) -> tuple[str, str]:
    """What is measured, and how it is taken, empty where that is not stated."""
    found = _PARTS.fullmatch(metric)
    return (found[1], found[2] or "") if found else (metric, "")
