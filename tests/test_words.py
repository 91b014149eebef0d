"""Words that hide the subject stay out of pages, help texts, the newest changes, docstrings and comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

WORDS = re.compile(
    r"\b(told|befell|befalls?|foretell|foretells|foretelling|foretold|nobody|somebody|whom|comes? to|came to)\b"
    r"|(?<!there )\bis no (?!longer\b|more\b|less\b|better\b|worse\b|\w+er than\b)[a-z]+",
    re.IGNORECASE,
)
"""`is no X` stands for "is not a valid X"; "there is no X" and comparisons are plain."""

ELSEWHERE = ("systems.md", "claims.md")
"""Pages that are made from the claims."""

ROOMS = (
    "catalogue", "cli", "core", "cost", "experiment", "live", "pipeline", "plan", "policies", "recordings", "report",
    "runtime", "scenario", "sim", "testing", "validation", "workload",
)  # fmt: skip
"""Packages whose docstrings and comments are held to the list."""

PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE)]


def prose(text: str) -> str:
    """The text without its blocks and code, in one line."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"`[^`]*`", "`…`", text).split())


def found(text: str) -> list[str]:
    """Each word of the list with what surrounds it."""
    return [text[max(0, match.start() - 40) : match.end() + 20] for match in WORDS.finditer(text)]


def notes(source: str) -> Iterator[str]:
    """Each line of the docstrings and each comment, without code and without the names of parameters."""
    texts = [
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in node.value.value.splitlines()
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
    for text in texts:
        yield re.sub(r"`[^`]*`|\b\w+:(?=\s)", "…", text)


def helps() -> Iterator[tuple[str, str]]:
    """(command, text) of each help text of the command line."""
    import typer

    from poise.cli import app

    def walk(command: Any, path: str) -> Iterator[tuple[str, str]]:
        texts = (command.help, command.epilog, *(getattr(each, "help", None) for each in command.params))
        yield path, " ".join(text for text in texts if text)
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")

    yield from walk(typer.main.get_command(app), "poise")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page: Path) -> None:
    assert found(prose(page.read_text(encoding="utf-8"))) == []


def test_help_is_plain() -> None:
    assert [(path, each) for path, text in helps() for each in found(text)] == []
    assert "poise train schedule" in dict(helps())


def test_newest_changes_are_plain() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert found(prose(re.split(r"^## ", text, flags=re.MULTILINE)[1])) == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_are_plain(room: str) -> None:
    files = sorted((ROOT / "poise" / room).rglob("*.py"))
    assert files
    wrong = [
        (str(file.relative_to(ROOT)), each)
        for file in files
        for text in notes(file.read_text(encoding="utf-8"))
        for each in found(text)
    ]
    assert wrong == []


NAMES = {"told", "untold", "foretold", "asked", "said", "befell", "befalls", "nobody", "somebody", "whom"}
"""Words that name no data: what it holds has a term of its own, as in reported, requested, message, line."""


OLD = {
    "poise/claims/record.py": {"told"},
    "poise/experiment/parts.py": {"asked"},
    "tests/claims/test_command.py": {"told"},
    "tests/scenario/compare/test_command.py": {"asked"},
}
"""Keys of files that earlier versions wrote, by the module that still reads them and its test."""


def names(source: str) -> Iterator[str]:
    """Each name that Python source binds or reads, and each string that is one word, such as a key."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield name
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield name


def hidden(source: str) -> set[str]:
    """The names of `source` in which a word of `NAMES` is a part, as in `_told` and `AskedFor`."""
    return {name for name in names(source) if NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))}


@pytest.mark.parametrize("folder", ["bench", "poise", "tests", "tools"])
def test_names_are_plain(folder: str) -> None:
    files = (file for file in sorted((ROOT / folder).rglob("*.py")) if file != Path(__file__))
    wrong = {
        str(file.relative_to(ROOT)): hits - OLD.get(str(file.relative_to(ROOT)), set())
        for file in files
        if (hits := hidden(file.read_text(encoding="utf-8")))
    }
    assert {file: left for file, left in wrong.items() if left} == {}


def test_a_name_is_found_in_every_part_of_the_source() -> None:
    source = """
def told(asked_at, *, said): ...
class AskedFor: _told = befell.untold
f(nobody=1)
from x import y as whom
key = {"said": 1}
plain = {"what was said": basket}
"""
    assert hidden(source) == {"told", "asked_at", "said", "AskedFor", "_told", "befell", "untold", "nobody", "whom"}


def test_docstrings_and_comments_are_read() -> None:
    source = '"""It is told so."""\n\nx = 1  # nobody\n"""told: a callback; `told` is fine."""\ny = "whom"\n'
    assert [each for text in notes(source) for each in found(text)] == ["It is told so.", "# nobody"]


@pytest.mark.parametrize(
    "text", ["It is told so.", "what befell them", "bytes that is no HTTP", "Whom it serves", "comes to 3"]
)
def test_a_word_of_the_list_is_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text", ["There is no clock.", "It is no longer so.", "It is no slower than before.", "untold"]
)
def test_plain_sentences_pass(text: str) -> None:
    assert not found(text)
