"""The event loop of live services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop factory: uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on a new loop, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=factory()) as runner:
        return runner.run(main)
