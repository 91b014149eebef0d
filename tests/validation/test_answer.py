"""Answers to rows: shared work, reasons, and the naive prediction beside them."""

from __future__ import annotations

import pytest

from poise.scenario.engine_cost import cost_for
from poise.validation import answer
from poise.validation.answer import answer_rows
from poise.validation.batch import decode_s, prefill_s, static_outcome
from poise.validation.condition import Condition, read_condition
from poise.validation.naive import naive_cost
from tests.validation.made import row


def test_rows_of_equal_conditions_share_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Condition] = []
    real = answer.outcome
    monkeypatch.setattr(answer, "outcome", lambda condition: seen.append(condition) or real(condition))
    rows = [row(metric=metric, value=value) for metric in ("ttft_ms", "tpot_ms") for value in (1.0, 2.0)]
    answers = answer_rows(rows)
    assert len(seen) == 1
    assert answers[0].predicted == answers[1].predicted != answers[2].predicted


def test_every_row_has_an_answer_or_a_reason() -> None:
    rows = [row(), row(device="Abacus"), row(metric="happiness"), row(tensor=4, devices=4, device="Jetson-AGX-Orin")]
    answers = answer_rows(rows)
    assert [each.row for each in answers] == rows
    assert (
        [each.predicted is None for each in answers]
        == [bool(each.why) for each in answers]
        == [False, True, True, True]
    )


def test_a_failure_of_ours_costs_one_row_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    real = answer.outcome
    monkeypatch.setattr(answer, "outcome", lambda condition: 1 // 0 if condition.load.clients == 3 else real(condition))
    failed, fine = answer_rows([row(load="static batch 3"), row()])
    assert failed.why.startswith("our failure: ZeroDivisionError")
    assert fine.predicted is not None


def test_the_naive_prediction_is_the_bare_roofline_and_never_slower() -> None:
    (found,) = answer_rows([row(load="concurrency=8", notes="vendor sweep")])
    (pool,) = read_condition(row()).condition.pools
    assert found.naive == pytest.approx(decode_s(naive_cost(pool), 8, 512, 63) / 63 * 1e3)
    assert found.predicted is not None
    assert found.naive < found.predicted


@pytest.mark.parametrize(("blocks", "fits"), [(2000, True), (72, False)])
def test_a_static_batch_that_memory_cannot_hold_takes_turns(blocks: int, fits: bool) -> None:
    condition = read_condition(row(load="static batch 16", notes=f"KV blocks={blocks}")).condition
    (pool,) = condition.pools
    together = static_outcome(cost_for(pool, "vLLM", "0.15.1"), pool, 16, 512, 64, 1)
    found = answer.outcome(condition)
    if fits:
        assert found == together
    else:  # two at a time: eight turns, each of two prefills and 63 steps of two
        estimator = cost_for(pool, "vLLM", "0.15.1")
        turns = 8 * (2 * prefill_s(estimator, 1, 512, 8192) + decode_s(estimator, 2, 512, 63))
        assert 16 / found.flow["request"] == pytest.approx(turns, rel=0.1)
        assert found.flow["request"] < together.flow["request"]


def test_stages_of_a_static_batch_take_turns() -> None:
    one, staged = (
        answer.outcome(read_condition(row(engine="TensorRT-LLM", load="static batch 16", **layout)).condition)
        for layout in ({}, {"pipeline": 4, "devices": 4})
    )
    assert staged.flow["output"] == pytest.approx(one.flow["output"], rel=0.02)
