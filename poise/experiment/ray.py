"""Tasks on a Ray cluster: the same as on processes of this machine, on any node with room."""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Generic

from poise.core.errors import PoiseError, UserError
from poise.core.extras import install
from poise.experiment.workers import LOST, Do, Done, Task

AHEAD = 2
"""Tasks given out for each processor of the cluster."""

KNOCK_S = 10.0
"""Seconds that a cluster has to answer."""

POLL_S = 0.1
"""Seconds between two checks whether the user wants to stop."""


class RayPool(Generic[Task, Done]):
    """Tasks as Ray tasks of one processor each; see `Crew`. Running tasks are abandoned when the user stops.

    The nodes need Poise in the same version, and files of policies where they are here. UserError where Ray is not
    installed or does not answer.
    """

    def __init__(self, address: str, stop: threading.Event, do: Do[Task, Done]) -> None:
        self._address = address
        self._stop = stop
        self._do = do
        self._connection = ExitStack()

    def __enter__(self) -> RayPool[Task, Done]:
        self._ray: Any = self._connection.enter_context(connected(self._address))
        self._remote = self._ray.remote(num_cpus=1, max_retries=LOST - 1)(_done)
        self._room = AHEAD * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def work(self, tasks: Iterable[Task], done: Callable[[Done], None]) -> None:
        """See `Crew.work`."""
        left: Iterator[Task] = iter(tasks)
        pending = [self._begun(task) for task in islice(left, self._room)]
        while pending and not self._stop.is_set():
            ended, pending = self._ray.wait(pending, timeout=POLL_S)
            for each in ended:
                outcome = self._result(each)
                if outcome is not None:
                    done(outcome)
            if not self._stop.is_set():
                pending += [self._begun(task) for task in islice(left, len(ended))]
        for each in pending:
            self._ray.cancel(each)

    def _begun(self, task: Task) -> Any:
        return self._remote.remote(sys.path, self._ray.cloudpickle.dumps((self._do, task)))

    def _result(self, ref: Any) -> Done | None:
        errors = self._ray.exceptions
        try:
            outcome: Done | None = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            message = str(error).strip().splitlines()[0]
            raise PoiseError(
                f"a simulation was lost {LOST} times with its worker on the Ray cluster: {message}"
            ) from None
        return outcome


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster for the block; an existing connection is used, and kept.

    UserError where Ray is not installed or does not answer.
    """
    try:
        import ray as found
    except ImportError:
        raise UserError(f"--ray: Ray is not installed; {install('ray')}") from None
    ray: Any = found
    if ray.is_initialized():
        yield ray
        return
    where = {"include_dashboard": False} if address == "local" else {"address": address}
    _knock(address)
    try:
        ray.init(**where, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        message = str(error).splitlines()[0]
        raise UserError(f"--ray {address}: no cluster answers ({message}); give its address, or local") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """UserError at once where nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()
    except OSError as error:
        raise UserError(f"--ray {address}: no cluster answers ({error}); give its address, or local") from None


def _done(path: list[str], blob: bytes) -> Any:
    """Run a task on a node, with the module path of its sender."""
    sys.path += [each for each in path if each not in sys.path]
    do, task = pickle.loads(blob)
    return do(task, bool)
