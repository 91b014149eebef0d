"""A client on the wire's own pool, and a gateway's record: what tests of other fronts share."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from poise.core.action import Action
from poise.core.event import Event
from poise.core.records.trace import Trace
from poise.live.http.call import Address, Call, Failure
from poise.live.http.pool import Pool
from tests.patience import PATIENCE_S


class Answer:
    """Hears of one answer. status: 0 until there is one.  began, over: futures."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self.broken: Failure | None = None
        self.call: Call | None = None
        self.began: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, dict(headers)

    def data(self, data: bytes) -> None:
        self.parts.append(data)
        if not self.began.done():
            self.began.set_result(None)

    def end(self) -> None:
        self.over.set_result(None)

    def failed(self, why: Failure) -> None:
        self.broken = why
        self.over.set_result(None)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks what listens on a port."""

    def __init__(self, port: int) -> None:
        self._pool = Pool(Address("127.0.0.1", port))

    def begin(self, path: str, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        """Ask; the answer comes later."""
        answer = Answer()
        given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        answer.call = self._pool.send(
            b"POST" if body else b"GET", path.encode(), given, json.dumps(body).encode() if body else b"", answer
        )
        return answer

    async def ask(self, path: str, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        """Ask, and wait for the whole answer."""
        answer = self.begin(path, headers, **body)
        await asyncio.wait_for(answer.over, PATIENCE_S)
        return answer

    async def complete(self, prompt: str, headers: dict[str, str] | None = None, **given: Any) -> Answer:
        """A completion of a few tokens."""
        return await self.ask("/v1/completions", headers, **_sent(prompt, given))

    def start(self, prompt: str, **given: Any) -> Answer:
        """Begin a completion."""
        return self.begin("/v1/completions", **_sent(prompt, given))

    async def close(self) -> None:
        await self._pool.close()


def _sent(prompt: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"model": "llama-3.1-8b", "prompt": prompt, "max_tokens": 4, "ignore_eos": True, **given}


class Record:
    """A gateway's record in memory, on which tests may wait."""

    text = False

    def __init__(self) -> None:
        self.trace = Trace()
        self.items: list[Event | Action] = []
        self._waits: list[tuple[Any, asyncio.Future[None]]] = []

    def add(self, item: Event | Action) -> None:
        self.trace.add(item)
        self.items.append(item)
        for kind, future in self._waits:
            if isinstance(item, kind) and not future.done():
                future.set_result(None)

    def flush(self, now: int) -> None:
        pass

    def close(self) -> None:
        pass

    def of(self, *kinds: type) -> list[Any]:
        """Those of some kinds, in order."""
        return [item for item in self.items if isinstance(item, kinds)]

    async def next(self, kind: type, count: int = 1) -> None:
        """Wait until so many of a kind have come."""
        while len(self.of(kind)) < count:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits.append((kind, future))
            await asyncio.wait_for(future, PATIENCE_S)
