"""The gateway as a whole: one process between clients and engines."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poise.core.control.control import Control
from poise.core.event import Exchanged
from poise.core.policy import Cache
from poise.core.units import SECOND
from poise.live.clock import now
from poise.live.discovery.address import forbidden
from poise.live.gateway.api import Api
from poise.live.gateway.caches import Caches
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.gateway.hints import Hints
from poise.live.gateway.prober import EngineProber
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.settings import Settings
from poise.live.gateway.stats import Stats
from poise.live.gateway.world import World
from poise.live.http.call import Address
from poise.live.http.pool import Pool
from poise.live.http.server import Server
from poise.live.peers.mesh import Mesh
from poise.live.record import Recorder
from poise.live.requests.tenants import Tenants
from poise.live.requests.text_prefix import Pieces
from poise.live.requests.token_prefix import Tokenising
from poise.live.telemetry.poll import Every

log = logging.getLogger("poise.gateway")

SWEEP_S = 0.1
"""Period of the check for overdue requests."""


class Gateway:
    """Receives clients, decides with `control`, and forwards to engines.

    kv_bind: an endpoint that engines connect to with their KV events.
    cache: decides for how long engines that take hints keep the KV of sessions.
    The rest is as in `Api` and `EngineProber`.
    """

    def __init__(
        self,
        control: Control,
        settings: Settings | None = None,
        *,
        pieces: Pieces | None = None,
        tenants: Tenants | None = None,
        tenant_header: bytes = b"",
        exact: Tokenising | None = None,
        every: Every | None = None,
        kv_bind: str = "",
        cache: Cache | None = None,
        watchers: Sequence[Callable[[ProxiedRequest, int], None]] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.control = control
        self.world = World(
            control, self.settings, now, self._later, self._connect,
            watcher=self._ended, note=self._note,
        )  # fmt: skip
        if cache is not None:
            self.world.hints = Hints(cache, now, self.world.policy_failed)
        self.api = Api(
            self.world, pieces or Pieces(), tenants=tenants, tenant_header=tenant_header, exact=exact,
            ready=lambda: not self._draining,
        )  # fmt: skip
        self.server = Server(
            self.api.receive, self.settings.clients, gate=self.api.gate if tenants is not None else None
        )
        self.stats = Stats(self.world, self.server)
        self.caches = Caches(self.world, kv_bind)
        self.prober = EngineProber(self.world, self.api, self.caches, every=every, seed=control.seed)
        self.recorder: Recorder | None = None
        self.mesh: Mesh | None = None
        """The connections to other gateways, if there are any."""
        self.named: dict[str, Any] = {}
        """The active policies by slot, as a recording names them."""
        self.pending: list[str] = []
        """Fields of the gateway file that were changed and need a restart."""
        self._exact = exact
        self._watchers = [self.stats.ended, *watchers]
        self._draining = False
        self.host = ""
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def draining(self) -> bool:
        """Whether it refuses new requests."""
        return self._draining

    def watch(self, watcher: Callable[[ProxiedRequest, int], None]) -> None:
        """Call `watcher` with every request that ends and its status."""
        self._watchers.append(watcher)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None, several: bool = False) -> int:
        """Listen; returns the port. `prober.add` adds engines.  several: other processes listen on the same port."""
        self.host = host
        self.world.begin()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return await self.server.listen(host, port, tls, several)

    def record(self, recorder: Recorder) -> None:
        """Record from now on."""
        self.recorder = recorder
        self.world.keep = recorder.add
        self.world.keep_body = recorder.add_text if recorder.text else None

    def change(self, settings: Settings, tenants: Tenants | None, tenant_header: bytes) -> None:
        """Apply these settings and tenants from now on."""
        self.settings = self.world.settings = settings
        self.api.admit(tenants, tenant_header)
        self.server.change(settings.clients, self.api.gate if tenants is not None else None)
        for engine in self.world.fleet:
            engine.pool.limits = settings.engines

    def exchange(self, policies: Mapping[str, Any]) -> bool:
        """Replace the policies by these, named as in a recording; False where one of them failed.

        Duplicates are cancelled where the policy that decides on them changes. The last reports of engines are sent
        again, because a new policy may read columns that the old one did not. A recording continues in its next part.
        """
        world, failed = self.world, self.world.policy_errors
        for proxied in list(world.proxied_requests.values()) if "hedge" in policies else ():
            if proxied.attempt is not None:
                proxied.attempt.call_off("hedged by a policy that was exchanged")
        world.turn(Exchanged(world.clock(), dict(policies)))
        if world.policy_errors > failed:
            return False
        self.named |= policies
        self.stats.ask_hits()
        self.prober.report_again()
        if self.recorder is not None:
            self.recorder.cut(world.clock())
        return True

    async def stop(self, grace_s: float) -> bool:
        """Accept no more requests, let running ones finish, abort the rest, and close.

        Returns whether all finished in time.
        """
        self._draining = True
        in_time = await self.server.drain(grace_s, self._end_all)
        self._end_all()
        if self.mesh is not None:
            await self.mesh.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.prober.close()
        await self.caches.close()
        if self._exact is not None:
            self._exact.close()
        await self.world.fleet.close()
        if self.recorder is not None:
            self.recorder.close()
        return in_time

    def _end_all(self) -> None:
        """Time is up: abort the requests of all remaining clients."""
        left = len(self.world.proxied_requests)
        if left:
            log.warning("stopping: requests aborted because they did not end in time: %d", left)
        self.world.end_all("the gateway is going down; ask another one")

    def _connect(self, at: EngineAt) -> Pool:
        place = at.place
        address = Address(place.host, place.port, place.tls, place.server_name)
        return Pool(address, self.settings.engines, forbidden=forbidden)

    def _later(self, at: int, call: Callable[[], None]) -> Any:
        return asyncio.get_running_loop().call_later(max(0.0, (at - now()) / SECOND), call)

    def _ended(self, proxied: ProxiedRequest, status: int) -> None:
        for watcher in self._watchers:
            watcher(proxied, status)

    def _note(self, engine: Engine, kind: str, well: bool, sent_at: int) -> None:
        self.prober.note(engine, kind, well, sent_at)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.world.sweep()
            self.prober.tick()
            if self.recorder is not None:
                self.recorder.flush(now())
