"""The line of each value of a scenario, for errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from poise.core.errors import ScenarioError

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a scenario to a value."""


def at_home(file: FilePath, where: str = "") -> FilePath:
    """`file` with its `~` as a home folder; ScenarioError, beginning with `where`, where no such user has one."""
    try:
        return file.expanduser()
    except RuntimeError:
        where = f"{where}: " if where else ""
        raise ScenarioError(f"{where}{file}: no user of that name has a home folder; write the path in full") from None


@dataclass(slots=True)
class Places:
    """The lines of a file and the command line's overrides, by path. name: the file as the user wrote it."""

    name: str
    lines: dict[Path, int] = field(default_factory=dict)
    overrides: dict[Path, str] = field(default_factory=dict)

    def of(self, path: Sequence[str | int]) -> str:
        """`FILE:LINE` or the override that set the value at `path`, or of the nearest value above it."""
        wanted = tuple(path)
        for length in range(len(wanted), -1, -1):
            above = wanted[:length]
            if above in self.overrides:
                return self.overrides[above]
            if above in self.lines and length:
                return f"{self.name}:{self.lines[above]}"
            for changed, option in self.overrides.items():
                if length and changed[:length] == above:
                    return option  # the override made what stands here
        return self.name

    def error(self, path: Sequence[str | int], message: str) -> ScenarioError:
        """The error `PLACE: PATH: message`."""
        where = ".".join(map(str, path))
        return ScenarioError(f"{self.of(path)}: {where}: {message}" if where else f"{self.of(path)}: {message}")

    def file(self, text: str, path: Path, folder: FilePath) -> FilePath:
        """The file named by the value at `path`: in `folder`, or in the working folder where an option gave it.

        It may begin with a variable of the environment, as in $POISE_DATA/trace.csv; ScenarioError where that is unset.
        """
        if text.startswith("$"):
            name, _, rest = text[1:].partition("/")
            if not os.environ.get(name):
                raise self.error(path, f"{text}: the variable {name} is not set; set it to the folder, or give a path")
            text = f"{os.environ[name]}/{rest}"
        given = at_home(FilePath(text), self.of(path))
        return given if any(path[: len(each)] == each for each in self.overrides) else folder / given

    def line(self, path: Sequence[str | int]) -> int:
        """The line of `path` or of the nearest value above it; 0 where an override made it or there is none."""
        wanted = tuple(path)
        for length in range(len(wanted), 0, -1):
            if wanted[:length] in self.overrides:
                return 0
            if wanted[:length] in self.lines:
                return self.lines[wanted[:length]]
        return 0
