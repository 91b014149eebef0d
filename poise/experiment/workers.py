"""Where tasks run: in this process, in several of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, TypeVar

from poise.core.errors import UserError

Task = TypeVar("Task")
Done = TypeVar("Done")
Given = TypeVar("Given", contravariant=True)
Came = TypeVar("Came")

Do = Callable[[Task, Callable[[], bool]], Done | None]
"""A function of a module: from a task and a stop check to its result, None for nothing."""

LOST = 3
"""A task that was lost with its worker this often is abandoned."""


@dataclass(frozen=True, slots=True)
class Workers:
    """jobs: processes of this machine.  ray: the address of a Ray cluster that does the work in their place, as
    `ray.init` takes it (`auto`, `ray://HOST:10001`), or `local` to start one here."""

    jobs: int = 1
    ray: str = ""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UserError(f"jobs = {self.jobs}: must be at least 1; give how many processes may run")

    def at_most(self, tasks: int) -> Workers:
        """No more processes than there are tasks."""
        return replace(self, jobs=max(1, min(self.jobs, tasks)))


class WorkerPool(Protocol[Given, Came]):
    """Runs tasks: a context manager, which starts with the first task and ends with its block."""

    def __enter__(self) -> WorkerPool[Given, Came]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def work(self, tasks: Iterable[Given], done: Callable[[Came], None]) -> None:
        """Run `tasks`, calling `done` once with the result of each as it ends, until all are or the user wants to stop.

        Tasks are drawn as they can be run, so one's result may decide on the next. A task whose worker is
        lost is retried by another one; PoiseError after `LOST` times. An exception of a task is raised here.
        """


def worker_pool(workers: Workers, stop: threading.Event, do: Do[Task, Done]) -> WorkerPool[Task, Done]:
    """The crew for `workers`. The results of tasks are the same in all of them, their order is not.

    stop: set when the user wants to stop.
    """
    if workers.ray:
        from poise.experiment.ray import RayPool

        return RayPool(workers.ray, stop, do)
    from poise.experiment.processes import Processes

    return Processes(workers.jobs, stop, do)


@contextmanager
def cluster(workers: Workers) -> Iterator[None]:
    """Within the block all crews share one connection to the Ray cluster, where `workers` names one."""
    if not workers.ray:
        yield
        return
    from poise.experiment.ray import connected

    with connected(workers.ray):
        yield


def workers_of(jobs: str | None, ray: str | None = None, usual: int | None = None) -> Workers:
    """Parse `--jobs` and `--ray`; without them `usual` processes (None: all processors).

    UserError for an invalid number of processes, and for both.
    """
    if jobs is not None and ray:
        raise UserError(f"--jobs {jobs}: --ray {ray} says who does the work; leave one of the two")
    if jobs is None:
        return Workers(usual or processors(), ray or "")
    if not jobs.isdecimal() or int(jobs) < 1:
        raise UserError(f"--jobs {jobs}: must be a whole number of at least 1; give how many processes may run")
    return Workers(int(jobs))


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
