"""Watches the sources of engines: polls a file or a DNS name periodically."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from poise.live import clock
from poise.live.discovery.engines import Diff, EngineFile, EngineName

log = logging.getLogger("poise.gateway")

OnChange = Callable[[Diff], None]
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a name and port to addresses; raises OSError where there are none."""


async def watch_file(file: EngineFile, on_change: OnChange, period_s: float = 2.0) -> None:
    """Poll `file` until cancelled; `on_change` is called with every real change."""
    problem = ""
    while True:
        await asyncio.sleep(period_s)
        found = await asyncio.to_thread(file.look)  # a network file system may take its time
        if file.problem != problem:
            problem = file.problem
            if problem:
                log.error("a watched file is not taken: %s", problem)
        if found != Diff():
            on_change(found)


async def watch_name(
    name: EngineName, host: str, port: int, on_change: OnChange, period_s: float = 10.0, resolve: Resolve | None = None
) -> None:
    """Resolve `host` at once and then every `period_s`, until cancelled."""
    lookup = resolve or addresses
    while True:
        problem, found = "", list[str]()
        try:
            found = await lookup(host, port)
        except OSError as error:
            problem = f"{host} has no address: {error.strerror or error}"
        change = name.resolved(found, problem, clock.now())
        if change != Diff():
            on_change(change)
        await asyncio.sleep(period_s)


async def addresses(host: str, port: int) -> list[str]:
    """All addresses of `host`, from the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
