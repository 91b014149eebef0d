"""Progress with the time that is left: a bar on a terminal after a second, elsewhere on request a line now and then.

Another program gets lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from poise.report.wording import waiting

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Meter = Callable[[str, int, int], None]
"""Callback, called now and then with what is running, how much of it is done and how much there is."""

PATIENCE_S = 1.0
"""Seconds before a bar is drawn."""

LINE_S = 15.0
"""Seconds between lines of progress."""

VARIABLE = "POISE_PROGRESS"
"""The environment variable that, set to `json`, has progress written to standard error as lines of JSON."""

EVERY_S = 0.1
"""Seconds between two such lines about one label."""


def for_programs() -> bool:
    """Whether another program reads the progress: lines as `{"progress": "simulations", "done": 3, "total": 16}`."""
    return os.environ.get(VARIABLE) == "json"


def silent(label: str, done: int, total: int) -> None:
    """No progress."""


class Bars:
    """One bar for each label that is reported; a context manager.

    lines: where `file` is not a terminal, print a line every `LINE_S` seconds; without it nothing is drawn there.
    Where another program reads the progress, lines of JSON take the place of both.
    """

    def __init__(
        self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic, *, lines: bool = False
    ) -> None:
        self._file = file or sys.stderr
        self._clock = clock
        self._lines = lines
        self._begins: dict[str, float] = {}
        self._shown = self._file.isatty()
        self._since = self._printed = clock()
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._json = for_programs()
        self._written: dict[str, float] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, label: str, done: int, total: int) -> None:
        """`done` of `total` under `label`."""
        if self._json:
            self._object(label, done, total)
            return
        if self._lines and not self._shown:
            self._line(label, done, total)
        if not self._shown or self._clock() - self._since < PATIENCE_S:
            return
        if self._progress is None:
            self._progress = self._begun()
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(label, total=total)
        self._progress.update(self._tasks[label], completed=done, total=total)

    def _line(self, label: str, done: int, total: int) -> None:
        """A line of progress, if the last one is long ago."""
        now = self._clock()
        since = self._begins.setdefault(label, self._since if not self._begins else now)
        if now - self._printed < LINE_S:
            return
        self._printed = now
        left = f", about {waiting((now - since) / done * (total - done))} left" if 0 < done < total else ""
        print(f"{label}: {done:,} of {total:,}{left}", file=self._file, flush=True)

    def _object(self, label: str, done: int, total: int) -> None:
        """A line of JSON, if the last one about this label is long ago or this is the last."""
        now = self._clock()
        if done == total or now - self._written.get(label, -EVERY_S) >= EVERY_S:
            self._written[label] = now
            print(json.dumps({"progress": label, "done": done, "total": total}), file=self._file, flush=True)

    def _begun(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(file=self._file), transient=True)
        progress.start()
        return progress
