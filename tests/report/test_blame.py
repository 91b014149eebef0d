"""Means of the parts of requests' time: they add up, and the table and the files say them."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest

from poise.core.records.blame import DECODE, MISS, PARTS, QUEUE, Blame
from poise.core.records.records import REJECTED, Run
from poise.core.spec import Slo
from poise.core.units import ps
from poise.report.blame import means, show_blame
from poise.report.metrics import measure
from poise.report.requests import requests_frame
from poise.workload.table import Workload

from .runs import Row, a_cluster, a_run


def charged() -> Run:
    """Three requests of TTFT 1, 2 and 6 s and 10 s each; the last is refused and counts for nothing."""
    run = a_run([
        Row(0.0, 0.0, 1.0, 10.0, output=5), Row(5.0, 5.0, 7.0, 15.0, output=5), Row(6.0, ended=7.0, status=REJECTED),
    ])  # fmt: skip
    run.blame = Blame(3)
    for row, (queue, miss, decode) in enumerate(((0.25, 0.75, 9.0), (2.0, 0.0, 8.0), (1.0, 0.0, 0.0))):
        run.blame.ttft[QUEUE][row], run.blame.ttft[MISS][row] = ps(queue), ps(miss)
        run.blame.rest[DECODE][row] = ps(decode)
    return run


def test_means_are_over_finished_requests_after_warm_up() -> None:
    seconds = means(charged())
    assert seconds is not None and list(seconds["ttft"]) == list(seconds["rest"]) == list(PARTS)
    assert {name: value for name, value in seconds["ttft"].items() if value} == {"queue": 1.125, "miss": 0.375}
    assert {name: value for name, value in seconds["rest"].items() if value} == {"decode": 8.5}
    late = means(charged(), warmup_s=4.0)
    assert late is not None and late["ttft"]["queue"] == 2.0
    assert means(charged(), warmup_s=20.0) is None
    assert means(a_run([Row(0.0, 0.0, 1.0, 2.0)])) is None


def test_metrics_have_blame_only_where_it_was_requested() -> None:
    result = measure(charged(), a_cluster(), Slo())
    assert result.as_dict()["blame"] == means(charged())
    assert sum(result.as_dict()["blame"]["ttft"].values()) == result.ttft_s.mean
    assert "blame" not in measure(a_run([Row(0.0, 0.0, 1.0, 2.0, output=2)]), a_cluster(), Slo()).as_dict()


def test_the_table_leaves_out_what_is_nothing_everywhere() -> None:
    out = io.StringIO()
    show_blame([("one", {"blame": means(charged())}), ("two", {"blame": means(charged(), 4.0)}), ("none", {})], out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Where the time of finished requests went, in the mean"
    assert [line.split() for line in lines[1:7]] == [
        ["one", "two"],
        ["until", "the", "first", "token", "1.5", "s", "2", "s"],
        ["queue", "1.125", "s", "2", "s"],
        ["miss", "375", "ms", "–"],
        ["from", "there", "to", "the", "end", "8.5", "s", "8", "s"],
        ["decode", "8.5", "s", "8", "s"],
    ]
    silent = io.StringIO()
    show_blame([("none", {})], silent)
    assert silent.getvalue() == ""


def test_the_rows_have_a_column_for_each_part_and_say_whose_they_are() -> None:
    load = Workload(
        np.array([0, 1, 2]), np.ones(3, "i4"), np.ones(3, "i4"), session=np.array([4, -1, 4], "i4"),
        tenant=np.array([1, 2, 1], "i4"), model=np.array([0, 1, 0], "i2"), models=("small", "large"),
    )  # fmt: skip
    frame = requests_frame(charged(), load)
    assert frame["ttft_miss_s"].to_list() == [0.75, 0.0, 0.0]
    assert frame.select("session", "turn", "tenant", "model").rows() == [
        (4, 1, 1, "small"), (-1, 0, 2, "large"), (4, 2, 1, "small"),
    ]  # fmt: skip
    parts = frame.select(pl.sum_horizontal(f"{half}_{part}_s" for half in ("ttft", "rest") for part in PARTS))
    assert parts.to_series().to_list() == pytest.approx(frame["e2e_s"].to_list())
