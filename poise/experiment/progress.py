"""A progress bar on the terminal, for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Meter = Callable[[str, int, int], None]
"""Callback, called now and then with what is running, how much of it is done and how much there is."""

PATIENCE_S = 1.0
"""Seconds before a bar is drawn."""


def silent(label: str, done: int, total: int) -> None:
    """No progress."""


class Bars:
    """One bar for each label that is reported; a context manager. Draws nothing when `file` is not a terminal."""

    def __init__(self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file or sys.stderr
        self._clock = clock
        self._shown = self._file.isatty()
        self._since = clock()
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, label: str, done: int, total: int) -> None:
        """`done` of `total` under `label`."""
        if not self._shown or self._clock() - self._since < PATIENCE_S:
            return
        if self._progress is None:
            self._progress = self._begun()
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(label, total=total)
        self._progress.update(self._tasks[label], completed=done, total=total)

    def _begun(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(file=self._file), transient=True)
        progress.start()
        return progress
