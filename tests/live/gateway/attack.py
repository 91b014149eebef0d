"""What attackers need: bytes on a socket, and an engine that answers whatever it likes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from poise.live.discovery.address import engine as place
from poise.live.emulator.options import Options
from poise.live.gateway.fleet import EngineAt
from tests.live.gateway.live import MODEL, Live
from tests.patience import PATIENCE_S

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MODELS = b'{"object":"list","data":[{"id":"' + MODEL.encode() + b'","object":"model"}]}'


async def raw(port: int, *pieces: bytes) -> bytes:
    """Send pieces as they are, one write each, and read all that comes until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                writer.write_eof()
            return await read_all(reader)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side closes or breaks."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            received += data
    return received


def post(body: bytes, target: bytes = b"/v1/completions", headers: Sequence[bytes] = ()) -> bytes:
    """A request as it should be, that closes its connection."""
    lines = [b"POST %b HTTP/1.1" % target, b"host: x", b"connection: close", b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, *headers, b"", body])


class Evil:
    """An engine that has the model, and to every POST does what `script` does."""

    def __init__(self, script: Script, models: bytes = MODELS) -> None:
        self.script = script
        self.models = models
        self.heads: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /v1/models"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(self.models) + self.models)
        elif head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        else:
            self.heads.append(head)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            await self.script(reader, writer)
        await writer.drain()


class Besieged(Live):
    """A gateway before an evil engine, and before good ones if asked for."""

    def __init__(self, script: Script, good: int = 0, **given: object) -> None:
        super().__init__([Options(MODEL, port=0, speed=20.0, faults=True)] * good, **given)  # type: ignore[arg-type]
        self.evil = Evil(script)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.gateway.prober.add(EngineAt(place(await self.evil.start(), "test", "evil")))
        await self.until(lambda: len(self.gateway.world.fleet.serving) == len(self.engines) + 1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        await self.evil.stop()


def says(*pieces: bytes) -> Script:
    """An engine that says this, and closes."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return script


def forever(head: bytes, piece: bytes) -> Script:
    """An engine that says this, and then the same again and again without an end."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return script
