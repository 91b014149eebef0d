"""Words that hide the subject or read like a fable stay out of the pages, the help texts and the newest changes."""

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

FABLES = re.compile(
    r"\b(told|befell|befalls?|foretell|foretells|foretelling|foretold|nobody|somebody|whom|comes? to|came to"
    r"|whoever|everybody|anybody|whence|whither|tells?|telling|heard)\b",
    re.IGNORECASE,
)
"""Words that comments and docstrings of the rooms below do not use; `is no X` is a rule for pages alone."""

ROOMS = ("policies", "workload", "catalogue", "cost", "pipeline", "runtime")
"""Rooms of the package whose comments and docstrings are plain."""

ELSEWHERE = ("systems.md", "claims.md")
"""Pages that are made from the claims."""

PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE)]


def prose(text: str) -> str:
    """The text without its blocks and code, in one line."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"`[^`]*`", "`…`", text).split())


def found(text: str) -> list[str]:
    """Each word of the list with what surrounds it."""
    return [text[max(0, match.start() - 40) : match.end() + 20] for match in WORDS.finditer(text)]


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


def words(code: str) -> Iterator[str]:
    """The docstrings and comments of a module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield prose(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield prose(token.string)


@pytest.mark.parametrize("room", ROOMS)
def test_comments_and_docstrings_are_plain(room: str) -> None:
    pages = sorted((ROOT / "poise" / room).rglob("*.py"))
    hits = ((page, FABLES.search(text)) for page in pages for text in words(page.read_text(encoding="utf-8")))
    assert pages
    assert [(str(page.relative_to(ROOT)), match[0]) for page, match in hits if match] == []


def test_words_of_code_are_found() -> None:
    code = '"""Nobody."""\n\nnobody = 1  # for whom\n'
    assert [FABLES.search(text) is not None for text in words(code)] == [True, True]


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
