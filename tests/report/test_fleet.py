"""Maps of replicas by time: the picture holds the values, and joining steps keeps the peaks."""

import base64
import re
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.report.axis import fit
from poise.report.fleet import Fleet, courses, fleet
from poise.report.heat import heat, shade
from poise.report.png import colours, png


def read_back(picture: bytes) -> np.ndarray:
    """The numbers of a picture, as the page's script finds them."""
    wide, high = struct.unpack(">II", picture[16:24])
    at = 8
    while picture[at + 4 : at + 8] != b"IDAT":
        at += 12 + int.from_bytes(picture[at : at + 4], "big")
    size = int.from_bytes(picture[at : at + 4], "big")
    rows = np.frombuffer(zlib.decompress(picture[at + 8 : at + 8 + size]), np.uint8).reshape(high, wide + 1)
    assert not rows[:, 0].any(), "no filter"
    return rows[:, 1:]


def a_fleet(values: np.ndarray) -> Fleet:
    return Fleet(tuple(range(len(values))), np.arange(values.shape[1]) * 0.5, 0.5, values)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 5000), st.integers(0, 99))
def test_a_map_holds_its_values(replicas, instants, most, seed):
    draws = np.random.default_rng(seed)
    values = draws.integers(0, most, (replicas, instants)).astype(float)
    values[draws.random(values.shape) < 0.1] = np.nan
    scale = shade(float(np.nanmax(values, initial=0.0)), "count")
    text = heat("t", a_fleet(values), scale, fit([instants / 2], 62, 446), [str(each) for each in range(replicas)])
    (encoded,) = re.findall(r"base64,(.*?)\"", text)
    numbers = read_back(base64.b64decode(encoded))
    assert ((numbers > scale.levels) == np.isnan(values)).all()
    found = numbers / scale.levels * scale.top
    assert np.nanmax(np.abs(np.where(np.isnan(values), 0, found - values))) <= max(scale.top / 254 / 2, 1e-9)
    if scale.top <= 254:
        assert (np.rint(found)[~np.isnan(values)] == values[~np.isnan(values)]).all(), "counts are exact"


def test_a_picture_is_a_png_whose_last_colour_is_blank():
    picture = png(np.array([[0, 1, 2]], np.uint8), colours(1))
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(picture):
        size = int.from_bytes(picture[at : at + 4], "big")
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + data) == int.from_bytes(picture[at + 8 + size : at + 12 + size], "big")
        chunks[kind] = data
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    assert chunks[b"PLTE"] == bytes([68, 1, 84, 253, 231, 37, 0, 0, 0])
    assert chunks[b"tRNS"] == bytes([255, 255, 0])


@pytest.mark.parametrize(("highest", "kind", "top"), [(0.0, "count", 1), (7.0, "count", 7), (0.123, "share", 0.13)])
def test_a_scale_reaches_the_highest_value(highest, kind, top):
    assert shade(highest, kind).top == top


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 99))
def test_joined_steps_show_their_peaks(instants, times, seed):
    draws = np.random.default_rng(seed)
    values = draws.integers(0, 100, (3, instants)).astype(float)
    values[0, : instants // 2] = np.nan
    some = a_fleet(values)
    coarse = some.coarser(times)
    assert coarse.values.shape[1] == -(-instants // times)
    for at in range(coarse.values.shape[1]):
        piece = values[:, at * times : (at + 1) * times]
        peaks = [np.nan if np.isnan(row).all() else np.nanmax(row) for row in piece]
        np.testing.assert_array_equal(coarse.values[:, at], peaks)
    assert coarse.highest == some.highest
    assert coarse.end >= some.end


def test_few_replicas_have_a_line_each_and_more_their_mean_lowest_and_highest():
    curves = {f"replica {each}": ([0.0, 1.0], [float(each), float(each)]) for each in (2, 10, 1)}
    few = fleet(curves)
    assert few.replicas == (1, 2, 10)
    assert list(courses(few, [])) == ["replica 1", "replica 2", "replica 10"]
    many = a_fleet(np.arange(9.0).repeat(2).reshape(9, 2))
    (name, course), *rest = courses(many, []).items()
    assert (name, rest) == ("mean of 9 replicas", [])
    assert [each.tolist() for each in (course.mean, course.low, course.high)] == [[4, 4], [0, 0], [8, 8]]
    assert list(courses(many, ["prefill"] * 3 + ["decode"] * 6)) == [
        "mean of 3 prefill replicas", "mean of 6 decode replicas",
    ]  # fmt: skip


def test_what_is_not_up_is_in_no_mean():
    values = np.array([[np.nan, np.nan], [1.0, np.nan], [3.0, 4.0], [np.nan, 8.0], [2.0, np.nan]])
    (course,) = courses(a_fleet(values), []).values()
    assert course.mean.tolist() == [2.0, 6.0]
