"""Reads and checks a scenario file with overrides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.scenario.override import Override, apply_override, parse_override
from poise.scenario.place import Path as DataPath
from poise.scenario.place import Places, at_home
from poise.scenario.read import read_yaml
from poise.scenario.schema import Scenario


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked scenario. places: the lines of its values.  folder: that of the file."""

    scenario: Scenario
    places: Places
    folder: Path

    def file(self, text: str, path: DataPath) -> Path:
        """The file that `text`, the value at `path`, names.

        A relative path starts at the scenario's folder, or at the working folder where the command line gave it.
        """
        return self.places.file(text, path, self.folder)

    @property
    def name(self) -> str:
        """The file's name without ending, for titles."""
        return Path(self.places.name).stem


def load(path: str | Path, overrides: Sequence[str] = (), more: Sequence[Override] = ()) -> Loaded:
    """Read the scenario in `path`, change it by `overrides` (`a.b.0.c=VALUE`) and then by `more`, and check it.

    Raises ScenarioError, one line with file (or option), line, field, value, rule and cure.
    """
    from poise.scenario.checks import check

    file = at_home(Path(path))
    data, places = read_yaml(file, str(path))
    if (kind := data.pop("kind", "serving")) != "serving":
        raise places.error(("kind",), f"{kind!r} is not known here; give serving, or step (in a line of its own)")
    for option in (*map(parse_override, overrides), *more):
        apply_override(data, places, *option)
    scenario = validated(data, places)
    check(scenario, places)
    return Loaded(scenario, places, file.parent)


def validated(data: dict[str, Any], places: Places) -> Scenario:
    """Plain data as a scenario; ScenarioError for the first mistake."""
    from poise.scenario.explain import checked

    return checked(Scenario, data, places)
