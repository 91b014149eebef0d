"""A workload in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload.table import Workload


def summary(workload: Workload, block_tokens: int = 16, warmup_s: float = 0.0) -> dict[str, Any]:
    """Return plain numbers that describe `workload`, ready for JSON.

    requests; independent (requests whose stamp is their own, not that of a predecessor); span_s (first to last
    stamp); rate (gaps per second of span, None without span) and cv (of the gaps) of the independent requests;
    prompt_tokens and output_tokens (mean, nearest-rank p50, p95, p99, max); sessions, lanes, concurrency, and
    reachable_hit_rate (of requests from `warmup_s` on) with its block_tokens, each only where the workload has it.
    """
    if workload.endless is not None:
        raise ScenarioError("the arrivals have no end, so there is nothing to sum up; give requests or duration_s")
    gaps = gaps_s(workload)
    span = float(gaps.sum())
    facts: dict[str, Any] = {
        "requests": len(workload),
        "independent": len(gaps) + 1,
        "span_s": span,
        "rate": workload.rate,
        "cv": float(gaps.std() / gaps.mean()) if span else None,
        "prompt_tokens": _lengths(workload.prompt),
        "output_tokens": _lengths(workload.output),
    }
    if workload.session is not None:
        facts["sessions"] = len(np.unique(workload.session[workload.session >= 0]))
    if workload.lanes is not None:
        facts["lanes"] = workload.lanes.count
    if workload.concurrency:
        facts["concurrency"] = workload.concurrency
    if workload.prefixes is not None:
        facts["reachable_hit_rate"] = workload.reachable_hit_rate(block_tokens, warmup_s)
        facts["block_tokens"] = block_tokens
    return facts


def gaps_s(workload: Workload) -> NDArray[np.float64]:
    """Return the seconds between the stamps of the independent requests."""
    own = workload.arrival
    if workload.after_offsets is not None:
        own = own[np.diff(workload.after_offsets) == 0]
    return np.diff(own) / SECOND


def _lengths(tokens: NDArray[np.int32]) -> dict[str, float]:
    ranks = np.percentile(tokens, [50, 95, 99], method="inverted_cdf")
    return {
        "mean": float(tokens.mean()),
        "p50": int(ranks[0]),
        "p95": int(ranks[1]),
        "p99": int(ranks[2]),
        "max": int(tokens.max()),
    }
