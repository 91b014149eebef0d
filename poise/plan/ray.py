"""A crew on a Ray cluster: the same tasks as on processes of this machine, wherever the cluster has room."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Generic, TypeVar

from poise.core.errors import UserError

Task = TypeVar("Task")
Done = TypeVar("Done")

AHEAD = 2
"""Tasks given out for each processor of the cluster."""

KNOCK_S = 10.0
"""Seconds that a cluster has to answer."""

POLL_S = 0.1
"""Seconds between two looks at whether the user wants to stop."""


class RayCrew(Generic[Task, Done]):
    """Tasks as Ray tasks of one processor each; see `poise.scenario.crew.Crew` for what `do`, `stop` and `work` are.

    address: of a cluster, as `ray.init` takes it (`auto`, `ray://HOST:10001`), or `local` to start one here. The nodes
    need Poise installed in the same version. UserError where Ray is not installed or does not answer.
    """

    def __init__(
        self, address: str, stop: threading.Event, do: Callable[[Task, Callable[[], bool]], Done | None]
    ) -> None:
        self._address = address
        self._stop = stop
        self._do = do

    def __enter__(self) -> RayCrew[Task, Done]:
        try:
            import ray
        except ImportError:
            raise UserError("--ray: Ray is not installed; install it with `pip install poise[ray]`") from None
        self._ray: Any = ray
        where = {"include_dashboard": False} if self._address == "local" else {"address": self._address}
        _knock(self._address)
        try:
            ray.init(**where, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            said = str(error).splitlines()[0]
            raise UserError(f"--ray {self._address}: no cluster answers ({said}); give its address, or local") from None
        self._remote = ray.remote(num_cpus=1, max_retries=1)(_done)
        self._room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ray.shutdown()

    def work(self, tasks: Iterable[Task], done: Callable[[Done], None]) -> None:
        """Do `tasks`; what is under way when the user stops is given up."""
        left: Iterator[Task] = iter(tasks)
        pending = [self._remote.remote(self._do, task) for task in islice(left, self._room)]
        while pending and not self._stop.is_set():
            ended, pending = self._ray.wait(pending, timeout=POLL_S)
            for each in ended:
                came = self._result(each)
                if came is not None:
                    done(came)
            if not self._stop.is_set():
                pending += [self._remote.remote(self._do, task) for task in islice(left, len(ended))]
        for each in pending:
            self._ray.cancel(each)

    def _result(self, ref: Any) -> Done | None:
        try:
            came: Done | None = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return came


def _knock(address: str) -> None:
    """UserError at once where nobody listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()
    except OSError as error:
        raise UserError(f"--ray {address}: no cluster answers ({error}); give its address, or local") from None


def _done(do: Callable[[Task, Callable[[], bool]], Done | None], task: Task) -> Done | None:
    return do(task, bool)
