"""What a training run says about how long it will take."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from poise.runtime.job import Job, schedule_of
from poise.runtime.report import Report, forecast, full
from poise.runtime.size import Size


@pytest.mark.parametrize(
    ("left", "seconds", "expected"),
    [
        (198, 2.2, "198 steps are left, of about 2.2 s each: 7 min (--steps 20 would take about 44 s)"),
        (198, 0.1, "198 steps are left, of about 0.1 s each: 20 s"),
        (15, 60.0, "15 steps are left, of about 60 s each: 15 min"),
        (0, 1.0, ""),
    ],
)
def test_the_time_of_the_rest_and_a_shorter_run(left: int, seconds: float, expected: str) -> None:
    assert forecast(left, seconds) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (1_600_000, "; 1.6 M weights: 20 tokens for each would be --steps 32000, 2.7 h here"),
        (5_000, "; 5000 weights"),
    ],
)  # fmt: skip
def test_a_full_run_has_twenty_tokens_for_each_weight(weights: int, expected: str) -> None:
    seconds = [{"seconds": each} for each in (9.0, 0.3, 0.3, 0.2, 0.3)]
    assert full(1000, weights, 100, seconds) == f"100 steps of 1000 tokens, 0.3 s each{expected}"


def test_it_is_printed_once_by_the_second_step(tmp_path: Path) -> None:
    file = io.StringIO()
    job = Job(tmp_path / "text", schedule_of("gpipe", 1, 1, None), Size(1, 8, 1, 256, 8), tmp_path, 100)
    report = Report(job, 0, file)
    for step, seconds in enumerate((9.0, 2.0, 2.0)):
        report.add(step, 1.0, seconds)
    report.close()
    assert file.getvalue() == (
        "step 1 of 100: loss 1.0000, 9.00 s\n"
        "98 steps are left, of about 2 s each: 3 min (--steps 20 would take about 40 s)\n"
    )


def test_what_is_left_follows_the_mean_of_the_last_steps(tmp_path: Path) -> None:
    """A single slow step says little: steps of 1 and 3 s in turn leave 90 of 2 s each, whatever the last one took."""
    file = io.StringIO()
    job = Job(tmp_path / "text", schedule_of("gpipe", 1, 1, None), Size(1, 8, 1, 256, 8), tmp_path, 100)
    report = Report(job, 0, file)
    for step, seconds in enumerate((30.0, *[2.0, *[1.0, 3.0] * 4])):
        report.add(step, 1.0, seconds)
    report.close()
    assert file.getvalue().splitlines()[-1] == "step 10 of 100: loss 1.0000, 3.00 s, 3 min left"
