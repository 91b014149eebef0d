"""Reads and checks a gateway file with the command line's overrides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.scenario.explain import checked
from poise.scenario.override import Override, apply_override, parse_override
from poise.scenario.place import Path as DataPath
from poise.scenario.place import Places, at_home
from poise.scenario.read import Kind, read_yaml
from poise.scenario.serve.schema import Gateway

KIND = Kind("a gateway file (docs/serve.md has some)", "at least its engines", "engines: [http://10.0.0.1:8000]")


@dataclass(frozen=True, slots=True)
class LoadedGateway:
    """A checked gateway file. places: the lines of its values.  folder: that of the file."""

    gateway: Gateway
    places: Places
    folder: Path

    def file(self, text: str, path: DataPath) -> Path:
        """The file named by the value at `path`: in the gateway file's folder, or where the command line stands."""
        return self.places.file(text, path, self.folder)


def load_gateway(file: Path | None, sets: Iterable[str] = (), more: Iterable[Override] = ()) -> LoadedGateway:
    """Read a gateway file (None: nothing but defaults), change it by options, and check it.

    Raises ScenarioError, one line with file (or option), line, field, value, rule and cure.
    """
    if file is None:
        data: dict[str, Any] = {}
        places, folder = Places("the command line"), Path()
    else:
        data, places = read_yaml(at_home(file), str(file), KIND)
        folder = at_home(file).parent
    for option in (*map(parse_override, sets), *more):
        apply_override(data, places, *option)
    return LoadedGateway(checked(Gateway, data, places), places, folder)
