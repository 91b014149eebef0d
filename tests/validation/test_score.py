"""Scores against hand values, the JSON's shape and the comparison with an earlier run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.validation.against import read_scores, worse
from poise.validation.answer import Answer
from poise.validation.evidence import conditions_of, evidence, stated
from poise.validation.score import ALL, by_device, by_source, scores, totals
from tests.validation.made import row


def _answer(predicted: float | None, naive: float | None = None, **changes: object) -> Answer:
    return Answer(row(value=10.0, **changes), predicted, naive, why="" if predicted else "not covered")


ANSWERS = [
    _answer(11.0, 5.0),
    _answer(9.5, 5.0),
    _answer(15.0, 4.0),
    _answer(None),
    _answer(20.0, source="other", device="L4"),
    _answer(100.0, quality="C"),
]


def test_scores_by_hand() -> None:
    first = next(score for score in scores(ANSWERS) if score.source == "made up" and score.quality == "AB")
    assert (first.n, first.answered) == (4, 3)
    assert first.bias == pytest.approx(0.1)  # of +10 %, −5 % and +50 %
    assert first.median_ape == pytest.approx(0.1)
    assert first.p90_ape == pytest.approx(0.1 + 0.8 * 0.4)
    assert (first.naive_bias, first.naive_median_ape) == pytest.approx((-0.5, 0.5))


def test_what_contradicts_itself_is_apart_and_in_no_total() -> None:
    (total,) = totals(ANSWERS)
    assert (total.n, total.answered, total.median_ape) == (5, 4, pytest.approx(0.3))
    assert [score.quality for score in by_source(ANSWERS)] == ["AB", "AB", "C"]
    assert {score.device for score in by_device(ANSWERS)} == {"H100-SXM-80GB", "L4"}


def test_every_score_is_a_row_of_plain_data() -> None:
    rows = [score.as_dict() for score in scores(ANSWERS)]
    needed = {"source", "device", "model", "engine", "metric", "n", "answered", "bias", "median_ape", "p90_ape"}
    assert all(needed <= set(each) for each in rows)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert [each["metric"] for each in rows if each["source"] == ALL] == ["tpot_ms"]


def test_a_group_without_an_answer_has_no_errors() -> None:
    (only,) = totals([_answer(None)])
    assert (only.n, only.answered, only.bias, only.median_ape, only.p90_ape) == (1, 0, None, None, None)


def _saved(tmp_path: Path, answers: list[Answer]) -> Path:
    path = tmp_path / "before.json"
    path.write_text(json.dumps([score.as_dict() for score in scores(answers)]))
    return path


def test_what_got_worse_is_named(tmp_path: Path) -> None:
    before = read_scores(_saved(tmp_path, ANSWERS))
    assert worse(scores(ANSWERS), before) == []
    slightly = [_answer(11.1, 5.0), *ANSWERS[1:]]
    assert worse(scores(slightly), before) == []
    fallen = [_answer(13.0), _answer(14.0), *ANSWERS[2:]]
    assert any("made up H100-SXM-80GB" in line and "10.0%" in line for line in worse(scores(fallen), before))
    fewer = [*ANSWERS[:2], _answer(None), *ANSWERS[3:]]
    assert any("3 answered, now 2 of 4" in line for line in worse(scores(fewer), before))


def test_doubtful_rows_are_not_compared(tmp_path: Path) -> None:
    before = read_scores(_saved(tmp_path, ANSWERS))
    assert worse(scores([*ANSWERS[:-1], _answer(900.0, quality="C")]), before) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"source": "x"}]'])
def test_a_file_that_holds_no_scores_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"--against .*bad\.json") as caught:
        read_scores(path)
    assert "\n" not in str(caught.value)


def test_every_answer_has_an_interval() -> None:
    narrow, wide = stated(_answer(11.0)).bounds(11.0, 0.5), stated(_answer(11.0)).bounds(11.0, 0.9)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_conditions_of_an_answer() -> None:
    itl = conditions_of(_answer(1.0, metric="itl_mean_ms", load="qps=4"))
    assert (itl.figure, itl.load, itl.tail, itl.slower) == ("tpot", "rate", False, 1)
    flow = conditions_of(_answer(1.0, metric="output_throughput_per_gpu", load="inf"))
    assert (flow.figure, flow.load, flow.slower) == ("throughput", "queued", -1)
    assert conditions_of(_answer(1.0, metric="ttft_p99_ms", load="qps=4")).tail


def test_evidence_is_time_measured_over_predicted() -> None:
    slower, flow = _answer(8.0), _answer(8.0, metric="output_throughput", load="inf")
    logs = [row.log for row in evidence([slower, flow, _answer(9.0, quality="C"), _answer(None)])]
    assert logs[0] == -logs[1] > 0  # a smaller time and a larger throughput than measured
