"""The summary against numbers worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from poise.core.units import SECOND
from poise.workload import Workload, closed, poisson, sessions


def test_by_hand() -> None:
    made = Workload(
        arrival=np.array([1, 2, 5, 9], dtype=np.int64) * SECOND,
        prompt=np.array([40, 10, 30, 20], dtype=np.int32),
        output=np.array([1, 1, 1, 5], dtype=np.int32),
    )
    summary = made.summary()
    assert (summary["requests"], summary["independent"], summary["span_s"]) == (4, 4, 8.0)
    assert summary["rate"] == pytest.approx(3 / 8)
    assert summary["cv"] == pytest.approx(np.std([1, 3, 4]) / np.mean([1, 3, 4]))
    assert summary["prompt_tokens"] == {"mean": 25.0, "p50": 20, "p95": 40, "p99": 40, "max": 40}
    assert summary["output_tokens"] == {"mean": 2.0, "p50": 1, "p95": 5, "p99": 5, "max": 5}
    assert "reachable_hit_rate" not in summary and "sessions" not in summary


def test_a_batch_has_no_rate() -> None:
    summary = closed(3, 10).summary()
    assert summary["rate"] is None and summary["cv"] is None and summary["concurrency"] == 3


def test_later_turns_do_not_count_as_arrivals() -> None:
    starts = poisson(2.0, requests=50)
    summary = sessions(starts, turns=3).summary(32)
    assert (summary["requests"], summary["independent"], summary["sessions"]) == (150, 50, 50)
    assert summary["rate"] == starts.summary()["rate"]
    assert summary["block_tokens"] == 32 and 0 < summary["reachable_hit_rate"] < 1
    assert json.loads(json.dumps(summary)) == summary
