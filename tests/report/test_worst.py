"""The slowest requests are those that took longest, with what the table of requests says of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from poise.core.records.records import TIMED_OUT
from poise.report.blame import packed, samples, unpacked
from poise.report.requests import requests_frame
from poise.report.worst import BY, COLUMNS, as_rows, worst

from .pages import blamed
from .runs import Row, a_run

taken = st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(0, 9), st.booleans())


@given(st.lists(taken, max_size=40), st.integers(1, 12))
def test_the_slowest_are_the_slowest_finished_ones_as_the_table_has_them(times, most):
    rows = [
        Row(float(at), at + 0.25, at + 0.5 * first, at + first + rest, output=rest + 1, status=TIMED_OUT if lost else 0)
        for at, first, rest, lost in times
    ]
    run = blamed(a_run(rows))
    frame = requests_frame(run)
    finished = frame.filter(status="finished")
    for name, table in worst(run, most=most).items():
        found = as_rows(table)
        slow = finished.sort([name, "arrival_s", "request"], descending=[True, False, False]).head(most)
        assert [row["request"] for row in found] == slow["request"].to_list()
        for row, entry in zip(found, slow.iter_rows(named=True), strict=True):
            assert set(row) == set(COLUMNS)
            for column in set(COLUMNS) & set(entry):
                assert row[column] == entry[column] or abs(row[column] - entry[column]) < 1e-9
            assert abs(row["queue"] + row["decode"] - row["e2e_s"]) < 1e-9, "its parts add up"


def test_nothing_finished_nothing_is_slow():
    assert [len(as_rows(table)) for table in worst(a_run([])).values()] == [0] * len(BY)


def test_the_slowest_hundredth_has_samples_of_its_own():
    rows = [Row(0.0, 0.0, 1.0, 2.0, output=2) for _ in range(198)]
    rows += [Row(0.0, 0.0, 1.0, 22.0, output=2) for _ in range(2)]
    rows[7] = rows[8] = Row(0.0, 0.0, 9.0, 10.0, output=2)
    found = samples(blamed(a_run(rows, until=30.0)))
    assert found is not None
    assert found["slowest"]["ttft"]["queue"] == 1.0
    assert found["slowest"]["rest"]["decode"] == 21.0
    assert found["slowest_ttft"]["ttft"]["queue"] == 9.0
    assert np.isclose(found["mean"]["ttft"]["queue"], (198 + 2 * 9) / 200)
    assert {name: unpacked(packed(each)) for name, each in found.items()} == found
    assert samples(a_run(rows)) is None, "nobody asked"
