"""A pool of keep-alive connections to one engine; the latest used is reused first."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from poise.live.http.call import Address, Call, Kind, ResponseHandler
from poise.live.http.header import Headers, request_head
from poise.live.http.limits import PoolLimits
from poise.live.http.reply_memory import ReplyMemory
from poise.live.http.sweep import DeadlineTimer, period
from poise.live.http.upstream import Upstream


class Pool:
    """Sends requests to the engine at `address`, each on a connection of its own until it ends.

    tls: how to verify the engine where the address says TLS; None: the system's trusted certificates.
    forbidden: why nothing is sent to an IP address ("": requests may be), checked for every address of a name, each
    time that it is resolved; None: all may be.
    """

    def __init__(
        self,
        address: Address,
        limits: PoolLimits = PoolLimits(),  # noqa: B008  # frozen
        tls: ssl.SSLContext | None = None,
        forbidden: Callable[[str], str] | None = None,
    ) -> None:
        self.address = address
        self.limits = limits
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._forbidden = forbidden
        self._host = _authority(address)
        self.memory = ReplyMemory()
        self._idle: list[Upstream] = []
        self._upstreams: set[Upstream] = set()
        self._opening: dict[asyncio.Task[None], Call] = {}
        self._empty: asyncio.Future[None] | None = None
        waits = (limits.idle_s, limits.head_s, limits.stall_s)
        self._sweep = DeadlineTimer(self._upstreams, period(*waits))

    @property
    def connections(self) -> int:
        """Open connections, in use or not."""
        return len(self._upstreams)

    @property
    def idle(self) -> int:
        """Open connections without a request."""
        return len(self._idle)

    def send(
        self,
        method: bytes,
        target: bytes,
        headers: Headers | bytes,
        body: bytes,
        handler: ResponseHandler,
        fresh: bool = False,
    ) -> Call:
        """Send a request; host, length and hop-by-hop headers are written here.

        headers: with names in lower case, or as `header.lines_of` has written them.
        fresh: on a new connection, since a kept one was closed under this request.
        `handler` gets the answer later, never before this returns. Raises ValueError for a header that contains a line
        end.
        """
        request = (request_head(method, target, self._host, headers, len(body)), body)
        call = Call(handler)
        idle = self._idle
        while idle and not fresh:
            upstream = idle.pop()
            if upstream.usable:
                upstream.begin(call, method, request)
                return call
        task = asyncio.get_running_loop().create_task(self._open(call, method, request))
        call.opening = task
        self._opening[task] = call
        task.add_done_callback(self._opening.pop)
        return call

    async def close(self) -> None:
        """Close every connection; running requests fail as cut."""
        for task, call in list(self._opening.items()):
            task.cancel()
            call.fail("cut", "the pool was closed")
        if self._opening:
            await asyncio.wait(list(self._opening))
        for upstream in list(self._upstreams):  # among them what was opened although its opening was called off
            upstream.fail("cut", "the pool was closed")
        if self._upstreams:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty
        self._sweep.stop()

    # Called by connections -------------------------------------------------------------------------------------------

    def join(self, upstream: Upstream) -> None:
        """A connection is open."""
        self._upstreams.add(upstream)
        self._sweep.start()

    def keep(self, upstream: Upstream) -> bool:
        """An answer is complete: True if the connection is kept."""
        if len(self._idle) >= self.limits.idle:
            return False
        self._idle.append(upstream)
        return True

    def leave(self, upstream: Upstream) -> None:
        """A connection is closed."""
        self._upstreams.discard(upstream)
        if upstream in self._idle:
            self._idle.remove(upstream)
        if self._empty is not None and not self._upstreams and not self._empty.done():
            self._empty.set_result(None)

    async def _open(self, call: Call, method: bytes, request: tuple[bytes, bytes]) -> None:
        """Connect, and send."""
        try:
            upstream = await self._connect()
        except Exception as error:
            call.fail(*_why(error, self.address, self.limits.connect_s))
            return
        call.opening = None
        if call.over:
            upstream.drop()
        else:
            upstream.begin(call, method, request)

    async def _connect(self) -> Upstream:
        async with asyncio.timeout(self.limits.connect_s or None):
            *others, last = await self._hosts()
            for host in others:
                try:
                    return await self._reach(host)
                except OSError:
                    continue
            return await self._reach(last)

    async def _reach(self, host: str) -> Upstream:
        """Connect to the engine at one of its addresses."""
        address = self.address
        name = address.server_name or address.host if self._tls is not None else None
        upstream = Upstream(self)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: cast(asyncio.Protocol, upstream), host, address.port, ssl=self._tls, server_hostname=name
            )
        except BaseException:  # uvloop closes what it had opened by then without a word to the protocol
            upstream.give_up()
            raise
        return upstream

    async def _hosts(self) -> list[str]:
        """The addresses that requests may be sent to; gaierror where there are none."""
        host, port, *_ = self.address
        if self._forbidden is None or _is_ip(host):
            return [host]
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        why = {str(each[4][0]): self._forbidden(str(each[4][0])) for each in found}
        allowed = [address for address, reason in why.items() if not reason]
        if not allowed:
            raise socket.gaierror(f"nothing is sent to {', '.join(f'{each} ({why[each]})' for each in why)}")
        return allowed


def _why(error: Exception, address: Address, connect_s: float) -> tuple[Kind, str]:
    """The failure kind of a connection error; a host that cannot be a name raises a UnicodeError."""
    where = f"{address.host}:{address.port}"
    if isinstance(error, TimeoutError):
        return "timeout", f"no connection to {where} in {connect_s:g} s"
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return "dns", f"{address.host} has no address: {error}"
    return "refused", f"no connection to {where}: {error}"


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _authority(address: Address) -> bytes:
    """The Host header: without the port where the scheme implies it, in brackets where the host is an IPv6 address."""
    host = address.server_name or (f"[{address.host}]" if ":" in address.host else address.host)
    default = 443 if address.tls else 80
    return (host if address.port == default else f"{host}:{address.port}").encode()
