"""What the commands `diff` and `story` do once their options are read."""

from __future__ import annotations

import sys
from pathlib import Path

from poise.scenario.meter import Bars


def show_difference(before: Path, after: Path | None, sets: list[str], json: str | None) -> None:
    """Compare two runs; print what came of it, or write it as JSON."""
    from poise.report.difference import sentence, show_diff
    from poise.scenario.diff import compare
    from poise.scenario.write import check_writable, to_json, write_json

    if json is not None and json != "-":
        check_writable(Path(json), "--json")
    with Bars() as bars:
        one, other, diff = compare(before, after, sets, bars)
    if json == "-":
        sys.stdout.write(to_json({"a": one.name, "b": other.name, "sentence": sentence(diff), **diff.as_dict()}))
        return
    if json is not None:
        write_json({"a": one.name, "b": other.name, "sentence": sentence(diff), **diff.as_dict()}, Path(json))
    show_diff(diff, (one.name, other.name))
