"""Tables in words: plain text when not a terminal, drawn on one."""

import io
import re

import pytest

from poise.core.spec import Belief, Slo
from poise.report.figures import TTFT, Case
from poise.report.intervals import Interval
from poise.report.metrics import combine, measure
from poise.report.table import WIDTH, show, show_load, show_run
from poise.report.verdict import Verdict
from poise.report.wording import MISSING, belief_line, duration, significant, slo_line, write

from .runs import Row, a_cluster, a_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def result_of(*first_at: float):
    runs = [a_run([Row(0.0, 0.0, at, 5.0, prompt=10, output=3)]) for at in first_at]
    return combine([measure(run, a_cluster(), Slo(ttft_s=2.0)) for run in runs])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,235,000"), (12.3456, "12.35"), (-3.0, "-3"), (999.96, "1,000"), (1e-7, "1e-07")],
)
def test_numbers_keep_four_digits(value, text):
    assert significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 s"), (61.0, "61 s"), (0.0525, "52.5 ms"), (3e-6, "3 µs"), (2e-12, "0.002 ns")]
)
def test_durations_take_the_unit_that_reads_best(value, text):
    assert duration(value) == text


def test_what_is_missing_is_a_dash():
    assert {write(None, kind) for kind in ("seconds", "share", "count", "number", "dollars")} == {MISSING}
    assert (write(0.25, "share"), write(1e6, "count"), write(0.5, "count")) == ("25 %", "1,000,000", "0.5")


def test_the_belief_says_whether_it_is_the_default():
    assert belief_line(Belief()).startswith("Belief (the default): reports every 1 s, 50 ms late; in-flight")
    other = belief_line(Belief(period_s=0, delay_s=0, in_flight=False, prefix="oracle"))
    assert "default" not in other
    assert "before each decision, at once; in-flight dispatches not counted; prefix index: oracle" in other


def test_the_slo_in_words():
    assert slo_line(Slo(ttft_s=0.5, tpot_s=0.05)) == "TTFT ≤ 500 ms, TPOT ≤ 50 ms"
    assert slo_line(Slo()).startswith("none")


def test_plain_text_is_aligned_and_holds_every_cell():
    out = io.StringIO()
    show("Title", ("name", "a", "long header"), [("x", "1", "2"), ("longer", "1000", "")], out)
    assert out.getvalue() == "Title\nname       a  long header\nx          1            2\nlonger  1000\n\n"


def test_a_run_says_figures_intervals_and_notes():
    out = io.StringIO()
    show_run(result_of(1.0, 2.0, 3.0), file=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Result"
    assert any(line.split()[:2] == ["Requests", "1"] for line in lines)
    assert any(line.startswith("TTFT") and "2 s ± 2.5 s" in line for line in lines)
    assert any(line.startswith("cost_usd_per_mtok: no price") for line in lines)


def test_an_empty_run_can_be_shown():
    out = io.StringIO()
    show_run(combine([measure(a_run([]), a_cluster(), Slo())]), file=out)
    assert "requests: no request arrived" in out.getvalue()
    assert "None" not in out.getvalue()


def test_a_load_has_a_row_a_case_with_doubts_and_leaves_out_empty_columns():
    out = io.StringIO()
    cases = [Case("fast", result_of(1.0, 1.2)), Case("slow", result_of(3.0))]
    verdict = Verdict(TTFT[1], "fast", (), (), {"slow": Interval(1.9, 0.2)})
    show_load(cases, verdict, file=out)
    head, fast, slow, blank, *_, text = out.getvalue().splitlines()[1:10]
    assert blank == "" and out.getvalue().count("\npolicy ") == 2, "wider than a line, so there are two tables"
    assert all(len(line) <= WIDTH for line in out.getvalue().splitlines())
    assert head.split()[:4] == ["policy", "TTFT", "p50", "to"]
    assert head.count("TTFT p50") == 1 and "$" not in head and "Rejected" not in head
    assert fast.startswith("fast    1.1 s ± 1.3 s             best") and "100 %" in fast
    assert slow.startswith("slow          3 s ± ?  +1.9 s ± 200 ms")
    assert text == "Best by TTFT p50: fast (the next is slow, 1.9 s ± 200 ms away)."


def test_no_cases_is_an_empty_table():
    out = io.StringIO()
    show_load([], Verdict(TTFT[1]), file=out)
    assert out.getvalue().splitlines() == ["Comparison", "policy  TTFT p50  to the best", ""]


@pytest.mark.parametrize("width", [40, 80, 300])
def test_a_terminal_of_any_width_shows_every_figure(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")  # rich takes a dumb terminal to be 80 wide
    monkeypatch.setenv("NO_COLOR", "1")
    plain, drawn = io.StringIO(), Terminal()
    cases = [Case("fast", result_of(1.0), 2.0), Case("[slow]", result_of(3.0), 2.0)]
    verdict = Verdict(TTFT[1], "fast", ("[slow]",), (), {"[slow]": Interval(2.0, 2.5)})
    show_load(cases, verdict, file=plain)
    show_load(cases, verdict, file=drawn)
    assert "…" not in drawn.getvalue()
    missing = [word for word in plain.getvalue().split() if word not in drawn.getvalue()]
    assert missing == []
    lines = re.sub(r"\x1b\[[\d;]*m", "", drawn.getvalue()).splitlines()
    assert max(len(line) for line in lines if ": " not in line) <= width, "notes aside, which the terminal wraps"
