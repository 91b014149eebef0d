"""A session as in a notebook: each cell's last expression is shown as a notebook would show it."""

from __future__ import annotations

import ast
import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

import poise as ps
from poise.core.errors import ScenarioError, UserError

SETUP = """
import poise as ps
cluster = ps.Cluster.of("H100", count=2).replicas(2, model="poise/tiny")
policies = {"in turn": ps.Policies(router="round_robin"), "least": ps.Policies(router={"least_requests": {}})}

def traffic(seed, load):
    return ps.workload.poisson(2000 * load, requests=60, prompt_tokens=400, output_tokens=20, seed=seed)

run = ps.simulate(cluster, traffic(0, 1.0))
found = ps.compare(cluster, traffic, policies, loads=(0.5, 1, 2), seeds=2, slo=ps.Slo(ttft_s=0.01), draw=True)
"""


class Balanced(HTMLParser):
    """Fails where an element is closed that is not open."""

    VOID = frozenset({"br", "line", "circle", "path", "rect", "image"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the first cell leaves behind."""
    found: dict[str, Any] = {}
    exec(compile(SETUP, "cell", "exec", dont_inherit=True), found)
    return found


def cell(text: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression."""
    *before, last = ast.parse(text).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


SHOWN = ("run", "cluster", "traffic(0, 1.0)", "found", "run.requests", "ps.devices", "ps.models")


@pytest.mark.parametrize("text", SHOWN)
def test_what_a_cell_ends_with_is_shown_small_whole_and_without_scripts(text: str, names: dict[str, Any]) -> None:
    value = cell(text, names)
    page = value._repr_html_()
    reader = Balanced()
    reader.feed(page)
    assert reader.open == []
    assert len(page) < 100_000 and "<script" not in page and "http" not in page.replace("http://www.w3.org", "")
    assert not re.search(r"(?<![-\w])(color|background):\s*(#|black|white)", page), "the ground is the notebook's"
    if not text.startswith("ps."):
        assert len(repr(value)) < 160 and repr(value).startswith("<")


def test_a_comparison_shows_its_answer_its_table_and_its_curves(names: dict[str, Any]) -> None:
    found = names["found"]
    page = found._repr_html_()
    assert found.answer() in page and page.count("<tr") == 1 + 3 * 2 and page.count('class="chart"') == 6
    assert 'data-name="in turn"' in page and "Means over 2 seeds" in page
    selectors = re.findall(r"([^{}]+)\{", page[page.index("<style>") + 7 : page.index("</style>")])
    assert all(each.startswith(".poise ") for one in selectors for each in one.split(",") if each), "nothing leaks"


def test_frames_of_polars_and_pandas_say_the_same(names: dict[str, Any]) -> None:
    for text in ("run.requests", "found"):
        frame, other = cell(f"{text}.frame()", names), cell(f"{text}.to_pandas()", names)
        assert list(other.columns) == frame.columns and len(other) == len(frame) > 0
        column = "e2e_s" if text != "found" else "e2e_s.mean"
        assert other[column].to_list() == frame[column].to_list()
    assert len(cell("run.requests", names)) == 60
    assert len(cell("found.to_pandas(each_seed=True)", names)) == 2 * 3 * 2


def test_plots_have_axes_units_and_names_on_the_lines(names: dict[str, Any]) -> None:
    figure = cell('found.plot("ttft_s.p99", "slo_attainment")', names)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["TTFT p99", "SLO met"]
    for axes in figure.axes:
        assert axes.get_xlabel().startswith("load, as a multiple of the traffic (") and axes.get_ylabel()
        assert {"in turn", "least", "load 1"} <= {text.get_text() for text in axes.texts}
        lines = {line.get_label(): line for line in axes.lines}
        assert list(lines["least"].get_xdata()) == [0.5, 1.0, 2.0]
    values = [point.value for point in names["found"].curve("least", "ttft_s.p99")]
    drawn = {line.get_label(): line for line in figure.axes[0].lines}["least"]
    assert list(drawn.get_ydata()) == values
    figure.canvas.draw()
    ticks = [each.get_text() for each in figure.axes[0].get_yticklabels(which="both") if each.get_text()]
    assert ticks and all(text.endswith("s") for text in ticks), "of seconds with their unit"
    assert len(cell("found.plot()", names).axes) == 6 and figure._repr_png_().startswith(b"\x89PNG")
    (axes,) = cell("run.plot()", names).axes
    assert {"time to first token", "end to end"} <= {text.get_text() for text in axes.texts}
    with pytest.raises(UserError, match=r"did you mean ttft_s"):
        cell('found.plot("ttft")', names)


@pytest.mark.parametrize(("call", "module", "extra"), [
    ("found.to_pandas()", "pandas", "pandas"), ("run.requests.to_pandas()", "pandas", "pandas"),
    ("found.plot()", "matplotlib", "plot"), ("run.plot()", "matplotlib", "plot"),
])  # fmt: skip
def test_without_a_library_the_extra_is_named(
    call: str, module: str, extra: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"needs {module}, the extra '{extra}'; .*pip install .*\[{extra}\]"):
        cell(call, names)


def test_catalogues_list_count_complete_and_answer_whether_one_is_there() -> None:
    for named in (ps.models, ps.devices):
        assert len(named) == len(list(named)) > 10
        assert all(getattr(named, name) in named for name in dir(named)) and len(dir(named)) == len(set(dir(named)))
    assert "h100" in ps.devices and "H100-SXM-80GB" in ps.devices and ps.devices.H100 in ps.devices
    assert "H1000" not in ps.devices and "llama-3.1-8b" in ps.models and 7 not in ps.models
    assert "Llama_3_1_8B" in dir(ps.models)


def test_policies_go_by_the_names_of_files() -> None:
    assert "cache_aware" in ps.policies.names("router") and "priority" in ps.policies.names("queue")
    made = ps.Policies(router={"prefix_cache": {"imbalance": 3}}).router
    assert type(made).__name__ == "PrefixCache" and made.imbalance == 3
    assert type(ps.Policies(router="cache_aware").router).__name__ == "CacheAware"
    for given, expected in (
        ("cache_awre", "did you mean cache_aware"),
        ({"cache_aware": {"nope": 1}}, "unknown parameter 'nope'"),
        ({"a": {}, "b": {}}, "names no policy"),
    ):
        with pytest.raises(ScenarioError, match=expected) as error:
            ps.Policies(router=given)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="'routers' is not a slot of policies; did you mean router"):
        ps.policies.names("routers")
