"""A thread that waits for operations keeps none of them: one still held as Python ends would abort the process."""

from __future__ import annotations

import gc
import weakref
from threading import Event

import pytest

from poise.runtime.program.handle import Waiting, Works


class Work:
    """An operation that ends when it is waited for, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def wait(self) -> None:
        if self.error is not None:
            raise self.error


def test_what_was_waited_for_is_dropped() -> None:
    changed = Event()
    waiting = Waiting("to 1", changed)
    works = [Work(), Work()]
    kept = [weakref.ref(work) for work in works]
    handle = waiting.put(Works([*works], lambda: ("done",)))
    waiting.finish()
    assert handle.done() and handle.wait() == ("done",) and changed.is_set()
    del works, handle
    gc.collect()
    assert [ref() for ref in kept] == [None, None]
    waiting.stop()


def test_the_first_error_is_raised_where_it_is_waited_for() -> None:
    waiting = Waiting("from 1", Event())
    handle = waiting.put(Works([Work(RuntimeError("closed by peer"))], lambda: ()))
    with pytest.raises(RuntimeError, match="closed by peer"):
        waiting.finish()
    with pytest.raises(RuntimeError, match="closed by peer"):
        handle.wait()
    waiting.stop()
