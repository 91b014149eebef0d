"""A loop for tests whose clock jumps: where nothing is left to do, it is at once the time of the next timer.

A limit of 0.3 s is then a limit of 0.3 s on any machine, however busy, and a minute that passes idly takes no time.
Only for what happens in one process: other processes, and ZeroMQ's threads, live by the clock on the wall.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from time import monotonic_ns
from typing import Any, Final, TypeVar
from unittest import mock

Result = TypeVar("Result")

GRACE_S: Final = 0.001
"""What the system is given to bring bytes from one socket to another, before each `FAR_NS` that pass idly."""

FAR_NS: Final = 50_000_000

TICK_S: Final = 2e-9
"""More than asyncio's own grain."""


class _Jumping(selectors.DefaultSelector):
    """Never sleeps for long: `now_ns` jumps ahead. busy: threads that work for the loop, which are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = monotonic_ns()
        self.busy = 0
        self._idle_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            if timeout is None or self.busy:
                return super().select(None)
            ahead = max(1, math.ceil(timeout * 1e9))
            self._idle_ns += ahead
            if self._idle_ns >= FAR_NS:
                self._idle_ns = ahead
                ready = super().select(GRACE_S)
            if not ready:
                self.now_ns += ahead
        if ready:
            self._idle_ns = 0
        return ready


class Loop(asyncio.SelectorEventLoop):
    """Its time is that of its selector."""

    def __init__(self) -> None:
        self.clock = _Jumping()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now_ns / 1e9

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """A tick later at least: who is rung early and asks again must not find the clock where it was."""
        return super().call_at(max(when, self.time() + TICK_S), callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        self.clock.busy += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._rest)
        return future

    def _rest(self, _: asyncio.Future[Any]) -> None:
        self.clock.busy -= 1


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end, as `poise.live.http.loop.run` does, on a clock that jumps."""
    loop = Loop()
    with (
        mock.patch("poise.live.clock.monotonic_ns", lambda: loop.clock.now_ns),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(main)
