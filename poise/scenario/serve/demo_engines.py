"""The emulated engines of `poise demo-live`: processes of their own; one that dies is started again at its port."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poise.core.errors import UserError

STARTED_S = 30.0
"""Seconds in which an engine's process must start."""

AGAIN_S = 10.0
"""Seconds from an engine's death to its next start: long enough to see it missing."""


@dataclass(slots=True)
class DemoEngine:
    """One engine. url: where it listens.  process: that of now."""

    url: str
    process: asyncio.subprocess.Process

    @property
    def name(self) -> str:
        """Its host and port, by which the gateway calls it."""
        return self.url.removeprefix("http://").rstrip("/")


class DemoEngines:
    """So many engines with these options of `poise engine`; an async context manager.

    died, started: called with an engine whose process died, and with one whose next process listens.
    again_s: seconds between the two.
    """

    def __init__(
        self,
        count: int,
        options: Sequence[str],
        *,
        died: Callable[[DemoEngine], None],
        started: Callable[[DemoEngine], None],
        again_s: float = AGAIN_S,
    ) -> None:
        self.engines: list[DemoEngine] = []
        self._count = count
        self._options = options
        self._died = died
        self._started = started
        self._again_s = again_s
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> DemoEngines:
        processes = [await self._begin(0) for _ in range(self._count)]
        try:
            async with asyncio.timeout(STARTED_S):
                self.engines = [DemoEngine(await _url(process), process) for process in processes]
        except BaseException:
            await _end(processes)
            raise
        self._watches = [asyncio.get_running_loop().create_task(self._watch(engine)) for engine in self.engines]
        return self

    async def __aexit__(self, *error: object) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await _end([engine.process for engine in self.engines])

    async def _watch(self, engine: DemoEngine) -> None:
        """Start an engine again whenever it dies."""
        while True:
            await engine.process.wait()
            self._died(engine)
            await asyncio.sleep(self._again_s)
            engine.process = await self._begin(int(engine.name.rpartition(":")[2]))
            async with asyncio.timeout(STARTED_S):
                await _url(engine.process)
            self._started(engine)

    async def _begin(self, port: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "poise", "engine", *self._options, "--port", str(port),
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip


async def _end(processes: Sequence[asyncio.subprocess.Process]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    await asyncio.gather(*(process.communicate() for process in processes))


async def _url(process: asyncio.subprocess.Process) -> str:
    """The URL in an engine's first line."""
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = next((word.rstrip(";,") for word in line.split() if word.startswith("http://")), "")
    if not found:
        raise UserError(f"an emulated engine did not start: {line.strip() or 'it printed nothing'}; try `poise engine`")
    return found
