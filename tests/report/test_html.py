"""The page: well-formed, self-contained, honest about what is missing."""

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.records import UNFINISHED
from poise.core.spec import Belief, Slo
from poise.core.units import ps
from poise.report.axis import fit
from poise.report.chart import Line, Scale, chart
from poise.report.curves import latency_curves, timeline_curves
from poise.report.figures import Case
from poise.report.html import About, html_report, page
from poise.report.metrics import combine, measure
from poise.report.wording import belief_line

from .runs import Row, a_cluster, a_run

VOID = {"meta", "line", "circle", "path", "br"}


class Reader(HTMLParser):
    """Collects text and attributes; fails where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and not {"style", "script", "title"} & set(self.open):
            self.text.append(data.strip())


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def about(**more) -> About:
    return About("A title", Belief(), "vllm v1", {"kind": "table", "fit": {"error": 0.07}}, [3], **more)


def case(router: str, load: float | None, *first_at: float) -> Case:
    rows = [[Row(0.0, 0.0, at, 5.0, prompt=10, output=3), Row(1.0, 1.0, 2.0, 2.0, output=1)] for at in first_at]
    runs = [a_run(some, samples=[(0, 0, 1, 1, 1), (ps(5), 0, 2, 2, 2)]) for some in rows]
    result = combine([measure(run, a_cluster(price=1.0), Slo(ttft_s=2.0)) for run in runs])
    return Case(router, result, load, latency_curves(runs[0]), timeline_curves(runs[0]))


SWEEP = [case(name, load, 1.0, load) for name in ("fair", "greedy") for load in (1.5, 3.0)]


def test_the_first_line_is_the_belief():
    assert read(page(SWEEP, about())).text[0] == belief_line(Belief())


def test_the_header_says_engine_cost_seed_and_slo():
    words = " ".join(read(page(SWEEP, about(slo=Slo(ttft_s=2.0)))).text)
    for part in ("A title", "vllm v1", "kind: table", "fit.error: 0.07", "Seed 3", "TTFT ≤ 2 s"):
        assert part in words


def test_nothing_is_fetched():
    text = page(SWEEP, about())
    assert "http" not in text
    assert "@import" not in text
    assert not re.search(r"url\(|fetch\(|XMLHttp|import\(", text)
    fetching = {name for _, name, _ in read(text).attributes} & {"src", "href", "srcset", "data", "action"}
    assert fetching == set()


def test_a_sweep_has_curves_distributions_and_timelines():
    text = page(SWEEP, about())
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert titles[:6] == [
        "TTFT, median", "TTFT, 99th percentile", "TPOT, 99th percentile", "End to end, 99th percentile",
        "Goodput", "SLO attainment",
    ]  # fmt: skip
    assert titles.count("Time to first token") == 2, "one at each load"
    assert titles.count("KV cache") == len(SWEEP)


def test_curves_over_load_are_in_order_of_load_whatever_the_order_of_cases():
    assert drawn_lines(page(SWEEP, about())) == drawn_lines(page(SWEEP[::-1], about()))


def drawn_lines(text: str) -> list[tuple[str, str]]:
    """Names and paths of the curves over load, in order of name (colours follow the order of cases)."""
    over_load = text.split("<h2>Over load</h2>")[1].split("</section>")[0]
    return sorted(re.findall(r'<g data-name="(.*?)">.*?<path [^>]*d="(.*?)"', over_load))


def test_one_run_has_no_curves_over_load():
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", page([case("fair", None, 1.0)], about()))
    assert titles == ["Time to first token", "Time per output token", "End to end", "Waiting", "Running", "KV cache"]


@pytest.mark.parametrize("rows", [[], [Row(0.0, status=UNFINISHED)]])
def test_a_run_in_which_nothing_finished_is_a_page_with_reasons(rows):
    run = a_run(rows)
    empty = Case("fair", combine([measure(run, a_cluster(), Slo())]), None, latency_curves(run), timeline_curves(run))
    words = " ".join(read(page([empty], about())).text)
    assert "Nothing to draw" in words
    assert "no price is known for toy" in words
    assert "None" not in words
    assert "nan" not in words


def test_no_cases_is_still_a_page():
    assert read(page([], about())).text[0].startswith("Belief")


def test_names_are_escaped():
    text = page([case("<script>alert(1)</script>&\"'", 1.0, 1.0)], about(workload={"<b>": "<i>"}))
    assert "<script>alert" not in text
    assert "<b>" not in text
    read(text)


def test_notes_say_which_cases_they_hold_for():
    cases = [case("fair", 1.0, 1.0, 2.0), case("greedy", 1.0, 1.0)]
    notes = re.findall(r"<li>(.*?)</li>", page(cases, about()))
    assert "interval: one seed: an interval needs two or more (greedy at 1)" in notes


def test_no_number_in_a_drawing_is_broken():
    text = page(SWEEP, about())
    for drawing in re.findall(r"<svg.*?</svg>", text, re.S):
        assert not re.search(r"\bnan\b|\binf\b|None", drawing)


def test_the_page_is_written_whole(tmp_path):
    html_report(tmp_path / "new" / "report.html", SWEEP, about())
    assert (tmp_path / "new" / "report.html").read_text() == page(SWEEP, about())
    with pytest.raises(UserError, match="regular file"):
        html_report(tmp_path, SWEEP, about())


positive = st.floats(1e-9, 1e9)


@given(st.lists(positive, min_size=1, max_size=20), st.booleans())
def test_axes_hold_their_values_and_some_round_ticks(values, log):
    axis = fit(values, 10.0, 400.0, log=log)
    places = [axis.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(10 - 1e-6 <= place <= 400 + 1e-6 for place in places)
    ticks = [value for value, _ in axis.ticks()]
    assert 1 <= len(ticks) <= 14
    assert ticks == sorted(set(ticks))
    assert all(axis.low * (1 - 1e-9) <= tick <= axis.high * (1 + 1e-9) for tick in ticks)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20), st.booleans(), st.booleans())
def test_the_script_can_read_the_values_back_from_the_drawing(points, log, steps):
    """What the page's script computes from the path and the scales, to the width of a line."""
    points.sort()
    line = Line("a", 0, [x for x, _ in points], [y for _, y in points])
    text = chart("t", [line], Scale("x", log=log), Scale("y", log=log), reading="{y}", steps=steps)
    (path,) = re.findall(r' d="(.*?)"', text)
    numbers = [float(number) for number in re.findall(r"[\d.-]+", path)]
    drawn = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert len(drawn) == len(points)
    axes = [fit([p[at] for p in points], *ends, log=log) for at, ends in ((0, (62, 446)), (1, (256, 26)))]
    for (x, y), (px, py) in zip(points, drawn, strict=True):
        assert (px, py) == pytest.approx((axes[0].place(x), axes[1].place(y)), abs=0.006)


def test_a_gap_breaks_a_line_and_margins_become_bars():
    line = Line("a", 9, [1.0, 2.0, 3.0], [1.0, math.nan, 2.0], [0.5, None, None])
    text = chart("t", [line], Scale("x"), Scale("y"), reading="{y}", dots=True)
    assert text.count("<path") == 2
    assert text.count('class="e c1"') == 1
    assert text.count("<circle") == 2
    assert 'stroke-dasharray="7 3"' in text, "colours repeat with another dash"
