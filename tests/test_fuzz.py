"""Damaged files are user errors of one line: scenarios, lists of engines, recordings; each run draws the same."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.core.records.trace import Trace
from poise.live.discovery.rows import parse_rows
from poise.recordings.recording import recorded
from poise.scenario.load import load
from poise.scenario.override import parse_override
from tests.recordings.days import a_day
from tests.test_user_errors import GOOD

TOKENS = (
    *("null", "-1", "1e999", ".nan", "'x'", "[]", "{}", "&a [*a]", "*z", "\t", "{a: b, a: c}", "9" * 5000, '"\\u0000"'),
    *(
        "? x",
        "!!binary aGk=",
        "!!x [a]",
        "!!x {a: b}",
        "!!pairs [a: b]",
        "!!bool x",
        "!!float x",
        "2026-99-99",
        "@",
        "|",
    ),
    *('"\\U99999999"', "<<: *a", "\ufeff", "\u2028", "[1,2", "? {a: b}", "~nobody/x", "../../etc/passwd", ">", "%"),
)
VALUES: tuple[Any, ...] = (-1, 0.5, 1e400, None, [], {}, "x", 10**30, True, "", [None], [[]], {"a": 1}, KeyError)


def refused(read: Callable[[], Any]) -> bool:
    """Whether `read` ends in a user error, of one line."""
    try:
        read()
    except UserError as error:
        assert "\n" not in str(error)
        return True
    return False


def damaged(text: str, draw: random.Random) -> str:
    """`text` with some characters gone, others put in or repeated."""
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(text))
        kind = draw.randrange(3)
        if kind == 0:
            text = text[:at] + text[at + draw.randrange(1, 12) :] or "x"
        elif kind == 1:
            text = text[:at] + draw.choice(TOKENS) + text[at:]
        else:
            text = text[:at] + text[draw.randrange(len(text)) :][:30] + text[at:]
    return text


@pytest.mark.parametrize("seed", range(5))
def test_damaged_scenarios_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    draw, file = random.Random(seed), tmp_path / "s.yaml"
    count = 0
    for _ in range(40):
        file.write_text(damaged(GOOD, draw), encoding="utf-8")
        count += refused(partial(load, file))
    assert count > 20


@pytest.mark.parametrize("token", TOKENS)
def test_hostile_values_are_read_or_refused(token: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    for key in ("model", "device", "replicas", "router", "poisson"):
        file.write_text(re.sub(f"(?m)^(.*{key}:).*$", lambda line: f"{line[1]} {token}", GOOD), encoding="utf-8")
        refused(partial(load, file))
    refused(partial(parse_override, f"a={token}"))
    refused(partial(parse_rows, f"engines: {token}\n", "e.yaml", "engines"))


def paths(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values within `tree`."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [way for key, each in items for way in ((*above, key), *paths(each, (*above, key)))]


def spoiled(line: str, draw: random.Random) -> str:
    """A JSON line with one value changed, or without it."""
    tree = json.loads(line)
    *way, last = draw.choice(paths(tree))
    inner, value = tree, draw.choice(VALUES)
    for key in way:
        inner = inner[key]
    if value is KeyError:
        inner.pop(last)
    else:
        inner[last] = value
    return json.dumps(tree)


@pytest.mark.parametrize("header", [True, False])
def test_damaged_recordings_are_read_or_refused(header: bool, tmp_path: Path) -> None:
    lines, count, draw = a_day(requests=60).trace.lines, 0, random.Random(1)
    for _ in range(150):
        at = 0 if header else draw.randrange(1, len(lines))
        (tmp_path / "r.jsonl").write_text("\n".join((*lines[:at], spoiled(lines[at], draw), *lines[at + 1 :], "")))
        count += refused(lambda: recorded(Trace.load(tmp_path / "r.jsonl")))
    assert count > 50


@pytest.mark.parametrize("value", [10**30, -(10**30)])
def test_no_number_of_a_request_is_too_large_for_its_column(value: int, tmp_path: Path) -> None:
    """Each whole number of an arrival, in turn."""
    lines = a_day(requests=60).trace.lines
    at = next(number for number, line in enumerate(lines) if line.startswith('["Arrived"'))
    fields = [way for way in paths(json.loads(lines[at])) if type(_at(json.loads(lines[at]), way)) is int]
    assert len(fields) > 10
    for *way, last in fields:
        tree = json.loads(lines[at])
        _at(tree, way)[last] = value
        (tmp_path / "r.jsonl").write_text("\n".join((*lines[:at], json.dumps(tree), *lines[at + 1 :], "")))
        refused(lambda: recorded(Trace.load(tmp_path / "r.jsonl")))


def _at(tree: Any, way: Sequence[Any]) -> Any:
    for key in way:
        tree = tree[key]
    return tree
