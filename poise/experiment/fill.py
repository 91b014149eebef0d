"""Fills a grid: every cell exactly once; stored ones are loaded, the others are run by a crew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from poise.core.errors import PoiseError
from poise.experiment.progress import Meter
from poise.experiment.workers import WorkerPool

Key = TypeVar("Key")
Task = TypeVar("Task")
Done = TypeVar("Done")


def fill(
    label: str,
    wanted: Sequence[Key],
    has: Callable[[Key], bool],
    tasks: Callable[[list[Key]], Iterable[Task]],
    pool: WorkerPool[Task, Done],
    note: Callable[[Done], Key],
    progress: Meter,
) -> bool:
    """Run the `wanted` cells that are missing; returns whether all of them are there then.

    tasks: of what is left, in an order of its own.  note: stores a result and returns its key.
    PoiseError for a result that was not requested, or arrives twice.
    """
    wanted = list(dict.fromkeys(wanted))
    left = [each for each in wanted if not has(each)]
    open_ = set(left)

    def done(came: Done) -> None:
        key = note(came)
        if key not in open_:
            raise PoiseError(f"{label}: {key} came back without being asked for")
        open_.remove(key)
        progress(label, len(wanted) - len(open_), len(wanted))

    progress(label, len(wanted) - len(open_), len(wanted))
    pool.work(tasks(left), done)
    return not open_
