"""What the pages say is true: code runs, commands parse, scenarios are valid, links lead on, outputs are real."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from poise.claims import find
from poise.core.records.blame import MEANING
from tests import doc_fields, doc_slots

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
OUTPUT = re.compile(r"<!-- output of (\S+) -->\s*$")


class Block(NamedTuple):
    """A fenced block: its page and line, its language, its text, and the line of prose above it."""

    page: Path
    line: int
    language: str
    text: str
    above: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    language, start, above = "", 0, ""
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            if start:
                yield Block(page, start, language, "\n".join(lines) + "\n", above)
                start = 0
            else:
                language, start, lines = line[3:].strip(), number, []
        elif start:
            lines.append(line)
        elif line.strip():
            above = line
    assert not start, f"{page.name}:{start}: the block is not closed"


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top to bottom in one namespace, the tests in them too."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "documented"}
    for block in blocks(page):
        if block.language == "python":
            source = "\n" * block.line + block.text  # so that tracebacks show the line of the page
            exec(compile(source, str(page), "exec", dont_inherit=True), names)
    for name in [name for name in names if name.startswith("test_")]:
        names[name]()


LONG = ("autoscaling", "find_collapse", "stale_belief", "whatif", "bench/fairness.py")
"""Whose output takes seconds to make."""


def marked(what: Any, name: str) -> Any:
    """A parameter, slow if its output is."""
    return pytest.param(what, marks=pytest.mark.slow if name in LONG else ())


@pytest.mark.parametrize("example", [marked(each, each.stem) for each in EXAMPLES], ids=lambda path: path.stem)
def test_examples_print_their_output(
    example: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "POISE_DATA" in example.read_text(encoding="utf-8"):
        monkeypatch.setenv("POISE_DATA", str(request.getfixturevalue("data_dir")))
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out == example.with_suffix(".out").read_text(encoding="utf-8")


def test_every_output_has_its_example() -> None:
    assert EXAMPLES
    assert {path.stem for path in (ROOT / "examples").glob("*.out")} == {path.stem for path in EXAMPLES}


QUOTED = [
    pytest.param(block, match[1], marks=pytest.mark.slow if match[1] in LONG else ())
    for block in of("text")
    if (match := OUTPUT.search(block.above))
]


@pytest.mark.parametrize(("block", "source"), QUOTED, ids=str)
def test_quoted_outputs(
    block: Block,
    source: str,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page quotes what an example or a bench prints, to the letter."""
    if source.startswith("examples/"):
        assert block.text == (ROOT / source).with_suffix(".out").read_text(encoding="utf-8")
        return
    monkeypatch.setenv("POISE_DATA", str(request.getfixturevalue("data_dir")))
    runpy.run_path(str(ROOT / source), run_name="__main__")
    assert block.text == capsys.readouterr().out


def commands() -> Iterator[tuple[str, str]]:
    """(place, command) of every line of a console block that begins with `$`."""
    for block in of("console"):
        for line in block.text.splitlines():
            if line.startswith("$ "):
                yield str(block), line[2:]


@pytest.mark.parametrize(("place", "line"), [*commands()], ids=str)
def test_commands(place: str, line: str) -> None:
    """`poise` commands parse, `make` targets and scripts exist; other programs are not shown."""
    words = shlex.split(line, comments=True)
    while "=" in words[0]:  # a variable set for this command
        words = words[1:]
    if words[0] == "poise":
        parse(words[1:])
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert [word for word in words[1:] if "=" not in word and word not in targets] == []
    elif words[0] == "python":
        script = words[1] if words[1] != "-m" else words[2].replace(".", "/") + ".py"
        assert (ROOT / script).is_file()
    elif words[:2] == ["pip", "install"]:
        extras = metadata.metadata("poise").get_all("Provides-Extra") or ()
        assert set(words[2:]) <= {".", *(f".[{extra}]" for extra in extras)}
    else:
        assert words[0] in ("git", "cd"), f"{place}: {line}"


def inline() -> list[str]:
    """Every `poise …` in the prose of a page."""
    texts = [re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL) for page in PAGES]
    return sorted({found for text in texts for found in re.findall(r"`poise ([^`]+)`", text)})


@pytest.mark.parametrize("expected", inline())
def test_commands_in_prose(expected: str) -> None:
    """A command's name alone must exist; with more words it must parse."""
    words = shlex.split(expected.replace(" …", ""))
    if words[0].startswith("--"):
        assert words in [[option] for each in command_line().params for option in each.opts]
    elif len(words) == 1:
        assert words[0] in command_line().commands
    else:
        parse(words)


@cache
def command_line() -> Any:
    """The commands of `poise`."""
    import typer

    from poise.cli import app

    return typer.main.get_command(app)


@pytest.mark.parametrize("name", [name for name in find.names() if find.claim(name).use])
def test_commands_of_systems(name: str) -> None:
    for line in find.claim(name).use:
        program, *words = shlex.split(line)
        assert program == "poise"
        parse(words)


def parse(words: list[str]) -> None:
    """Raise when the command line would not take these words."""
    command = command_line()
    with command.make_context("poise", list(words)) as outer:
        name, inner, rest = command.resolve_command(outer, [*outer._protected_args, *outer.args])
        with inner.make_context(name, rest, parent=outer):
            return


GATEWAYS = [block for block in of("yaml") if block.above == "<!-- gateway file -->"]
KEYS = [block for block in of("yaml") if block.above == "<!-- keys -->"]
CHARTS = [block for block in of("yaml") if block.above == "<!-- values of the chart -->"]


@pytest.mark.parametrize("block", GATEWAYS, ids=str)
def test_gateway_files_are_valid(block: Block, tmp_path: Path) -> None:
    from poise.scenario.serve.load import load_gateway

    path = tmp_path / "gateway.yaml"
    path.write_text(block.text, encoding="utf-8")
    load_gateway(path)


@pytest.mark.parametrize("block", KEYS, ids=str)
def test_key_files_are_valid(block: Block) -> None:
    from poise.live.requests.tenants import parse as parse_keys

    assert parse_keys(block.text, "keys.yaml")


@pytest.mark.parametrize("block", CHARTS, ids=str)
def test_values_of_the_chart_are_valid(block: Block) -> None:
    from ruamel.yaml import YAML

    from poise.scenario.serve.schema import Gateway
    from tools.chart_schema import schema

    values = YAML(typ="safe").load(block.text)
    assert values.keys() <= schema()["properties"].keys()
    Gateway.model_validate(values["gateway"])


@pytest.mark.parametrize("block", [block for block in of("yaml") if block not in GATEWAYS + KEYS + CHARTS], ids=str)
def test_scenarios_are_valid(block: Block, tmp_path: Path) -> None:
    """A block is a whole scenario, or sections of one."""
    from poise.scenario.load import load
    from poise.scenario.step.read import is_step
    from poise.scenario.step.read import read as read_step

    rest = ""
    if "cluster:" not in block.text:
        rest += "cluster: {pools: [{device: H100, model: llama-3.1-8b}]}\n"
    if "workload:" not in block.text:
        rest += "workload: {poisson: {rate: 1, requests: 1}}\n"
    path = tmp_path / "scenario.yaml"
    if "kind: step" in block.text:
        path.write_text(block.text, encoding="utf-8")
        assert is_step(path) and read_step(path).experiment.places()
        return
    path.write_text(block.text + rest, encoding="utf-8")
    load(path)


def links() -> Iterator[tuple[str, str]]:
    """(page, target) of every link that is not to another site, in pages without their blocks."""
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if not re.match(r"https?:|mailto:", target):
                yield str(page.relative_to(ROOT)), target


@pytest.mark.parametrize(("page", "target"), [*links()])
def test_links_lead_somewhere(page: str, target: str) -> None:
    name, _, anchor = target.partition("#")
    path = (ROOT / page).parent / name if name else ROOT / page
    assert path.exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("root", doc_fields.PLACES, ids=lambda root: root.__name__)
def test_field_tables_are_those_of_the_schemas(root: Any) -> None:
    assert doc_fields.PLACES[root].read() == doc_fields.table(root), "run `python -m tests.doc_fields`"


def test_tables_of_slots_are_those_of_the_table() -> None:
    assert doc_slots.SLOTS_AT.read() == doc_slots.slots(), "run `python -m tests.doc_slots`"
    assert doc_slots.HOOKS_AT.read() == doc_slots.hooks(), "run `python -m tests.doc_slots`"


def test_parts_of_blame_are_listed_with_their_meaning() -> None:
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert "".join(f"| `{part}` | {meaning} |\n" for part, meaning in MEANING.items()) in page


def test_readme_is_short_and_shows_a_figure_early() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert re.search(r"\d+(\.\d+)? ?%", "\n".join(lines[:15]))


def test_readme_states_the_errors_that_validation_quotes() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    found = re.search(r"median absolute error ([\d.]+)% over (\d+) runs", page)
    assert found
    assert f"In {found[2]} comparisons with measured step times the roofline is off by {found[1]} %" in readme
    ratios = sorted(float(ratio) for ratio in re.findall(r"E2E .*\(([\d.]+)\)", page))
    assert len(ratios) == 3
    assert f"at {ratios[0]:.2f} to {ratios[-1]:.2f} times their measured end-to-end time" in readme


def test_getting_started_shows_the_scenario_that_its_commands_run() -> None:
    """The block under the file's name is the file, less its comments."""
    shown = re.search(
        r"`(examples/\S+\.yaml)`:\n\n```yaml\n(.*?)```",
        (ROOT / "docs" / "getting-started.md").read_text("utf-8"),
        re.DOTALL,
    )
    assert shown is not None
    lines = (ROOT / shown[1]).read_text(encoding="utf-8").splitlines(keepends=True)
    assert shown[2] == "".join(line for line in lines if not line.startswith("#"))


def test_readme_opens_with_what_its_example_prints() -> None:
    opening = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split("<!--")[0].split())
    load = re.search(r"at (\d+) req/s", opening)
    assert load
    heads, *rows = (ROOT / "examples" / "compare_routers.out").read_text(encoding="utf-8").splitlines()[1:]
    place = re.findall(r"\d+", heads).index(load[1])
    shares = {row.split()[0]: float(re.findall(r"([\d.]+)% \(", row)[place]) for row in rows}
    assert (
        f"for {shares['PrefixCache']:.0f} % of requests, where round robin keeps it for {shares['RoundRobin']:.0f} %"
        in opening
    )
