"""Latencies that their own parts contradict."""

from __future__ import annotations

import pytest

from poise.validation.contradict import FAR, contradicted
from poise.validation.row import Row
from tests.validation.made import row


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


@pytest.mark.parametrize(("times", "marks"), [(FAR * 0.99, "AAA"), (FAR * 1.01, "CCA")])
def test_runs_of_one_condition_repeat_one_another(times: float, marks: str) -> None:
    one, other = row(value=10.0, ref="#1"), row(value=10.0 * times, ref="#2")
    another = row(value=100.0, load="concurrency=7")
    assert "".join(each.quality for each in contradicted([one, other, another])) == marks


def test_a_run_is_the_same_whenever_its_result_was_taken_over() -> None:
    notes = ("dump 2026-04-27; measured 2026-03-23", "dump 2026-06-01; measured 2026-03-23", "measured 2026-03-24")
    one, other, later = (row(notes=note, value=value) for note, value in zip(notes, (1.0, 2.0, 4.0), strict=True))
    assert [each.quality for each in contradicted([one, other, later])] == ["C", "C", "A"]
