"""What the commands `diff` and `story` do once their options are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from poise.scenario.meter import Bars


def show_difference(before: Path, after: Path | None, sets: list[str], json: str | None) -> None:
    """Compare two runs; print what came of it, or write it as JSON."""
    from poise.report.difference import sentence, show_diff
    from poise.scenario.diff import compare

    _check(json)
    with Bars() as bars:
        one, other, diff = compare(before, after, sets, bars)
    _write({"a": one.name, "b": other.name, "sentence": sentence(diff), **diff.as_dict()}, json)
    if json != "-":
        show_diff(diff, (one.name, other.name))


def show_story(run: Path, request: int, router: str | None, sets: list[str], json: str | None) -> None:
    """Tell the life of a request; print it, or write it as JSON."""
    from poise.report.story import show_lines
    from poise.scenario.diff import named
    from poise.scenario.story import tell

    _check(json)
    with Bars() as bars:
        story = tell(run, request, router, sets, bars)
    _write({"run": named(run, sets), **story.as_dict()}, json)
    if json != "-":
        show_lines(story, f"Request {request} of {named(run, sets)}")


def _check(json: str | None) -> None:
    """Find out what cannot be written before any work is done."""
    from poise.scenario.write import check_writable

    if json is not None and json != "-":
        check_writable(Path(json), "--json")


def _write(told: dict[str, Any], json: str | None) -> None:
    """Write JSON to where it was asked for, if anywhere."""
    from poise.scenario.write import to_json, write_json

    if json == "-":
        sys.stdout.write(to_json(told))
    elif json is not None:
        write_json(told, Path(json))
