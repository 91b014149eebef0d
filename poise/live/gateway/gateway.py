"""The gateway as a whole: one process between clients and engines."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from poise.core.control import Control
from poise.core.units import SECOND
from poise.live.clock import now
from poise.live.gateway.desk import Desk
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.gateway.scout import Scout
from poise.live.gateway.settings import Settings
from poise.live.gateway.stats import Stats
from poise.live.gateway.trip import Trip
from poise.live.gateway.world import Recorder, World
from poise.live.know.text import Pieces
from poise.live.wire.call import Address
from poise.live.wire.exchange import Exchange
from poise.live.wire.pool import Pool
from poise.live.wire.server import Server

log = logging.getLogger("poise.gateway")

SWEEP_S = 0.1
"""How often waits and lives are looked at."""


class Kept(Recorder, Protocol):
    """A recorder that writes what it keeps."""

    def flush(self, now: int) -> None:
        """Write what has gathered."""
        ...

    def close(self) -> None:
        """Write the rest and end."""
        ...


class Gateway:
    """Receives clients, decides with `control`, and sends on to engines.

    tenant: who asks, by the exchange (None: nobody who may).  recorder: keeps what happens.
    """

    def __init__(
        self,
        control: Control,
        settings: Settings | None = None,
        *,
        pieces: Pieces | None = None,
        tenant: Callable[[Exchange], str | None] = lambda exchange: "",
        recorder: Kept | None = None,
        watchers: Sequence[Callable[[Trip, int], None]] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.control = control
        self.world = World(
            control, self.settings, now, self._later, self._connect,
            recorder=recorder, watcher=self._ended, note=self._note,
        )  # fmt: skip
        self.desk = Desk(self.world, pieces or Pieces(), tenant, lambda: not self._draining)
        self.stats = Stats(self.world)
        self.scout = Scout(self.world, self.desk)
        self.server = Server(self.desk.receive, self.settings.clients)
        self.recorder = self._recorder = recorder
        self._watchers = [self.stats.ended, *watchers]
        self._draining = False
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def draining(self) -> bool:
        """Whether it takes no more requests."""
        return self._draining

    def watch(self, watcher: Callable[[Trip, int], None]) -> None:
        """Tell `watcher` of every request that ends, with its status."""
        self._watchers.append(watcher)

    async def start(self, engines: Sequence[EngineAt], host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Take up the engines and listen; the port."""
        for at in engines:
            self.scout.add(at)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return await self.server.listen(host, port, tls)

    async def stop(self, grace_s: float) -> bool:
        """Take no more requests, let those under way end, and close; whether all ended in time."""
        self._draining = True
        in_time = await self.server.drain(grace_s)
        self.world.end_all("the gateway stops")
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.scout.close()
        await self.world.fleet.close()
        if self._recorder is not None:
            self._recorder.close()
        return in_time

    def _connect(self, at: EngineAt) -> Pool:
        return Pool(Address(at.place.host, at.place.port, at.place.tls), self.settings.engines)

    def _later(self, at: int, call: Callable[[], None]) -> Any:
        return asyncio.get_running_loop().call_later(max(0.0, (at - now()) / SECOND), call)

    def _ended(self, trip: Trip, status: int) -> None:
        for watcher in self._watchers:
            watcher(trip, status)

    def _note(self, engine: Engine, kind: str, well: bool) -> None:
        self.scout.note(engine, kind, well)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.world.sweep()
            self.scout.tick()
            if self._recorder is not None:
                self._recorder.flush(now())
