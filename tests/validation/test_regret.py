"""What choosing by predictions costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.validation.answer import Answer
from poise.validation.regret import Option, regret, regrets
from poise.validation.score import ALL
from tests.validation.made import row

positive = st.floats(0.1, 1e4)
options = st.lists(st.builds(Option, positive, positive), min_size=2)


@given(options)
def test_regret_is_a_share_and_nothing_where_predictions_rank_right(found: list[Option]) -> None:
    assert 0 <= regret(found) < 1
    assert regret([Option(each.measured, each.measured) for each in found]) == pytest.approx(0, abs=1e-9)


def test_throughput_counts_per_device_and_latency_the_other_way() -> None:
    wide = row(tensor=4, devices=4, metric="output_throughput", value=300.0)
    narrow = row(metric="output_throughput", value=100.0)
    whole, one = regrets([Answer(wide, 500.0), Answer(narrow, 90.0)])
    assert (whole.source, one.source, one.n) == (ALL, "made up", 1)
    assert one.median_ape == pytest.approx(1 - 75 / 100)  # 125 a device is predicted best, 75 was measured
    fast, slow = row(tensor=2, devices=2, value=5.0), row(value=10.0)
    assert regrets([Answer(fast, 4.0), Answer(slow, 9.0)])[0].median_ape == 0
    assert regrets([Answer(fast, 9.0), Answer(slow, 4.0)])[0].median_ape == pytest.approx(0.5)


def test_what_is_measured_once_or_under_other_loads_is_no_choice() -> None:
    other = row(load="static batch 8", tensor=2, devices=2, value=9.0)
    assert regrets([Answer(row(), 5.0), Answer(other, 6.0), Answer(row(quality="C"), 5.0), Answer(row())]) == []
