"""How tests wait: for a condition, never for a time."""

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 120
"""Only what hangs takes so long, however busy the machine: a test waits for a condition, and this bounds the wait."""


async def until(holds: Callable[[], object]) -> None:
    """Let the event loop turn until something holds; fail if it never does."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0)


async def turns(count: int) -> None:
    """Let the event loop turn so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
