"""An engine in this process and clients of it, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.policies import Policies
from tests.patience import PATIENCE_S

CHAT = "/v1/chat/completions"


def an_engine(**given: Any) -> Emulated:
    """A fast one, with faults, on a free port."""
    options: dict[str, Any] = {"port": 0, "served_model_name": ("tiny",), "speed": 100.0, "faults": True}
    return Emulated(Options(**{**options, **given}), Policies())


async def until(what: Callable[[], Any]) -> None:
    """Let the loop turn until `what` holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0)


def chat(content: str = "Hello", **given: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **given}


class Line:
    """One connection of a client that knows no more HTTP than it must."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, engine: Emulated) -> Line:
        async with asyncio.timeout(PATIENCE_S):
            return cls(*await asyncio.open_connection("127.0.0.1", engine.port))

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "host: engine", f"content-length: {len(raw)}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*head, "", ""]).encode() + raw)

    async def line(self) -> bytes:
        """The next line; empty when the connection has ended."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readline()

    async def rest(self) -> bytes:
        """All that comes until the connection ends; what a reset leaves of it."""
        async with asyncio.timeout(PATIENCE_S):
            parts = []
            try:
                while part := await self.reader.read(65536):
                    parts.append(part)
            except ConnectionError:
                parts.append(b"<reset>")
            return b"".join(parts)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        status = int((await self.line()).split()[1])
        headers = {}
        while (line := (await self.line()).decode().strip()) != "":
            name, _, value = line.partition(": ")
            headers[name] = value
        if "content-length" in headers:
            async with asyncio.timeout(PATIENCE_S):
                return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await self.line(), 16):
            async with asyncio.timeout(PATIENCE_S):
                body += (await self.reader.readexactly(size + 2))[:-2]
        await self.line()
        return status, headers, body

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def ask(
    engine: Emulated, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request over a connection of its own."""
    line = await Line.to(engine)
    line.send(method, path, body, **headers)
    try:
        return await line.answer()
    finally:
        await line.close()


def events(body: bytes) -> list[Any]:
    """The data of server-sent events, read as JSON but for the last one."""
    data = [each.removeprefix("data: ") for each in body.decode().split("\n\n") if each]
    assert data[-1] == "[DONE]"
    return [json.loads(each) for each in data[:-1]]
