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
    told = made.summary()
    assert (told["requests"], told["independent"], told["span_s"]) == (4, 4, 8.0)
    assert told["rate"] == pytest.approx(3 / 8)
    assert told["cv"] == pytest.approx(np.std([1, 3, 4]) / np.mean([1, 3, 4]))
    assert told["prompt_tokens"] == {"mean": 25.0, "p50": 20, "p95": 40, "p99": 40, "max": 40}
    assert told["output_tokens"] == {"mean": 2.0, "p50": 1, "p95": 5, "p99": 5, "max": 5}
    assert "reachable_hit_rate" not in told and "sessions" not in told


def test_a_batch_has_no_rate() -> None:
    told = closed(3, 10).summary()
    assert told["rate"] is None and told["cv"] is None and told["concurrency"] == 3


def test_later_turns_do_not_count_as_arrivals() -> None:
    starts = poisson(2.0, requests=50)
    told = sessions(starts, turns=3).summary(32)
    assert (told["requests"], told["independent"], told["sessions"]) == (150, 50, 50)
    assert told["rate"] == starts.summary()["rate"]
    assert told["block_tokens"] == 32 and 0 < told["reachable_hit_rate"] < 1
    assert json.loads(json.dumps(told)) == told
