"""One rank that is killed, stalls or raises ends the job on all ranks, with one message that names the rank and the
operation.

Each rank has a thread that writes to the store what the rank is doing, and that it is alive. The rank that
first finds the culprit writes it under one key of the store; all that see it end at once, even where PyTorch
waits in C++ for a message that will never come.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

from torch._C._distributed_c10d import Store

from poise.core.errors import PoiseError, RankError, UserError

EXIT = 1
"""The exit code of ranks that are ended."""

BLAME = "poise/blame"

_BEAT_S = 0.1

_SILENT = 20
"""Beats without a sign of life from a rank that is taken for lost."""

_GRACE_S = 2.0
"""How long a rank that lost its neighbour waits for that one's own words."""

_WIDTH = 64
"""Bytes for what a rank is doing on the board."""


class State(NamedTuple):
    """The last report of a rank."""

    beat: int
    doing: str
    waits: int | None
    """The rank whose message it waits for."""
    done: bool


class StatusBoard:
    """What each rank of this machine is doing, in shared memory, so that it outlives the rank."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    @staticmethod
    def size(count: int) -> int:
        """Bytes for all ranks."""
        return count * _WIDTH

    def write(self, rank: int, doing: str) -> None:
        """Note what `rank` does now."""
        self._memory[rank * _WIDTH : (rank + 1) * _WIDTH] = doing.encode()[:_WIDTH].ljust(_WIDTH, b"\0")

    def read(self, rank: int) -> str:
        """What `rank` did last."""
        text: bytes = bytes(self._memory[rank * _WIDTH : (rank + 1) * _WIDTH])
        return text.rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True)
class Seat:
    """A rank's place in a job: its number, how many there are, and a store of its own for the guard's thread."""

    rank: int
    count: int
    connect: Callable[[], Store]
    board: StatusBoard | None = None
    """If set, a parent process waits for the ranks and prints the message; else each rank prints it."""


class Guard:
    """`with Guard(seat, timeout_s=60) as guard:` around the work of a rank; `at` and `wait` report its position."""

    def __init__(self, seat: Seat, *, timeout_s: float) -> None:
        self.rank, self._count = seat.rank, seat.count
        self._store = seat.connect()
        self._board = seat.board
        self._timeout_s = timeout_s
        self._doing, self._since = "the start", monotonic()
        self._waits: int | None = None
        self._lost = ""
        self._beat, self._ended = 0, Event()
        self._thread = Thread(target=self._watch, name="guard", daemon=True)

    def at(self, doing: str) -> None:
        """The rank begins something."""
        self._waits = None
        self._doing = doing
        if self._board is not None:
            self._board.write(self.rank, doing)

    def wait(self, rank: int) -> None:
        """What it does now waits for `rank`."""
        self._since = monotonic()
        self._waits = rank

    def go(self) -> None:
        """The wait is over."""
        self._waits = None

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """Around what all ranks do together."""
        self.at(doing)
        self.wait((self.rank + 1) % self._count)
        yield
        self.go()

    def __enter__(self) -> Guard:
        if self._board is None and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, self._terminated)
        self._publish()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._failed(error)
        self._ended.set()
        self._thread.join()
        self._publish()
        if error is not None and not isinstance(error, PoiseError):
            message = self._blame() or f"rank {self.rank} failed"
            raise RankError(message) from (error if message.startswith(f"rank {self.rank} ") else None)

    def _terminated(self, number: int, frame: object) -> None:
        """torchrun ends all ranks as soon as one has ended: print the cause if this rank knows it."""
        if self._lost and self._blame() is None:
            self._accuse(self._lost)
        os._exit(128 + number)

    def _failed(self, error: BaseException) -> None:
        """Blame this rank, or the one whose message did not come."""
        waits = self._waits
        if waits is None or isinstance(error, PoiseError) or not isinstance(error, RuntimeError):
            self._accuse(f"rank {self.rank} failed in {self._doing}: {_line(error)}")
        else:
            self._lost = f"rank {waits} was lost while rank {self.rank} waited for it in {self._doing}"
            if not self._ended.wait(_GRACE_S) and self._blame() is None:
                self._accuse(self._lost)

    def _watch(self) -> None:
        while not self._ended.wait(_BEAT_S):
            try:
                self._publish()
                if self._blame() is not None and (self._waits is not None or not self._ended.wait(_GRACE_S)):
                    self._end()
                if self._waits is not None and monotonic() - self._since > self._timeout_s:
                    self._accuse(self._find())
            except Exception as error:
                print(f"rank {self.rank} in {self._doing}: the job's store is lost ({error})", file=sys.stderr)
                self._end()

    def _end(self) -> None:
        sys.stderr.flush()
        os._exit(EXIT)

    def _publish(self) -> None:
        self._beat += 1
        state = State(self._beat, self._doing, self._waits, self._ended.is_set())
        self._store.set(f"poise/at/{self.rank}", json.dumps(state))

    def _blame(self) -> str | None:
        return self._store.get(BLAME).decode() if self._store.check([BLAME]) else None

    def _accuse(self, message: str) -> None:
        """Publish the culprit unless another rank has; the first message counts for all."""
        holds = self._store.compare_set(BLAME, "", message).decode()
        if holds == message and self._board is None:
            print(f"poise: {message}", file=sys.stderr, flush=True)

    def _states(self) -> dict[int, State]:
        keys = {rank: f"poise/at/{rank}" for rank in range(self._count)}
        return {
            rank: State(*json.loads(self._store.get(key))) for rank, key in keys.items() if self._store.check([key])
        }

    def _find(self) -> str:
        """The rank that keeps the others waiting: one without a heartbeat, or one that does not wait itself."""
        before = self._states()
        for _ in range(_SILENT):
            self._publish()
            self._ended.wait(_BEAT_S)
        now = self._states()
        others = {rank: state for rank, state in now.items() if rank != self.rank and not state.done}
        for rank, state in others.items():
            if rank in before and before[rank].beat == state.beat:
                return f"rank {rank} does not answer, last seen in {self._seen(rank, state)}: {self._why(rank, now)}"
        for rank, state in others.items():
            if state.waits is None:
                return f"rank {rank} is stuck in {self._seen(rank, state)}: {self._why(rank, now)}"
        return self._why(self._waits, now)

    def _seen(self, rank: int, state: State) -> str:
        """The last operation of `rank`, from the board, which is newer than the last heartbeat."""
        return (self._board.read(rank) if self._board is not None else "") or state.doing

    def _why(self, rank: int | None, now: dict[int, State]) -> str:
        """A rank that waits directly for `rank`: this rank may wait for one that waits."""
        waiting = next((other for other, state in now.items() if state.waits == rank and not state.done), self.rank)
        doing = now[waiting].doing if waiting in now else self._doing
        return f"rank {waiting} waits for rank {rank} in {doing}, and {self._timeout_s:g} s are over"


def _line(error: BaseException) -> str:
    """An error in one line; those of Poise need no type."""
    words = (str(error).splitlines() or [""])[0]
    return words if isinstance(error, UserError) else f"{type(error).__name__}: {words}"
