"""The store of ranks that one process has forked: it keeps the values and answers over pipes that were there before.

torch's TCPStore looks up the name of every address that connects, on both sides. To it a rank of this machine has the
address ::ffff:127.0.0.1, which /etc/hosts does not have, so ranks would wait at their start for a slow or absent DNS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store

_FIRST_S, _LONGEST_S = 0.001, 0.02
"""How long a rank that waits for keys sleeps between two looks: twice as long each time, up to the longest."""

_PATIENCE = timedelta(seconds=300)
"""How long it waits for keys unless it is given another time; torch's own stores have the same."""

Values = dict[str, bytes]


class ServedStore:
    """The parent's side: a thread that answers the ranks at the other ends of `pipes`."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._values: Values = {}
        self._pipes = pipes
        self._stopped, self._stop = Pipe(duplex=False)
        self._thread = Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()

    def value(self, key: str) -> str | None:
        """What a rank has set."""
        found = self._values.get(key)
        return None if found is None else found.decode()

    def close(self) -> None:
        """Answer no more."""
        self._stop.send(None)
        self._thread.join()
        for pipe in (*self._pipes, self._stop, self._stopped):
            pipe.close()

    def _serve(self) -> None:
        heard = [*self._pipes, self._stopped]
        while True:
            for pipe in wait(heard):
                assert isinstance(pipe, Connection)
                if pipe is self._stopped:
                    return
                try:
                    what, key, *given = pipe.recv()
                    pipe.send(_ANSWERS[what](self._values, key, *given))
                except (EOFError, OSError):  # the rank has ended
                    heard.remove(pipe)


class RankStore(Store):
    """A rank's side, for all of its threads."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe, self._lock = pipe, Lock()

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value."""
        self._ask("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        self.wait([key])
        found: bytes = self._ask("get", key)
        return found

    def add(self, key: str, amount: int) -> int:
        """Count up, from 0; returns the sum."""
        found: int = self._ask("add", key, amount)
        return found

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set a value where it is `expected`, or where there is none and none is expected; returns what it is then."""
        found: bytes = self._ask("compare_set", key, _bytes(expected), _bytes(desired))
        return found

    def delete_key(self, key: str) -> bool:
        """Remove a value; returns whether there was one."""
        found: bool = self._ask("delete_key", key)
        return found

    def num_keys(self) -> int:
        """How many values there are."""
        found: int = self._ask("num_keys", "")
        return found

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return all(self._ask("has", key) for key in keys)

    def wait(self, keys: list[str], timeout: timedelta = _PATIENCE) -> None:
        """Until all are there. DistStoreError where that takes longer than `timeout`."""
        end, pause = monotonic() + timeout.total_seconds(), _FIRST_S
        while not self.check(keys):
            if monotonic() > end:
                raise dist.DistStoreError(f"wait timeout after {timeout}, keys: {', '.join(keys)}")
            sleep(pause)
            pause = min(2 * pause, _LONGEST_S)

    def _ask(self, what: str, key: str, *given: object) -> Any:
        with self._lock:
            self._pipe.send((what, key, *given))
            return self._pipe.recv()


def _add(values: Values, key: str, amount: int) -> int:
    total = int(values.get(key, b"0")) + amount
    values[key] = str(total).encode()
    return total


def _compare_set(values: Values, key: str, expected: bytes, desired: bytes) -> bytes:
    if values.get(key, b"") == expected:
        values[key] = desired
    return values.get(key, expected)


def _set(values: Values, key: str, value: bytes) -> None:
    values[key] = value


_ANSWERS: dict[str, Callable[..., object]] = {
    "set": _set,
    "get": lambda values, key: values.get(key),
    "add": _add,
    "compare_set": _compare_set,
    "delete_key": lambda values, key: values.pop(key, None) is not None,
    "num_keys": lambda values, key: len(values),
    "has": lambda values, key: key in values,
}


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
