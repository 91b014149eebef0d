"""Ranks as threads of one process, so that a test runs in milliseconds and a step can be looked at in a debugger."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from poise.core.errors import RankError
from poise.program import Task
from poise.runtime.program.handle import Payload
from poise.runtime.program.transport import Tensors


class Aborted(Exception):
    """Another rank has failed."""


class Room:
    """What the ranks share. The first failure ends all of them."""

    def __init__(self, ranks: int) -> None:
        self.lock = threading.Lock()
        self.events = [threading.Event() for _ in range(ranks)]
        """Set for every rank whenever something is brought."""
        self.failed: tuple[int, BaseException] | None = None
        self.bytes = 0
        """Of all messages so far."""
        self._mail: dict[tuple[int, ...], deque[Any]] = defaultdict(deque)
        self._met: dict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)

    def put(self, pair: tuple[int, ...], content: Any) -> None:
        """Lay a message down."""
        with self.lock:
            self._mail[pair].append(content)
        self._tell()

    def mail(self, pair: tuple[int, ...]) -> deque[Any]:
        """The messages from one rank to another that have not been taken."""
        return self._mail[pair]

    def meet(self, key: tuple[Any, ...], rank: int, content: Any) -> dict[int, Any]:
        """Bring something to a meeting; what all have brought fills up."""
        with self.lock:
            met = self._met[key]
            met[rank] = content
        self._tell()
        return met

    def fail(self, rank: int, error: BaseException) -> None:
        """End all ranks."""
        with self.lock:
            self.failed = self.failed or (rank, error)
        self._tell()

    def _tell(self) -> None:
        for event in self.events:
            event.set()


class Awaited:
    """Something that other threads bring."""

    def __init__(
        self, room: Room, rank: int, there: Callable[[], bool], take: Callable[[], Sequence[Payload]], peer: int
    ) -> None:
        self._room, self._rank, self._there, self._take, self.peer = room, rank, there, take, peer

    def done(self) -> bool:
        """Whether it is there; Aborted where another rank failed first."""
        there = self._there()
        if not there and self._room.failed is not None:
            raise Aborted
        return there

    def wait(self) -> Sequence[Payload]:
        """What is written."""
        while not self.done():
            self._room.events[self._rank].wait()
            self._room.events[self._rank].clear()
        return self._take()


class InProcess:
    """The transport of one of the threads."""

    def __init__(self, room: Room, rank: int) -> None:
        self.room, self.rank, self.changed = room, rank, room.events[rank]
        self._counts: dict[tuple[Any, ...], int] = defaultdict(int)

    def begin(self) -> None:
        """Nothing to forget."""

    def send(self, task: Task, tensors: Tensors) -> Sequence[Payload]:
        """Lay the tensors down for the other thread."""
        self.room.bytes += sum(each.numel() * each.element_size() for each in tensors)
        self.room.put(task.group, tuple(each.detach().requires_grad_(each.requires_grad) for each in tensors))
        return ()

    def receive(self, task: Task) -> Awaited:
        """Take them up."""
        mail = self.room.mail(task.group)
        return Awaited(self.room, self.rank, lambda: bool(mail), lambda: (mail.popleft(),), task.group[0])

    def all_reduce(self, task: Task, tensors: Sequence[Tensor]) -> Awaited:
        """Sum in the order of the group, so that all members get the same bits."""
        own = [each.clone() for each in tensors]

        def take(brought: dict[int, Any]) -> Sequence[Payload]:
            for at, tensor in enumerate(tensors):
                tensor.copy_(torch.stack([brought[rank][at] for rank in task.group]).sum(0))
            return (None,) * len(task.writes)

        return self._together(task, own, take)

    def broadcast(self, task: Task, tensors: Tensors | None, root: int) -> Awaited:
        """The root's tensors."""
        key = self._key(task)
        brought = self.room.meet(key, self.rank, tensors)
        return Awaited(self.room, self.rank, lambda: root in brought, lambda: (brought[root],), root)

    def gather(self, task: Task, tensors: Tensors, root: int, everywhere: int = 0) -> Awaited:
        """All members' tensors at the root; the first of them at all."""
        most = None if self.rank == root else everywhere
        return self._together(task, tensors, lambda brought: ([brought[rank][:most] for rank in task.group],))

    def _together(self, task: Task, content: Any, take: Callable[[dict[int, Any]], Sequence[Payload]]) -> Awaited:
        brought = self.room.meet(self._key(task), self.rank, content)
        other = next((rank for rank in task.group if rank != self.rank), self.rank)
        return Awaited(self.room, self.rank, lambda: len(brought) == len(task.group), lambda: take(brought), other)

    def _key(self, task: Task) -> tuple[Any, ...]:
        """The meeting: collectives of a group match in order."""
        key = (task.lane, task.group)
        self._counts[key] += 1
        return (*key, self._counts[key])


def run_threads(ranks: int, main: Callable[[InProcess], Any]) -> list[Any]:
    """Run `main` once for each rank, each in its own thread; RankError names the rank that failed first."""
    room = Room(ranks)
    results: list[Any] = [None] * ranks

    def life(rank: int) -> None:
        try:
            results[rank] = main(InProcess(room, rank))
        except Aborted:
            pass
        except BaseException as error:
            room.fail(rank, error)

    threads = [threading.Thread(target=life, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if room.failed is not None:
        rank, error = room.failed
        raise RankError(f"rank {rank} failed: {type(error).__name__}: {error}") from error
    return results
