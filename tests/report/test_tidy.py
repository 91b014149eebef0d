"""figures.csv, figures.parquet and figures/*.svg say and draw what the page does."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest

from poise.report.chart import Line, Scale, chart
from poise.report.figures import ATTAINMENT, COST, GOODPUT, REQUESTS, TTFT, Case
from poise.report.notebook import COLOURS
from poise.report.pieces import fold, section
from poise.report.svg import drawings, light, write_drawings
from poise.report.tidy import frame, rows, unit, write_figures

RESULT = {
    "requests": 10,
    "ttft_s": {"p99": 0.5},
    "slo_attainment": 0.9,
    "interval": {"ttft_s": {"p99": 0.1}},
    "per_seed": [{"seed": 3, "requests": 10, "ttft_s": {"p99": 0.4}}, {"seed": 4, "ttft_s": {"p99": 0.6}}],
}


def drawn(title: str, *names: str) -> str:
    lines = [Line(name, number, [0.0, 1.0], [1.0, number + 2.0]) for number, name in enumerate(names)]
    return chart(title, lines, Scale("load"), Scale("seconds"), reading="{y} at {x}", dots=True)


PAGE = section("Over load", drawn("TTFT <p99>", "a & b", "other"), anchor="over-load") + section(
    "Latency",
    fold("Load 1", drawn("E2E", "a & b", "other")),
    fold("Load 2", drawn("E2E", "a & b")),
    drawn("Nothing"),
    anchor="latency",
)


def test_every_value_has_its_row_with_its_unit_and_its_interval() -> None:
    found = frame(rows([Case("A", RESULT, 2.0, 40.0)]))
    assert found.columns == ["case", "load", "rate", "seed", "metric", "unit", "value", "low", "high"]
    ttft = found.filter(pl.col("metric") == "ttft_s.p99")
    assert ttft.rows() == [
        ("A", 2.0, 40.0, None, "ttft_s.p99", "s", 0.5, 0.4, 0.6),
        ("A", 2.0, 40.0, 3, "ttft_s.p99", "s", 0.4, None, None),
        ("A", 2.0, 40.0, 4, "ttft_s.p99", "s", 0.6, None, None),
    ]
    assert len(found) == 3 + 2 + 1
    assert [unit(each) for each in (TTFT[4], ATTAINMENT, COST, GOODPUT, REQUESTS)] == [
        "s",
        "1",
        "USD/Mtok",
        "req/s",
        "",
    ]


def test_drawings_have_names_legends_and_colours_of_their_own(tmp_path: Path) -> None:
    found = drawings(PAGE)
    assert list(found) == ["over-load-ttft-p99", "latency-load-1-e2e", "latency-load-2-e2e"]
    for text in found.values():
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and "var(" not in text and "prefers-" not in text
        used = {name for names in re.findall(r'class="([^"]*)"', text) for name in names.split()}
        assert light()["c0"] in text and {name for name in used if re.fullmatch(r"c\d", name)} <= {"c0", "c1"}
    legend = [each.text for each in ET.fromstring(found["over-load-ttft-p99"]).iter("{http://www.w3.org/2000/svg}text")]
    assert legend[-2:] == ["a & b", "other"], "one line needs no legend, two do"
    assert "<title>TTFT &lt;p99&gt;</title>" in found["over-load-ttft-p99"]
    for text, name in zip(found.values(), found, strict=True):
        path = re.search(r'<path class="l c0" d="([^"]*)"', text)
        assert path is not None and path[0] in PAGE, name


def test_files_replace_those_of_an_earlier_page(tmp_path: Path) -> None:
    files = write_figures(rows([Case("A", RESULT)]), PAGE, tmp_path)
    assert {file.relative_to(tmp_path).as_posix() for file in files} == {
        "figures.csv", "figures.parquet", "figures/over-load-ttft-p99.svg", "figures/latency-load-1-e2e.svg",
        "figures/latency-load-2-e2e.svg",
    }  # fmt: skip
    text, packed = pl.read_csv(files[0]), pl.read_parquet(files[1])
    assert text.columns == packed.columns and text["value"].to_list() == packed["value"].to_list()
    (left,) = write_drawings(section("S", drawn("T", "a"), anchor="s"), tmp_path)
    assert list((tmp_path / "figures").iterdir()) == [left]


@pytest.mark.parametrize("name", [f"c{number}" for number in range(8)])
def test_colours_of_a_notebook_stand_out_from_white_and_from_black(name: str) -> None:
    """3 to 1 is what WCAG asks of graphics."""
    parts = [int(COLOURS[name][at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert 1.05 / (luminance + 0.05) >= 3 and (luminance + 0.05) / 0.0556 >= 3
