"""A process pool: spawned workers ignore SIGINT and stop when the parent process asks them to."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing.context import SpawnContext
from types import TracebackType
from typing import Any, Generic, NamedTuple

from poise.core.errors import PoiseError, UserError
from poise.experiment.workers import LOST, Do, Done, Task

AHEAD = 2
"""Tasks submitted for each process: one running and one next, so that few workloads wait in memory."""

POLL_S = 0.1
"""Seconds between two checks whether the user wants to stop."""

_is_stopping: Callable[[], bool] = bool


class _Job(NamedTuple):
    """A task, and how often it was lost with its process."""

    task: Any
    lost: int = 0


class _Flag:
    """A flag that processes share without a lock: one that is killed while it reads leaves nothing locked."""

    def __init__(self, context: SpawnContext) -> None:
        self._byte = context.RawValue("b", 0)

    def set(self) -> None:
        self._byte.value = 1

    def is_set(self) -> bool:
        return bool(self._byte.value)


class Processes(Generic[Task, Done]):
    """A pool of processes; see `Crew`. With one job everything runs in this process."""

    def __init__(self, jobs: int, stop: threading.Event, do: Do[Task, Done]) -> None:
        self._jobs = jobs
        self._stop = stop
        self._do = do
        self._context = multiprocessing.get_context("spawn")
        self._stop_flag = _Flag(self._context)
        self._begun = _Flag(self._context)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes[Task, Done]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop_flag.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def work(self, tasks: Iterable[Task], done: Callable[[Done], None]) -> None:
        """See `Crew.work`."""
        if self._jobs > 1:
            self._hand_out(map(_Job, tasks), done)
            return
        for task in tasks:
            outcome = None if self._stop.is_set() else self._do(task, self._stop.is_set)
            if outcome is None:
                return
            done(outcome)

    def _hand_out(self, errands: Iterator[_Job], done: Callable[[Done], None]) -> None:
        under_way: dict[Future[Done | None], _Job] = {}
        again: list[_Job] = []
        while not self._stop.is_set():
            self._give(chain(_emptied(again), errands), under_way, again)
            if not under_way and not again:
                return
            _collect(wait(under_way, POLL_S, FIRST_COMPLETED).done, under_way, again, done)
            if again:  # a pool that lost a process ends what all of them are doing
                _collect(wait(under_way).done, under_way, again, done)
                self._renew(again)

    def _give(self, errands: Iterator[_Job], under_way: dict[Future[Done | None], _Job], again: list[_Job]) -> None:
        """Submit tasks; one that finds a process gone is retried."""
        for job in islice(errands, AHEAD * self._jobs - len(under_way)):
            blob = _packed(self._do, job.task)
            try:
                under_way[self._submit(blob)] = job
            except BrokenProcessPool:
                again.append(job)
                return

    def _renew(self, again: list[_Job]) -> None:
        """Discard the processes so that new ones start; PoiseError if none ever did, or a task was lost too often."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        again[:] = [job._replace(lost=job.lost + 1) for job in again]
        if not self._begun.is_set() or any(job.lost >= LOST for job in again):
            raise PoiseError(
                "a process ended before its simulation did; give fewer jobs if memory is short, and keep a script "
                "that compares or plans under `if __name__ == '__main__':`"
            )

    def _submit(self, blob: bytes) -> Future[Done | None]:
        with _deaf():
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self._jobs, self._context, _begin, (self._stop_flag, self._begun))
            return self._pool.submit(_done, blob)


def _collect(
    ended: Iterable[Future[Done | None]],
    under_way: dict[Future[Done | None], _Job],
    again: list[_Job],
    done: Callable[[Done], None],
) -> None:
    """Report the results of finished tasks; lost ones are to be retried."""
    for each in ended:
        job = under_way.pop(each)
        try:
            outcome = each.result()
        except BrokenProcessPool:
            again.append(job)
            continue
        if outcome is not None:
            done(outcome)


def _emptied(again: list[_Job]) -> Iterator[_Job]:
    while again:
        yield again.pop(0)


def _packed(do: Any, task: Any) -> bytes:
    """A task in its pickled form; UserError where it cannot be pickled."""
    try:
        return pickle.dumps((do, task), pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"jobs: a part of a simulation cannot be sent to another process ({error}); define it at the top of a "
            "module, or give one job"
        ) from None


@contextmanager
def _deaf() -> Iterator[None]:
    """Within the block Ctrl-C waits, and processes that start here ignore it, even while they import."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(stop: _Flag, begun: _Flag) -> None:
    """The initializer of a process: it ignores Ctrl-C, and ends when its parent does."""
    global _is_stopping
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _is_stopping = stop.is_set
    threading.Thread(target=_follow, daemon=True).start()
    begun.set()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _done(blob: bytes) -> Any:
    do, task = pickle.loads(blob)
    return do(task, _is_stopping)
