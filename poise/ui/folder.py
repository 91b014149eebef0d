"""The folder of `poise ui`: traces in `traces/`, a folder for each run in `runs/`. No name leads out of it."""

from __future__ import annotations

import re
from pathlib import Path

from poise.core.errors import UserError
from poise.workload.readers.file import ENDINGS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""What a trace or a run may be called."""

PAGES = ("report.html", "plan.html")
"""The reports of runs."""


class Folder:
    """The traces and runs below `root`, which is made where it is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.traces = self.root / "traces"
        self.runs = self.root / "runs"
        for each in (self.traces, self.runs):
            try:
                each.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"{each}: cannot be made ({error.strerror}); give a folder that you may write to"
                ) from None

    def trace_names(self) -> list[str]:
        """The traces that there are."""
        return sorted(each.name for each in _files(self.traces) if each.name.lower().endswith(ENDINGS))

    def trace(self, name: str) -> Path:
        """The path of a trace; UserError where there is none."""
        if name not in self.trace_names():
            raise UserError(f"trace {name!r}: there is none of that name in {self.traces}; drop the file again")
        return self.traces / name

    def new_trace(self, name: str) -> Path:
        """A free path for a trace that its user calls `name`; UserError for a file that is none by its ending."""
        safe = clean(name)
        ending = next((each for each in sorted(ENDINGS, key=len, reverse=True) if safe.lower().endswith(each)), None)
        if ending is None:
            raise UserError(f"{safe}: is no trace by its ending; give one of {', '.join(ENDINGS)}")
        stem = clean(safe[: -len(ending)])
        return _free(self.traces, stem[: 70 - len(ending)], safe[-len(ending) :])

    def run(self, name: str) -> Path:
        """The folder of a run; UserError where there is none."""
        path = self.runs / name
        if not NAME.fullmatch(name) or path.is_symlink() or not path.is_dir():
            raise UserError(f"run {name!r}: there is none of that name in {self.runs}")
        return path

    def run_names(self) -> list[str]:
        """The runs that there are."""
        return sorted(each.name for each in self.runs.iterdir() if NAME.fullmatch(each.name) and each.is_dir())

    def new_run(self, name: str) -> str:
        """A free name for a run that its user calls `name`."""
        return _free(self.runs, clean(name)[:60], "").name

    def files(self, name: str) -> list[str]:
        """The files of a run, its report first."""
        found = sorted(each.name for each in _files(self.run(name)) if NAME.fullmatch(each.name))
        return sorted(found, key=lambda each: each not in PAGES)

    def file(self, name: str, file: str) -> Path:
        """The path of a file of a run; UserError where there is none."""
        if file not in self.files(name):
            raise UserError(f"run {name!r} has no file {file!r}")
        return self.run(name) / file


def clean(name: str) -> str:
    """A name of a file, without folders and with plain characters only, as in `my trace.csv` -> `my_trace.csv`."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip("._-")[-80:].lstrip("._-") or "unnamed"


def _files(folder: Path) -> list[Path]:
    """Regular files directly in a folder; links are none, for they may lead out of it."""
    return [each for each in folder.iterdir() if each.is_file() and not each.is_symlink()]


def _free(folder: Path, stem: str, ending: str) -> Path:
    """`stem` with `ending`, or with the first number behind that is not taken."""
    path, number = folder / f"{stem}{ending}", 2
    while path.exists() or path.is_symlink():
        path, number = folder / f"{stem}-{number}{ending}", number + 1
    return path
