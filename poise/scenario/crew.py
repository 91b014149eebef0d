"""Tasks in parallel processes: started afresh (spawn), deaf to Ctrl-C, stopped by word of this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Generic, TypeVar

from poise.core.errors import PoiseError

Task = TypeVar("Task")
Done = TypeVar("Done")

AHEAD = 2
"""Tasks given out for each process: one under way and one to go on with, so that few workloads wait in memory."""

POLL_S = 0.1
"""Seconds between two looks at whether the user wants to stop."""

_told_to_stop: Callable[[], bool] = bool


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew(Generic[Task, Done]):
    """So many processes that do tasks; a context manager, which tells them to stop and waits for them.

    do: a function of a module, from a task and a question whether to stop to what came of it, None for nothing.
    With one job nothing leaves this process, and processes begin only with the first task. What comes of a task is the
    same whatever `jobs` is, the order is not.
    """

    def __init__(self, jobs: int, stop: threading.Event, do: Callable[[Task, Callable[[], bool]], Done | None]) -> None:
        self._jobs = jobs
        self._stop = stop
        self._do = do
        self._context = multiprocessing.get_context("spawn")
        self._told = self._context.Event()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Crew[Task, Done]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._told.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def work(self, tasks: Iterable[Task], done: Callable[[Done], None]) -> None:
        """Do `tasks`, telling `done` what came of each as it ends, until all are or the user wants to stop.

        Tasks are asked for as they can be done, so what comes of one may decide on the next. What a task raises is
        raised here. PoiseError when a process is gone.
        """
        if self._jobs > 1:
            try:
                self._hand_out(iter(tasks), done)
            except BrokenProcessPool:
                raise PoiseError(
                    "a process ended before its simulation did; give fewer jobs if memory is short, and keep a script "
                    "that compares or plans under `if __name__ == '__main__':`"
                ) from None
            return
        for task in tasks:
            came = None if self._stop.is_set() else self._do(task, self._stop.is_set)
            if came is None:
                return
            done(came)

    def _hand_out(self, tasks: Iterator[Task], done: Callable[[Done], None]) -> None:
        pending = {self._submit(task) for task in islice(tasks, AHEAD * self._jobs)}
        while pending and not self._stop.is_set():
            ended, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for each in ended:
                came = each.result()
                if came is not None:
                    done(came)
            if not self._stop.is_set():
                pending |= {self._submit(task) for task in islice(tasks, len(ended))}

    def _submit(self, task: Task) -> Future[Done | None]:
        with _deaf():
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self._jobs, self._context, _begin, (self._told,))
            return self._pool.submit(_done, self._do, task)


@contextmanager
def _deaf() -> Iterator[None]:
    """Within the block Ctrl-C waits, and processes that begin here never hear it, not even while they import."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(told: Any) -> None:
    """The first thing that a process does: it leaves Ctrl-C to the one that began it, and ends when that one does."""
    global _told_to_stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _told_to_stop = told.is_set
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _done(do: Callable[[Task, Callable[[], bool]], Done | None], task: Task) -> Done | None:
    return do(task, _told_to_stop)
