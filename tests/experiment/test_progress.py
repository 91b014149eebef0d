"""Progress: a bar only on a terminal, and only when it takes a while; lines of JSON where a program reads them."""

from __future__ import annotations

import io
import json

import pytest

from poise.experiment.progress import EVERY_S, LINE_S, PATIENCE_S, VARIABLE, Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_without_a_terminal() -> None:
    file = io.StringIO()
    with Bars(file, clock=iter([0.0, 100.0]).__next__) as bars:
        bars("round_robin", 1, 10)
    assert file.getvalue() == ""


def test_a_bar_appears_after_a_second() -> None:
    file, times = Terminal(), iter([0.0, PATIENCE_S / 2, PATIENCE_S * 2, PATIENCE_S * 3])
    with Bars(file, clock=times.__next__) as bars:
        bars("round_robin", 1, 10)
        assert file.getvalue() == ""
        bars("round_robin", 5, 10)
        bars("least_tokens", 6, 10)
    assert "round_robin" in file.getvalue() and "least_tokens" in file.getvalue() and "6/10" in file.getvalue()


def test_a_short_run_draws_none() -> None:
    file = Terminal()
    with Bars(file, clock=lambda: 0.0) as bars:
        bars("round_robin", 10, 10)
    assert file.getvalue() == ""


def test_a_program_gets_lines_of_json_now_and_then_and_always_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    file, times = io.StringIO(), iter([0.0, 1.0, 1.0 + EVERY_S / 2, 1.0 + EVERY_S / 2, 1.0 + EVERY_S * 0.6])
    with Bars(file, clock=times.__next__) as bars:
        bars("simulations", 1, 10)
        bars("simulations", 2, 10)
        bars("stories", 1, 3)
        bars("simulations", 10, 10)
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [
        {"progress": "simulations", "done": 1, "total": 10},
        {"progress": "stories", "done": 1, "total": 3},
        {"progress": "simulations", "done": 10, "total": 10},
    ]


def test_lines_tell_the_time_left_where_there_is_no_terminal() -> None:
    file, times = io.StringIO(), iter([0.0, 1.0, LINE_S, LINE_S + 1, 2 * LINE_S])
    with Bars(file, clock=times.__next__, lines=True) as bars:
        for done in (1, 3, 4, 6):
            bars("rows", done, 12)
    assert file.getvalue() == "rows: 3 of 12, about 45 s left\nrows: 6 of 12, about 30 s left\n"


def test_the_time_left_is_of_each_label() -> None:
    file, times = io.StringIO(), iter([0.0, 100.0, 101.0, 200.0])
    with Bars(file, clock=times.__next__, lines=True) as bars:
        bars("rows", 10, 10)
        bars("runs", 0, 4)
        bars("runs", 1, 4)
    assert file.getvalue() == "rows: 10 of 10\nruns: 1 of 4, about 5 min left\n"
