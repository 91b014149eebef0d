"""The timeline as a viewer reads it."""

import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.records.records import UNFINISHED, ReplicaStats
from poise.core.units import ps
from poise.report.perfetto import timeline

from .runs import Row, a_cluster, a_run

ROWS = [Row(0.0, 0.5, 1.0, 2.0, prompt=7, output=3), Row(1.0, status=UNFINISHED), Row(2.0, 2.0, 3.0, 4.0)]


def events_of(path):
    text = path.read_bytes()
    return json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)["traceEvents"]


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


@pytest.mark.parametrize("name", ["deep/er/run.json", "run.json.gz"])
def test_an_empty_run_is_valid_json(tmp_path, name):
    timeline(a_run([]), tmp_path / name)
    assert {event["ph"] for event in events_of(tmp_path / name)} == {"M"}


def test_equal_runs_give_equal_bytes(tmp_path):
    for folder in ("one", "two"):
        timeline(a_run(ROWS), tmp_path / folder / "run.json.gz")
    assert (tmp_path / "one/run.json.gz").read_bytes() == (tmp_path / "two/run.json.gz").read_bytes()


durations = st.lists(st.tuples(st.integers(0, 10**13), st.sampled_from([0, 1, 999, 10**6])), min_size=1, max_size=20)


@given(st.lists(durations, min_size=1, max_size=4))
def test_slices_that_follow_one_another_never_overlap(tmp_path_factory, lanes):
    """Each lane is a row of batches with gaps; picoseconds must not become overlapping nanoseconds."""
    slices, total = [], 0
    for lane, batches in enumerate(lanes):
        now = 0
        for length, gap in batches:
            slices.append((now, now + length, lane % 2, lane // 2, 3, 0))
            now, total = now + length + gap, total + length
    run = a_run([], replicas=[ReplicaStats(), ReplicaStats()], slices=slices)
    path = tmp_path_factory.mktemp("trace") / "run.json"
    timeline(run, path)
    by_lane = defaultdict(list)
    for event in events_of(path):
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            by_lane[event["pid"], event["tid"]].append((start, start + nanoseconds(event["dur"])))
    assert sum(map(len, by_lane.values())) == len(slices)
    assert len(by_lane) == len(lanes)
    for spans in by_lane.values():
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    written = sum(end - start for spans in by_lane.values() for start, end in spans)
    assert abs(written - total // 1000) <= len(slices)


def test_batches_are_named_by_their_work(tmp_path):
    slices = [(0, 10**6, 0, 0, 12, 0), (10**6, 2 * 10**6, 0, 0, 12, 2048), (2 * 10**6, 3 * 10**6, 0, 1, 0, 5)]
    timeline(a_run([], slices=slices), tmp_path / "run.json", cluster=a_cluster())
    events = events_of(tmp_path / "run.json")
    batches = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in batches] == ["12 decodes", "prefill 2048 + 12 decodes", "prefill 5"]
    assert [(event["ts"], event["dur"]) for event in batches] == [(0, 1), (1, 1), (2, 1)], "in microseconds"
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {"replica 0 (tiny, 1 × toy, mixed)", "lane main", "lane 1", "requests"} == names


def test_counters_show_each_change_once(tmp_path):
    samples = [(0, 0, 1, 2, 3), (ps(1), 0, 1, 2, 4), (ps(2), 0, 0, 2, 4)]
    timeline(a_run([], samples=samples), tmp_path / "run.json")
    counters = [(e["ts"], e["args"]) for e in events_of(tmp_path / "run.json") if e["ph"] == "C"]
    assert counters == [
        (0, {"waiting": 1}),
        (0, {"running": 2}),
        (0, {"KV blocks": 3}),
        (1e6, {"KV blocks": 4}),
        (2e6, {"waiting": 0}),
    ]


def test_lives_are_nested_and_closed(tmp_path):
    timeline(a_run(ROWS), tmp_path / "run.json", requests=2)
    stories = defaultdict(list)
    for event in events_of(tmp_path / "run.json"):
        if event["ph"] in "be":
            stories[event["id"]].append((event["ph"], event["name"], event["ts"] / 1e6))
    assert stories[0] == [
        ("b", "request 0", 0.0),
        ("b", "queue", 0.0),
        ("e", "queue", 0.5),
        ("b", "prefill", 0.5),
        ("e", "prefill", 1.0),
        ("b", "decode", 1.0),
        ("e", "decode", 2.0),
        ("e", "request 0", 2.0),
    ]
    assert stories[1] == [
        ("b", "request 1", 1.0),
        ("b", "queue", 1.0),
        ("e", "queue", 10.0),
        ("e", "request 1", 10.0),
    ]
    assert stories.keys() == {0, 1}


def test_an_unwritable_place_is_the_users_to_cure(tmp_path):
    with pytest.raises(UserError, match="regular file"):
        timeline(a_run([]), tmp_path)
