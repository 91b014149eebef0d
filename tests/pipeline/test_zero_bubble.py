"""The bubbles that the Zero Bubble paper gives for its own profiles (tables 5 and 6), and what the heuristic may do."""

from __future__ import annotations

import csv
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Schedule, Weights, check, make, time

SIZE = ("pp", "hidden", "heads", "seq", "micro_batch", "global_batch")


def made(name: str, p: int, m: int, costs: Costs, kept: Fraction) -> Schedule:
    """The schedule behind a column of table 5; ZB-1p and ZB-2p are the heuristic within p and 2p activations."""
    if name in ("ZB-1p", "ZB-2p"):
        limit = int(name[3]) * p
        schedule = make("zb_auto", p, m, costs=costs, memory_limit=limit, kept=kept, by="span")
        check(schedule, memory_limit=limit, weights=Weights(kept=kept))
        return schedule
    return make({"1F1B": "one_f_one_b", "ZB-H1": "zb_h1", "ZB-H2": "zb_h2"}[name], p, m)


def test_the_tables_of_the_paper(data_dir: Path) -> None:
    """60 bubbles of 4 digits, 59 exactly and the other within 0.00015; longest span − work of a middle stage."""
    with (data_dir / "fidelity_training" / "zero_bubble.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] in ("Table 5", "Table 6")]
    cells: dict[tuple[int, ...], dict[str, str]] = defaultdict(dict)
    for row in rows:
        key = row["schedule"] if row["table"] == "Table 5" else row["metric"]
        cells[tuple(int(row[column]) for column in SIZE)][key] = row["value"]
    wrong, seen = [], 0
    for (p, h, a, s, micro, batch), expected in cells.items():
        costs = Costs.of(*(expected[each] for each in ("T_F", "T_B", "T_W", "T_comm")))
        kept = Fraction(32 * h, 34 * h + 5 * a * s)
        m = batch // micro
        for name in ("1F1B", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p"):
            timing = time(made(name, p, m, costs, kept), costs)
            span = max(timing.spans)
            off = abs(float(1 - timing.busy[0] / span) - float(expected[name]))
            seen += 1
            if off > 5.0001e-5:
                wrong.append((name, p, m))
                assert off <= 1.5e-4
    assert seen == 60 and len(wrong) <= 1, wrong


@pytest.mark.parametrize(
    ("p", "m", "limit", "times", "most"),
    [
        (8, 32, 8, (1, 1, 1, 0), 0.068), (8, 32, 8, (1000, 1000, 1000, 50), 0.0805),
        (8, 32, 8, (18522, 18086, 9337, 601), 0.1238), (8, 32, 16, (18522, 18086, 9337, 601), 0.0835),
        (16, 128, 16, (18522, 18086, 9337, 601), 0.0704), (16, 128, 32, (18522, 18086, 9337, 601), 0.0465),
        (32, 256, 32, (18522, 18086, 9337, 601), 0.0725), (32, 256, 64, (18522, 18086, 9337, 601), 0.0480),
    ],
)  # fmt: skip
def test_no_worse_than_the_authors_scheduler(p: int, m: int, limit: int, times: tuple[int, ...], most: float) -> None:
    costs = Costs.of(*times)
    timing = time(make("zb_auto", p, m, costs=costs, memory_limit=limit), costs)
    assert round(float(timing.bubble_global_fraction), 4) <= most
    assert max(timing.memory.peaks) <= limit


numbers = st.integers(1, 9)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 14), st.data())
def test_any_times_and_any_limit(p: int, m: int, limit: int, data: st.DataObject) -> None:
    each = st.lists(numbers, min_size=p, max_size=p)
    costs = Costs.of(data.draw(each), data.draw(each), data.draw(each), data.draw(numbers))
    schedule = make("zb_auto", p, m, costs=costs, memory_limit=limit)
    check(schedule, memory_limit=limit)
    if limit >= p and m <= 64:
        assert time(schedule, costs).makespan <= time(make("zb_h1", p, m), costs).makespan


def test_what_it_cannot_take_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"memory limit 0\.5 must be 1 or more"):
        make("zb_auto", 4, 8, memory_limit=0.5)
    with pytest.raises(ScheduleError, match="by 'time'; give makespan or span"):
        make("zb_auto", 4, 8, by="time")
