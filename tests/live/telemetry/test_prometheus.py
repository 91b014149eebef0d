"""Prometheus text: against the official client's own pages, odd but legal lines, and garbage."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from poise.live.telemetry.prometheus import Reader, Sample

READER = Reader("x", ["level", "done_total", "took_bucket", "took_sum", "level_more"])


def _registry(labels: dict[str, str], value: float) -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("x:level", "a level\nwith \\ lines", list(labels), registry=registry).labels(**labels).set(value)
    Gauge("x:level_unwanted", "another", registry=registry).set(1)
    Counter("x:done", "a counter", list(labels), registry=registry).labels(**labels).inc(3)
    Histogram("x:took", "a histogram", registry=registry, buckets=[1, 2]).observe(1.5)
    return registry


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in ("le", "quantile"))


@given(
    st.dictionaries(NAMES, st.text(), min_size=1, max_size=4),
    st.floats(),
    st.sampled_from([generate_latest, generate_openmetrics]),
)
def test_pages_of_the_official_client_are_read(labels: dict[str, str], value: float, generate: Any) -> None:
    page = generate(_registry(labels, value))
    found = READER.read(page)
    assert not isinstance(found, str), found
    [level] = found["level"]
    assert level.labels == labels
    assert level.value == value or (math.isnan(level.value) and math.isnan(value))
    assert found["done_total"] == [Sample(labels, 3.0)]
    assert [(each.labels["le"], each.value) for each in found["took_bucket"]] == [("1.0", 0), ("2.0", 1), ("+Inf", 1)]
    assert found["took_sum"] == [Sample({}, 1.5)]
    assert set(found) == {"level", "done_total", "took_bucket", "took_sum"}


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (b"x:level 1", Sample({}, 1)),
        (b"x_level 1", Sample({}, 1)),
        (b"x:level\t1e3\t1700000000000", Sample({}, 1000)),
        (b'x:level{a="b",} 1', Sample({"a": "b"}, 1)),
        (b'x:level { a = "b" , c="d"} 1 \r', Sample({"a": "b", "c": "d"}, 1)),
        (b'x:level{a="},{\\"\\\\\\n"} -Inf', Sample({"a": '},{"\\\n'}, -math.inf)),
        (b'x:level{} 2 # {trace_id="}"} 0.5 1.0', Sample({}, 2)),
        (b"x:level 3 # EOF", Sample({}, 3)),
    ],
)
def test_legal_lines(line: bytes, sample: Sample) -> None:
    for page in (line, b"# TYPE x:level gauge\n" + line + b"\n# EOF\n"):
        assert READER.read(page) == {"level": [sample]}


@pytest.mark.parametrize(
    "line",
    [
        b'x:level{a="b 1',
        b'x:level{a="b"',
        b"x:level{a=b} 1",
        b"x:level one",
        b"x:level ",
        b'x:level{a="\xff"} 1',
        b"x:level{",
    ],
)
def test_lines_without_sense_are_named(line: bytes) -> None:
    families = READER.read(b"x:done_total 1\n" + line + b"\n")
    assert isinstance(families, str) and families.startswith("this line makes no sense: level")


def test_the_unwanted_may_be_garbage() -> None:
    page = b"x:other{{{ \xff\nx:levels 1\nx:level_unwanted{ oops\nHTTP/1.1 200 OK\ny:level 1\n x:level 1\nx:level 7\n"
    assert READER.read(page) == {"level": [Sample({}, 7)]}


def test_a_page_is_known_by_its_names() -> None:
    assert READER.knows(b"x:any 1") and READER.knows(b"# HELP\nx_any 1")
    assert not READER.knows(b"") and not READER.knows(b"y 1 x:any\n")


@given(st.binary(), st.binary())
def test_any_bytes_give_samples_or_a_text(before: bytes, after: bytes) -> None:
    assert isinstance(READER.read(before + b"\nx:level{" + after), dict | str)
