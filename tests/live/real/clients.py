"""Many clients at once, in one loop; each notes how its request ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from poise.live.http.call import Address
from poise.live.http.limits import PoolLimits
from poise.live.http.pool import Pool
from tests.live.gateway.live import Answer
from tests.live.real.process import NAME

PATIENCE_S = 90.0


class Clients:
    """Clients of the server at `url`, which ask for `model` with the API key `key`."""

    def __init__(self, url: str, model: str = NAME, key: str = "") -> None:
        at = urlsplit(url)
        self._model = model
        self._headers = [(b"content-type", b"application/json")]
        if key:
            self._headers.append((b"authorization", f"Bearer {key}".encode()))
        self._pool = Pool(Address(at.hostname or "", at.port or 80), PoolLimits(idle=256, head_s=0, stall_s=0))

    async def close(self) -> None:
        await self._pool.close()

    def ask(self, path: str, body: dict[str, Any]) -> Answer:
        """Send a request."""
        answer = Answer()
        raw = json.dumps({"model": self._model, **body}).encode()
        answer.call = self._pool.send(b"POST", path.encode(), self._headers, raw, answer)
        return answer

    def complete(self, prompt: str, tokens: int, *, stream: bool = True) -> Answer:
        """Ask for a completion of so many tokens."""
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": stream}
        return self.ask("/v1/completions", body)


async def ended(answers: list[Answer]) -> list[Answer]:
    """Wait until all have ended, once each."""
    async with patience(
        lambda: f"{sum(not answer.over.is_set() for answer in answers)} of {len(answers)} answers open"
    ):
        for answer in answers:
            await answer.over.wait()
    return answers


async def until(holds: Callable[[], Any], what: str | Callable[[], str]) -> None:
    """Wait until something holds, which may take a while to find out; fail if it never does."""
    async with patience(what):
        while not await asyncio.to_thread(holds):
            pass


@contextlib.asynccontextmanager
async def patience(what: str | Callable[[], str], seconds: float = PATIENCE_S) -> AsyncIterator[None]:
    """Fail where it takes longer, and say what was waited for."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        pytest.fail(f"waited for {seconds:.0f} s: {what if isinstance(what, str) else what()}")
