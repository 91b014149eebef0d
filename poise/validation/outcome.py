"""The outcome of a prediction, and the figure of it that a metric's name selects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import FINISHED, Run
from poise.core.units import SECOND

Floats = NDArray[np.float64]

STATISTICS = {"mean": None, "median": 50.0, "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
"""Names of statistics and the percentiles behind them."""

_LATENCY = re.compile(
    r"(ttft|tpot|itl|e2e|e2e_latency|latency|batch_latency)(?:_(mean|median|p50|p90|p95|p99))?(?:_(ms|s|us))?"
)
_THROUGHPUT = re.compile(r"(output|request|total_token|total|input|prefill|prompt)_throughput(_per_gpu)?")
_PART = {"e2e_latency": "e2e", "latency": "e2e", "batch_latency": "e2e"}
_PER_S = {"ms": 1e3, "s": 1.0, "us": 1e6}
_UNITS = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "µs": "us",
}
_WORDS = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "e2el": "e2e",
    "tput": "throughput",
    "output_token_throughput": "output_throughput",
    "average": "mean",
    "avg": "mean",
}
"""Words of benchmarks' own metrics (vLLM, SGLang, GenAI-Perf) and ours."""
_FLOWS = {"total_token": "total", "input": "prompt", "prefill": "prompt"}
_STATISTIC_FIRST = re.compile(r"(mean|median|p50|p90|p95|p99)_([a-z0-9_]+?)(_(?:ms|s|us))?")


def plain_metric(name: str) -> str:
    """A metric's name as in `ttft_p99_ms`, whatever its case and words and wherever its statistic (`p99_ttft_ms`)."""
    plain = re.sub(r"[ -]+", "_", name.strip().lower())
    for word, meant in _WORDS.items():
        plain = re.sub(rf"(?<![a-z0-9]){word}(?![a-z0-9])", meant, plain)
    found = _STATISTIC_FIRST.fullmatch(plain)
    return f"{found[2]}_{found[1]}{found[3] or ''}" if found else plain


@dataclass(frozen=True, slots=True)
class Outcome:
    """Latencies in seconds by part and statistic, flows per second by kind, over all devices.

    latency: part (ttft, tpot, itl, e2e) → statistic → seconds.  flow: output, prompt, total (tokens) and request.
    notes: the approximations made.
    """

    latency: Mapping[str, Mapping[str, float]]
    flow: Mapping[str, float]
    devices: int
    notes: tuple[str, ...] = field(default=())

    def later(self, seconds: float) -> Outcome:
        """The same with every first token, and every end, later by this."""
        moved = {
            part: {name: value + seconds for name, value in each.items()} if part in ("ttft", "e2e") else each
            for part, each in self.latency.items()
        }
        return replace(self, latency=moved)

    def figure(self, metric: str, unit: str) -> float | None:
        """The value of `metric` in `unit`; None where the outcome does not have it."""
        metric = plain_metric(metric)
        if found := _LATENCY.fullmatch(metric):
            part, statistic, scale = found.groups()
            seconds = self.latency.get(_PART.get(part, part), {}).get(statistic or "mean")
            return None if seconds is None else seconds * _PER_S[scale or _latency_unit(unit)]
        if found := _THROUGHPUT.fullmatch(metric):
            flow = self.flow.get(_FLOWS.get(found[1], found[1]))
            return None if flow is None else flow * _share(found[2] or "", unit, self.devices)
        return None


def _latency_unit(unit: str) -> str:
    plain = unit.strip().lower()
    plain = _UNITS.get(plain, plain)
    return plain if plain in _PER_S else "ms"


def _share(per: str, unit: str, devices: int) -> float:
    """The part of all devices' flow that is meant: all of it, one device's or that of a node of several."""
    node = re.search(r"per (\d+)-GPU node", unit)
    if node:
        return int(node[1]) / devices
    return 1 / devices if per or unit.endswith(("/GPU", "/gpu")) else 1.0


def statistics(values: Floats, weights: Floats | None = None) -> dict[str, float]:
    """Mean and percentiles of `values`, which count with `weights`."""
    if len(values) == 0:
        return {}
    found = {"mean": float(np.average(values, weights=weights))}
    for name, percentile in STATISTICS.items():
        if percentile is not None:
            found[name] = _percentile(values, weights, percentile)
    return found


def _percentile(values: Floats, weights: Floats | None, percentile: float) -> float:
    if weights is None:
        return float(np.percentile(values, percentile))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, percentile / 100 * reached[-1])])


def outcome_of(run: Run, devices: int, weights: Floats | None, clients: int) -> Outcome:
    """The figures of a run; `weights` count the requests in their order.

    Of a closed load by `clients` only, flows are those between the ends of the first and of the last but one wave.
    """
    records = run.records
    done = np.array(records.status) == FINISHED
    arrived, first, ended = (
        np.array(column, dtype=np.float64)[done] / SECOND
        for column in (records.arrived_at, records.first_token_at, records.ended_at)
    )
    prompt, output = np.array(records.prompt_tokens)[done], np.array(records.output_tokens)[done]
    weights = None if weights is None else weights[done]
    many = output > 1
    gaps = (ended - first)[many] / (output[many] - 1)
    shared = None if weights is None else weights[many]
    between = (output[many] - 1) * (1.0 if shared is None else shared)
    latency = {
        "ttft": statistics(first - arrived, weights),
        "tpot": statistics(gaps, shared),
        "itl": statistics(gaps, between),
        "e2e": statistics(ended - arrived, weights),
    }
    span = float(ended.max() - arrived.min())
    if weights is not None:  # the middle stands for what was left out
        span += float((weights - 1).sum()) / _pace(ended, clients)
    counted = np.ones(len(output)) if weights is None else weights
    prompts, outputs = float((counted * prompt).sum()) / span, float((counted * output).sum()) / span
    flow = {"output": outputs, "prompt": prompts, "total": outputs + prompts, "request": float(counted.sum()) / span}
    return Outcome(latency, flow, devices)


def _pace(ended: Floats, clients: int) -> float:
    """Requests per second between the ends of the first wave and of the last but one."""
    ends = np.sort(ended)
    last = len(ends) - 1 - clients
    return float((last - clients + 1) / (ends[last] - ends[clients - 1]))
