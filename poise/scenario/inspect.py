"""The commands `diff` and `story` after their options are parsed."""

from __future__ import annotations

from pathlib import Path

from poise.experiment.progress import Bars


def show_difference(before: Path, after: Path | None, sets: list[str], json: str | None) -> None:
    """Compare two runs; print the result, or write it as JSON."""
    from poise.report.difference import sentence, show_diff
    from poise.scenario.diff import compare
    from poise.scenario.write import put_json

    _check(json)
    with Bars() as bars:
        one, other, diff = compare(before, after, sets, bars)
    put_json({"a": one.name, "b": other.name, "sentence": sentence(diff), **diff.as_dict()}, json)
    if json != "-":
        show_diff(diff, (one.name, other.name))


def show_story(run: Path, request: int, router: str | None, sets: list[str], json: str | None) -> None:
    """Print the life of a request, or write it as JSON."""
    from poise.report.story import show_lines
    from poise.scenario.diff import named
    from poise.scenario.story import tell
    from poise.scenario.write import put_json

    _check(json)
    with Bars() as bars:
        story = tell(run, request, router, sets, bars)
    put_json({"run": named(run, sets), **story.as_dict()}, json)
    if json != "-":
        show_lines(story, f"Request {request} of {named(run, sets)}")


def _check(json: str | None) -> None:
    """Check that the files can be written before any work is done."""
    from poise.scenario.write import check_writable

    if json is not None and json != "-":
        check_writable(Path(json), "--json")
