"""Lines, bands and axes: what is drawn can be read back."""

import itertools
import math
import re

from hypothesis import given
from hypothesis import strategies as st

from poise.report.axis import fit
from poise.report.chart import Extras, Goal, Line, Mark, Scale, chart, span
from poise.report.path import area, trail

positive = st.floats(1e-9, 1e9)
places = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=20)


def walked(path: str) -> list[tuple[float, float]]:
    """The corners of a path, as the page's script finds them."""
    x = y = 0.0
    corners = []
    for letter, rest in re.findall(r"([MlhvVz])([^MlhvVz]*)", path):
        numbers = [float(each) for each in rest.split()]
        if letter == "M":
            x, y = numbers
        elif letter == "l":
            x, y = x + numbers[0], y + numbers[1]
        elif letter == "h":
            x += numbers[0]
        elif letter in "vV":
            y = numbers[0] + (y if letter == "v" else 0)
        if letter != "z":
            corners.append((x, y))
    return corners


def surface(corners: list[tuple[float, float]]) -> float:
    """The area within closed corners."""
    pairs = zip(corners, [*corners[1:], corners[0]], strict=True)
    return abs(sum(a * d - b * c for (a, b), (c, d) in pairs)) / 2


@given(st.lists(positive, min_size=1, max_size=20), st.booleans())
def test_axes_hold_their_values_and_some_round_ticks(values, log):
    axis = fit(values, 10.0, 400.0, log=log)
    found = [axis.place(value) for value in sorted(values)]
    assert found == sorted(found)
    assert all(10 - 1e-6 <= place <= 400 + 1e-6 for place in found)
    ticks = [value for value, _ in axis.ticks()]
    assert 1 <= len(ticks) <= 14
    assert ticks == sorted(set(ticks))
    assert all(axis.low * (1 - 1e-9) <= tick <= axis.high * (1 + 1e-9) for tick in ticks)


@given(st.floats(0.1, 1e6))
def test_counts_have_whole_ticks(high):
    ticks = [value for value, _ in fit([high], 0.0, 100.0, kind="count").ticks()]
    assert all(abs(value - round(value)) < 1e-9 for value in ticks)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20), st.booleans(), st.booleans())
def test_the_script_can_read_the_values_back_from_the_drawing(points, log, steps):
    """What the page's script computes from the path, to a tenth of a unit; steps say a value where it begins."""
    points.sort()
    line = Line("a", 0, [x for x, _ in points], [y for _, y in points])
    text = chart("t", [line], Scale("x", log=log), Scale("y", log=log), reading="{y}", steps=steps)
    (path,) = re.findall(r'<path class="l[^>]* d="(.*?)"', text)
    drawn = [(x / 10, y / 10) for x, y in walked(path)]
    axes = [fit([p[at] for p in points], *ends, log=log) for at, ends in ((0, (62, 446)), (1, (256, 26)))]
    height = math.nan
    for x, y in points:
        px, py = axes[0].place(x), axes[1].place(y)
        near = [each for each in drawn if math.dist(each, (px, py)) < 0.1]
        assert near or (steps and abs(py - height) <= 0.1), "left out only where nothing changes"
        height = py


@given(places, st.booleans())
def test_a_band_covers_what_lies_between_its_lines(points, steps):
    xs = [sum(step for step, *_ in points[: at + 1]) for at in range(len(points))]
    low, high = ([each[at] for each in points] for at in (1, 2))
    ordered = [(max(a, b), min(a, b)) for a, b in zip(low, high, strict=True)]  # places grow downwards
    low, high = [a for a, _ in ordered], [b for _, b in ordered]
    corners = walked(area(xs, low, high, steps))
    gaps = [a - b for a, b in ordered]
    wide = [b - a for a, b in itertools.pairwise(xs)]
    if len(xs) == 1:
        assert surface(corners) == 20 * gaps[0], "a stroke"
    elif steps:
        assert surface(corners) == sum(gap * step for gap, step in zip(gaps, wide, strict=False))
    else:
        means = [(a + b) / 2 for a, b in itertools.pairwise(gaps)]
        assert surface(corners) == sum(gap * step for gap, step in zip(means, wide, strict=True))


def test_a_gap_breaks_a_line_and_its_band():
    assert trail([0, 10, 20, 30], [5, None, 7, 9], False) == "M0 5M20 7l10 2"
    assert area([0, 10, 20, 30], [5, 5, 7, 9], [3, None, 4, 4], False).count("M") == 2
    line = Line("a", 9, [1.0, 2.0, 3.0], [1.0, math.nan, 2.0], [0.5, math.nan, math.nan], [1.5, math.nan, math.nan])
    text = chart("t", [line], Scale("x"), Scale("y"), reading="{y}", dots=True)
    assert text.count("<circle") == 2
    assert text.count('<path class="b c1"') == 1
    assert 'stroke-dasharray="7 3"' in text, "colours repeat with another dash"


def test_a_mark_beyond_the_axis_is_left_out_and_an_open_range_runs_to_its_end():
    line = Line("a", 0, [1.0, 2.0], [1.0, 2.0])
    marks = [Mark("load 9", 9.0), Mark("a", None, 0, 1.5, None)]
    text = chart("t", [line], Scale("x"), Scale("y"), reading="{y}", marks=marks)
    assert "load 9" not in text
    axis = fit([1.0, 2.0], 62, 446)
    assert span(marks[1], axis) == (axis.place(1.5), 446.0)


def test_lines_on_top_of_one_another_take_turns():
    """Both colours are seen where two lines share a piece, and each is whole where it is alone."""
    one, two = Line("a", 0, [1.0, 2.0, 3.0], [1.0, 1.0, 2.0]), Line("b", 1, [1.0, 2.0, 3.0], [1.0, 1.0, 3.0])
    text = chart("t", [one, two], Scale("x"), Scale("y"), reading="{y}", dots=True)
    shared = re.findall(r'<path class="l (c\d)" stroke-dasharray="6 6" stroke-dashoffset="(-?\d+)"', text)
    assert shared == [("c0", "0"), ("c1", "-6")]
    assert len(re.findall(r'<path class="l c\d" d=', text)) == 2, "the pieces apart"
    assert text.count('r="4.6"') == 2 and text.count('r="3"') == 4, "the lower dots are larger"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_names_at_the_ends_of_lines_do_not_touch(values):
    lines = [Line(f"line {n}", n, [0.0, 1.0], [0.5, value]) for n, value in enumerate(values)]
    goals = Extras(named=True, goals=[Goal("target", 0.9)])
    text = chart("t", lines, Scale("x"), Scale("y", "share"), reading="{y}", extras=goals)
    names = re.findall(r'class="a name" x="[\d.]+" y="([\d.]+)">(.*?)<', text)
    tops = [float(y) for y, _ in names]
    assert {name for _, name in names} == {"target", *(line.name for line in lines)}
    assert all(b - a >= 13.9 for a, b in itertools.pairwise(tops)), tops


@given(st.floats(0, 10), st.floats(0, 1), st.floats(0.05, 1))
def test_the_label_of_a_dot_does_not_touch_the_name_of_a_level(x, y, goal):
    """Letters are at most 7.6 units wide in labels and 6.9 elsewhere, and rise 11 over their line."""
    dots = [Line("", 1, [0.0], [0.0]), Line("", 1, [10.0], [1.0]), Line("", 0, [x], [y], label="3 × H100-SXM-80GB fp8")]
    extras = Extras(goals=[Goal("target: 99 %", goal)], width=780)
    text = chart("t", dots, Scale("x"), Scale("y", "share"), reading="{y}", dots=True, extras=extras)
    middle, base = map(float, re.findall(r'x="([\d.]+)" y="([\d.]+)" text-anchor="middle">target', text)[0])
    labels = re.findall(r'class="a name" x="([\d.]+)" y="([\d.]+)">(.*?)<', text)
    for left, foot, label in labels:
        apart = float(left) + 7.6 * len(label) <= middle - 6.9 * 6 + 0.1 or float(left) >= middle + 6.9 * 6 - 0.1
        assert apart or abs(float(foot) - base) >= 13.9


def test_a_label_stands_below_the_name_of_a_level_where_it_would_touch_it():
    """The plan of the tutorial: a dot at the top of the plot, left of the level's name."""
    dots = [
        Line("", 1, [0.0], [0.0]),
        Line("", 1, [10.0], [1.0]),
        Line("", 0, [3.5], [1.0], label="3 × H100-SXM-80GB fp8"),
    ]
    front = [(0.0, 0.98), (3.5, 0.98), (3.5, 1.0)]
    extras = Extras(goals=[Goal("target: 99 %", 0.99)], width=780, front=front)
    text = chart("t", dots, Scale("x"), Scale("y", "share"), reading="{y}", dots=True, extras=extras)
    assert "3 × H100-SXM-80GB fp8</text>" in text


def test_a_long_tick_is_shortened_and_an_axis_of_loads_begins_near_the_lowest():
    line = Line("a", 0, [100_000.0, 1_000_000.0], [1.0, 2.0])
    text = chart("t", [line], Scale("x", log=True), Scale("y"), reading="{y}")
    assert ">100 k</text>" in text and ">1 M</text>" in text
    near = fit([4.0, 8.0], 0, 100, zero=False)
    assert 3.5 < near.low < 4 and 8 < near.high < 8.5
    assert fit([4.0, 8.0], 0, 100, tight=True).high == 8
