"""An emulated engine on a port: starts, stops, and injects faults."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Self, cast

from poise.core.engine.replica import Replica
from poise.core.policy import Bundle
from poise.live.emulator.engine import Core
from poise.live.emulator.fault import Fault, Faults
from poise.live.emulator.options import Options, Plan, plan
from poise.live.emulator.service import Service
from poise.live.http import Server
from poise.live.http.connection import Connection
from poise.live.http.limits import Limits

_LIMITS: Final = Limits(body_bytes=1 << 28, idle_s=5.0)
"""Limits of vLLM's server: bodies practically unbounded, idle connections closed after five seconds."""


class Emulated:
    """One engine in this process; several may run in one loop.

        async with Emulated(Options(port=0, faults=True), Policies()) as engine:
            … engine.url …

    policies: those that the engine uses, but for the cache; `poise.policies.Policies` has vLLM's by default. Each start
    of the engine gets copies of its own.
    port: where it listens, once started.  faults: the active ones.
    """

    def __init__(self, options: Options, policies: Bundle) -> None:
        self.plan: Plan = plan(options)
        self.port = options.port
        self.faults = Faults()
        self._policies = policies
        self._listener: asyncio.Server | None = None
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._changes: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"http://{self.plan.options.host}:{self.port}"

    @property
    def replica(self) -> Replica:
        """The running replica."""
        return self.core.replica

    @property
    def kv_endpoint(self) -> str:
        """The endpoint of its KV events, "" if they are not published."""
        return self.core.publisher.endpoint if self.core.publisher is not None else ""

    @property
    def replay_endpoint(self) -> str:
        """The endpoint for replays of missed KV events, "" if there is none."""
        return self.core.publisher.replay_endpoint if self.core.publisher is not None else ""

    async def start(self) -> None:
        """Start with an empty cache, and listen."""
        self.core = Core(self.plan, self._policies)
        self.service = Service(self)
        self.server = Server(self.service, _LIMITS)
        try:
            await self._listen()
        except OSError:
            await self.core.stop()
            raise

    async def stop(self, grace_s: float = 0.0) -> None:
        """Stop listening, let running answers end for `grace_s`, and close."""
        await self.settled()
        for timer in self._ends.values():
            timer.cancel()
        self._ends.clear()
        self._deafen()
        if grace_s and "stall" not in self.faults:
            await self.server.drain(grace_s)
            await self.core.stop()
        else:
            await self.core.stop()
            await self.server.drain(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # Faults ----------------------------------------------------------------------------------------------------------

    def fault(self, kind: str, **given: Any) -> None:
        """Inject a fault (`fault.Fault`), as `POST /fault` does; a crash is complete once `settled`."""
        self.begin(Fault(kind, **given))

    async def settled(self) -> None:
        """Wait until a crash, or the end of one, is complete."""
        while self._changes is not None and not self._changes.done():
            await self._changes

    def begin(self, fault: Fault) -> None:
        """Start a fault, and end it after its time, if it has one."""
        self._end(fault.kind)
        self.faults.begin(fault)
        match fault.kind:
            case "stall":
                self.core.pace.freeze()
            case "slow":
                self.core.change_speed(fault.factor)
            case "refuse":
                self._deafen()
            case "crash":
                self._deafen()
                self._change(self._die())
        if fault.for_s is not None:
            loop = asyncio.get_running_loop()
            self._ends[fault.kind] = loop.call_later(fault.for_s, self._end, fault.kind)

    def clear(self) -> None:
        """End all faults."""
        for kind in list(self.faults.active):
            self._end(kind)

    def _end(self, kind: str) -> None:
        timer = self._ends.pop(kind, None)
        if timer is not None:
            timer.cancel()
        if self.faults.end(kind) is None:
            return
        match kind:
            case "stall":
                self.core.pace.thaw()
                self.service.unpark()
            case "slow":
                self.core.change_speed(1.0)
            case "refuse":
                self._change(self._listen())
            case "crash":
                self._change(self._revive())

    def _change(self, step: Any) -> None:
        """Run the asynchronous parts one after the other."""
        before = self._changes

        async def change() -> None:
            if before is not None:
                await before
            await step

        self._changes = asyncio.get_running_loop().create_task(change())

    async def _die(self) -> None:
        await self.core.stop()
        await self.server.drain(0)

    async def _revive(self) -> None:
        """Restart after a crash: faults from before it are no longer active."""
        for kind in list(self.faults.active):
            timer = self._ends.pop(kind, None)
            if timer is not None:
                timer.cancel()
            self.faults.end(kind)
        await self.start()

    async def _listen(self) -> None:
        if self._listener is None and "refuse" not in self.faults and "crash" not in self.faults:
            loop, server = asyncio.get_running_loop(), self.server
            listener = await loop.create_server(
                lambda: cast(asyncio.Protocol, Connection(server, loop)),
                self.plan.options.host,
                self.port,
                backlog=4096,
            )
            self._listener = listener
            self.port = int(listener.sockets[0].getsockname()[1])

    def _deafen(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
