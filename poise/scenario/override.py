"""`--set a.b.0.c=VALUE`: change any value of a scenario by its dotted path before it is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from poise.core.errors import ScenarioError
from poise.scenario.place import Path, Places
from poise.scenario.read import parse_value

Override = tuple[Path, Any, str]
"""A path, its value, and the option that gave it, as errors quote it."""


def parse_override(text: str) -> Override:
    """Path, value and the option as written, of one `a.b.0.c=VALUE`."""
    option = f"--set {text}"
    dotted, equals, value = text.partition("=")
    if not equals:
        raise ScenarioError(f"{option}: has no '='; write --set path.to.field=VALUE, as in --set run.seeds=5")
    parts = dotted.strip().split(".")
    if not all(parts):
        raise ScenarioError(f"{option}: the path {dotted!r} has an empty part; write it as in cluster.pools.0.replicas")
    path = tuple(int(part) if part.isdecimal() else part for part in parts)
    return path, parse_value(value, option), option


def of_trace(skip_bad: bool, columns: str | None) -> Iterator[Override]:
    """The fields that `--skip-bad` and `--columns` stand for."""
    if skip_bad:
        yield ("workload", "skip_bad"), True, "--skip-bad"
    if columns is not None:
        from poise.workload.readers.named import parse_columns

        yield ("workload", "columns"), parse_columns(columns), "--columns"


def apply_override(data: dict[str, Any], places: Places, path: Path, value: Any, option: str) -> None:
    """Put `value` at `path` of `data`, making optional mappings on the way, and note `option` as its place."""
    here: Any = data
    for depth, key in enumerate(path[:-1]):
        here = _step(here, path, depth, key, option)
    if isinstance(here, list):
        _index(here, path, len(path) - 1, option)
    elif not isinstance(here, dict):
        raise _leaf(here, path, len(path) - 1, option)
    key = path[-1] if isinstance(here, list) else str(path[-1])
    here[key] = value
    for known in [each for each in (*places.lines, *places.overrides) if each[: len(path)] == path]:
        places.lines.pop(known, None)
        places.overrides.pop(known, None)
    places.overrides[path] = option


def _step(here: Any, path: Path, depth: int, key: str | int, option: str) -> Any:
    """The value at `key`; a mapping is made where there is none yet."""
    if isinstance(here, list):
        return here[_index(here, path, depth, option)]
    if not isinstance(here, dict):
        raise _leaf(here, path, depth, option)
    if here.get(str(key)) is None:
        here[str(key)] = {}
    return here[str(key)]


def _index(here: Sequence[Any], path: Path, depth: int, option: str) -> int:
    """The list index at `depth` of `path`."""
    key, above = path[depth], _dotted(path[:depth])
    if not isinstance(key, int):
        raise ScenarioError(f"{option}: {above} is a list; {key!r} must be an index; give {_choices(here)}")
    if key >= len(here):
        raise ScenarioError(f"{option}: {above} has no item {key}; give {_choices(here)}")
    return key


def _choices(here: Sequence[Any]) -> str:
    return f"a number from 0 to {len(here) - 1}" if len(here) > 1 else "0, its only item"


def _leaf(here: Any, path: Path, depth: int, option: str) -> ScenarioError:
    above = _dotted(path[:depth])
    return ScenarioError(
        f"{option}: {above} is {here!r}, which has no parts; set {above} as a whole, as in {above}={{…}}"
    )


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
