"""Work under way: a message, a collective, a copy. A lane whose task is under way waits for it; other lanes go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Protocol

Payload = Any
"""What a value holds while a Program runs: tensors, or whatever its kernels hand to each other."""


class Handle(Protocol):
    """Something that ends later."""

    @property
    def peer(self) -> int:
        """A rank that it waits for, or −1."""
        ...

    def done(self) -> bool:
        """Whether it has ended; never waits."""
        ...

    def wait(self) -> Sequence[Payload]:
        """What it writes, once it has ended."""
        ...


@dataclass
class Works:
    """Operations of torch.distributed; `finish` makes what is written when all have ended.

    gloo says of a message that it has ended only to those that wait for it: so a thread does (see `Waiting`).
    """

    works: list[Any]
    finish: Callable[[], Sequence[Payload]]
    peer: int = -1
    streams: bool = False
    """Whether the stream of the calling thread must wait as well, as nccl needs it; gloo waits once."""
    ended: bool = False
    error: Exception | None = None

    def done(self) -> bool:
        """Whether all have ended."""
        return self.ended

    def wait(self) -> Sequence[Payload]:
        """What is written; call it when all have ended."""
        if self.streams:
            for work in self.works:
                work.wait()
        if self.error is not None:
            raise self.error
        return self.finish()


class Waiting:
    """A thread that waits for one operation after the other, and sets `changed` behind each."""

    def __init__(self, name: str, changed: Event) -> None:
        self._queue: SimpleQueue[Works | Event | None] = SimpleQueue()
        self._changed = changed
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, works: Works) -> Works:
        """Wait for these as well."""
        self._queue.put(works)
        return works

    def finish(self) -> None:
        """Return when all have ended; raises the error of the first that failed."""
        ended = Event()
        self._queue.put(ended)
        ended.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread behind all of them."""
        self._queue.put(None)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Event):
                item.set()
                continue
            self._wait(item)
            del item
            self._changed.set()

    def _wait(self, item: Works) -> None:
        """Wait for these. A function of its own: a thread that still had one of them as Python ends would abort."""
        try:
            for work in item.works:
                work.wait()
        except Exception as error:
            item.error = error
            self._error = self._error or error
        item.ended = True


@dataclass
class InThread:
    """A call in a thread of its own."""

    future: Future[Sequence[Payload]]
    peer: int = -1

    def done(self) -> bool:
        """Whether it has returned."""
        return self.future.done()

    def wait(self) -> Sequence[Payload]:
        """What it returned."""
        return self.future.result()


@dataclass
class Later:
    """A value that is on its way: its lane goes on, and the task that reads it waits."""

    handle: Handle

    def done(self) -> bool:
        """Whether it has arrived."""
        return self.handle.done()

    def wait(self) -> Payload:
        """The value."""
        return self.handle.wait()[0]


@dataclass
class Chained:
    """One handle behind another, as data behind the header that says its shape."""

    first: Handle
    then: Callable[[Sequence[Payload]], Handle]
    second: Handle | None = None

    @property
    def peer(self) -> int:
        """That of the one under way."""
        return (self.second or self.first).peer

    def done(self) -> bool:
        """Whether both have ended; begins the second as soon as the first has."""
        if self.second is None:
            if not self.first.done():
                return False
            self.second = self.then(self.first.wait())
        return self.second.done()

    def wait(self) -> Sequence[Payload]:
        """What the second writes."""
        if self.second is None:
            self.second = self.then(self.first.wait())
        return self.second.wait()
