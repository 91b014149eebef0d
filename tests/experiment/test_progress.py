"""The progress bar: only on a terminal, and only when it takes a while."""

from __future__ import annotations

import io

from poise.experiment.progress import PATIENCE_S, Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_nobody_looks() -> None:
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
