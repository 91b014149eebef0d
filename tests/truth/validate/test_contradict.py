"""Latencies that their own parts contradict."""

from __future__ import annotations

import pytest

from poise.truth.validate.contradict import FAR, contradicted
from poise.truth.validate.row import Row
from tests.truth.validate.made import row


def _measured(latency: float, load: str = "static batch 4") -> list[Row]:
    values = {"ttft_ms": 100.0, "tpot_ms": 10.0, "batch_latency_ms": latency}
    return [row(metric=metric, value=value, load=load, output=101.0) for metric, value in values.items()]


@pytest.mark.parametrize(
    ("latency", "marks"), [(1100.0, "AAA"), (1100 * FAR * 1.01, "AAC"), (1100 / FAR / 1.01, "AAC")]
)
def test_a_latency_far_from_its_parts_is_marked(latency: float, marks: str) -> None:
    assert "".join(each.quality for each in contradicted(_measured(latency))) == marks


def test_loads_that_do_not_run_in_step_prove_nothing() -> None:
    assert {each.quality for each in contradicted(_measured(10.0, "concurrency=4"))} == {"A"}


def test_parts_of_another_measurement_prove_nothing() -> None:
    ttft, tpot, latency = _measured(10.0)
    other = [row(metric=each.metric, value=each.value, output=99.0) for each in (ttft, tpot)]
    assert contradicted([*other, latency])[-1].quality == "A"
