"""The connections of a gateway to all others: what happens here is reported to them, and what they report decides here.

Each gateway calls every other one and reports on the connection that it opened, so each pair has two. A gateway that
calls, for the first time or again, first reports all of its open requests. One whose connection ends, or that is silent
for `SILENCE_S`, counts as gone with all of its requests; its clients' connections end with it, and so do the engines'.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from poise.core.event import PeerEnded, PeerLost, PeerSent
from poise.live.gateway.api import Api
from poise.live.gateway.fleet import Engine
from poise.live.gateway.world import World
from poise.live.peers.link import BEAT_S, Link, Refused
from poise.live.peers.translation import Translation
from poise.live.peers.wire import Answered, Message, frame

log = logging.getLogger("poise.gateway")

Address = Path | tuple[str, int]
"""A Unix socket, or host and port."""
FIRST_WAIT_S: Final = 0.05
LAST_WAIT_S: Final = 5.0
BATCH: Final = 256
"""Prompts in one frame for a new gateway."""


class Mesh:
    """Reports to other gateways, and passes on what they report.

    key: what all gateways share; empty where only this machine's user can connect.  period_s: the longest time for
    which news is gathered before it is sent.
    """

    def __init__(self, world: World, api: Api, key: bytes = b"", period_s: float = 0.005) -> None:
        self.name = secrets.token_hex(8)
        self._world = world
        self._api = api
        self._key = key
        self._period_s = period_s
        self._names = Translation(world, api)
        self._links: dict[str, Link] = {}
        """By gateway, those that this one called."""
        self._callers: dict[str, Link] = {}
        self._numbers: dict[str, int] = {}
        self._answers: list[Answered] = []
        self._flushing = False
        self._empty = True
        self._calling: dict[Address, asyncio.Task[None]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._beating: asyncio.Task[None] | None = None
        self._refusals: dict[str, str] = {}
        world.share = self._wake
        world.connected = lambda: len(self._links)
        api.answered = self._answered

    @property
    def connected(self) -> int:
        """The gateways that hear this one."""
        return len(self._links)

    async def listen(self, address: Address) -> int:
        """Let other gateways call at `address`; returns the port (0 for a Unix socket). OSError where it is taken."""
        loop = asyncio.get_running_loop()
        self._beating = self._beating or loop.create_task(self._beat())
        if isinstance(address, Path):
            self._servers.append(await loop.create_unix_server(lambda: Link(self._called), address))
            return 0
        server = await loop.create_server(lambda: Link(self._called), *address)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def call(self, addresses: Iterable[Address]) -> None:
        """Keep connections to the gateways at these addresses from now on, and call no others."""
        wanted = set(addresses)
        for gone in self._calling.keys() - wanted:
            self._calling.pop(gone).cancel()
        for address in wanted - self._calling.keys():
            self._calling[address] = asyncio.get_running_loop().create_task(self._keep(address))

    async def close(self) -> None:
        """End all connections."""
        self._flush()
        for server in self._servers:
            server.close()
        tasks = [*self._calling.values(), *self._serving, *([self._beating] if self._beating else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Reporting -------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """There is news."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_later(self._period_s, self._flush)

    def _answered(self, response: str, engine: Engine) -> None:
        self._answers.append(Answered(response, engine.name))
        self._wake()

    def _flush(self) -> None:
        self._flushing = False
        control = self._world.control
        news, control.outbox = control.outbox or [], []
        answers, self._answers = self._answers, []
        if not self._links or not (news or answers):
            return
        data = frame([*self._names.messages(news), *answers])
        for link in list(self._links.values()):
            self._write(link, data)

    def _write(self, link: Link, data: bytes) -> None:
        if not link.write(data):
            log.warning("gateway %s does not read; its connection is closed", link.gateway)
            link.close()

    async def _beat(self) -> None:
        silence = frame([])
        while True:
            await asyncio.sleep(BEAT_S)
            for link in list(self._links.values()):
                self._write(link, silence)

    async def _keep(self, address: Address) -> None:
        """Call a gateway, report to it as long as it listens, and call again."""
        wait, loop = FIRST_WAIT_S, asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._attempt(address, lambda: self._connect(address), self._report)
            if loop.time() - began > LAST_WAIT_S:  # it was a gateway, and not this one itself
                wait = FIRST_WAIT_S
            await asyncio.sleep(wait)
            wait = min(2 * wait, LAST_WAIT_S)

    async def _connect(self, address: Address) -> Link:
        loop = asyncio.get_running_loop()
        if isinstance(address, Path):
            return (await loop.create_unix_connection(Link, str(address)))[1]
        return (await loop.create_connection(Link, *address))[1]

    async def _attempt(
        self, place: Address | str, open_: Callable[[], Awaitable[Link]], use: Callable[[Link], Awaitable[None]]
    ) -> None:
        """Use a connection until it ends. A refusal is logged once."""
        link: Link | None = None
        try:
            link = await open_()
            await use(link)
        except OSError:
            pass  # it is not there, or is gone
        except Refused as error:
            if self._refusals.get(str(place)) != str(error):
                self._refusals[str(place)] = str(error)
                log.warning("gateway at %s: %s", place, error)
        finally:
            if link is not None:
                link.close()

    async def _report(self, link: Link) -> None:
        """Report to a gateway that this one called, until it is gone."""
        empty = await link.greet(self.name, self._key)
        if link.gateway == self.name or link.gateway in self._links:
            return  # this gateway itself, or one that has several addresses
        self._flush()  # what is not sent yet is in the list of open requests
        self._links[link.gateway] = link
        log.info("reporting to gateway %s", link.gateway)
        try:
            self._write(link, frame(self._names.messages(self._open())))
            if empty:
                await self._hand_over(link)
            await link.closed()
        finally:
            del self._links[link.gateway]

    def _open(self) -> list[PeerSent | PeerEnded]:
        """All requests of this gateway that have not ended."""
        control, now = self._world.control, self._world.clock()
        sent = [PeerSent(now, -1, each.request, each.replica, each.decode) for each in control.flights.values()]
        return [*sent, *(PeerSent(now, -1, request) for request in control.held)]

    async def _hand_over(self, link: Link) -> None:
        """Send what is believed cached, without keeping other work from going on."""
        batch: list[Message] = []
        for prompt in list(self._names.prompts()):
            batch.append(prompt)
            if len(batch) == BATCH:
                self._write(link, frame(batch))
                batch = []
                await link.drain()
        self._write(link, frame(batch))

    # Hearing ---------------------------------------------------------------------------------------------------------

    def _called(self, link: Link) -> None:
        """Another gateway has opened a connection."""

        async def opened() -> Link:
            return link

        task = asyncio.get_running_loop().create_task(self._attempt("another address", opened, self._hear))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: link.close())  # one that was cancelled before it began

    async def _hear(self, link: Link) -> None:
        """Pass on what another gateway reports, until it is gone."""
        await link.answer(self.name, self._key, self._empty)
        if link.gateway == self.name:
            return
        self._empty = False
        number = self._numbers.setdefault(link.gateway, len(self._numbers))
        before = self._callers.get(link.gateway)
        if before is not None:
            before.close()
            self._lost(number)
        self._callers[link.gateway] = link
        ids: dict[int, int] = {}
        try:
            await link.hear(lambda messages: self._take(messages, number, ids))
        finally:
            if self._callers.get(link.gateway) is link:
                del self._callers[link.gateway]
                self._lost(number)

    def _lost(self, number: int) -> None:
        self._world.turn(PeerLost(self._world.clock(), number))

    def _take(self, messages: list[Message], gateway: int, ids: dict[int, int]) -> None:
        """Messages of a gateway; `ids` maps its requests' ids to those that they have here."""
        self._world.turn_all(self._names.events(messages, gateway, ids, self._world.clock()))
