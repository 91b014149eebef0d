"""How tests wait: for a condition, never for a time."""

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 120
"""Only what hangs takes so long, however busy the machine: a test waits for a condition, and this bounds the wait."""

_PAUSE_S: Final = 0.001
"""Between two looks. Nothing depends on it: a clock that jumps (tests/live/warp.py) passes over it, and on a real one
it leaves the processor to whatever is waited for."""


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds; fail if it never does."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(_PAUSE_S)


async def turns(count: int) -> None:
    """Let everything else go on for so many looks."""
    for _ in range(count):
        await asyncio.sleep(_PAUSE_S)
