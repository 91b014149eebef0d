"""Timelines: every bar is drawn once, in its place, and text stands only where it has room."""

from __future__ import annotations

import re

from pytest import approx

from poise.report.timeline import WIDTH, Bar, Row, timeline


def test_bars_lie_where_they_are_in_time() -> None:
    rows = [Row("a", [Bar(0, 1, 0, "7"), Bar(1, 3, 2)]), Row("b", [Bar(2, 4, 0, pale=True), Bar(4, 4, 1)])]
    drawn = timeline("two", rows, "time, s", 4)
    ends = [(float(x), float(end)) for x, end in re.findall(r"M([\d.]+) \d+H([\d.]+)v", drawn)]
    boxes = [(x, end - x) for x, end in ends]
    assert len(boxes) == 3  # a bar of no length is none
    (one, two, three) = boxes
    unit = one[1]
    assert two == approx((one[0] + unit, 2 * unit), abs=0.02) and three == approx(
        (one[0] + 2 * unit, 2 * unit), abs=0.02
    )
    assert three[0] + three[1] <= WIDTH
    assert drawn.count('class="c0 pale"') == 1 and drawn.count(">7</text>") == 1


def test_dense_rows_have_no_gaps() -> None:
    """Bars of a pixel would be nearly all border."""
    sparse, dense = ([Row("a", [Bar(at, at + 1, at % 2) for at in range(count)])] for count in (4, 2_000))
    assert "dense" not in timeline("t", sparse, "s", 4)
    assert timeline("t", dense, "s", 2_000).count('dense"') == 2, "one path a colour"


def test_text_that_has_no_room_is_left_out_and_marks_are_escaped() -> None:
    rows = [Row("<r>", [Bar(0, 0.001, 0, "12345"), Bar(1, 9, 0, "<")])]
    drawn = timeline("<t>", rows, "<s>", 10)
    assert "12345" not in drawn and "&lt;r&gt;" in drawn and "&lt;t&gt;" in drawn and ">&lt;</text>" in drawn
