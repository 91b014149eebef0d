"""One connection between two gateways: frames in order, and the greeting at its beginning."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar, cast

from poise.live.peers.wire import (
    FIRST_BYTES,
    FRAME_BYTES,
    LENGTH_BYTES,
    VERSION,
    Challenge,
    FirstWord,
    Hello,
    Message,
    Welcome,
    first_word,
    frame,
    messages,
    proof,
)

GREETING_S: Final = 5.0
"""Longest time of a greeting."""
SILENCE_S: Final = 5.0
"""Longest silence of a gateway before it counts as gone."""
BEAT_S: Final = 1.0
"""Longest time between two frames: an empty one where there is nothing to report."""
UNSENT_BYTES: Final = 32 << 20
"""A gateway that has not read so many bytes is dropped; it gets everything anew when it is back."""

UNREAD: Final = 4
"""Most frames before the greeting is over; it has two in each direction."""

Word = TypeVar("Word", Challenge, Hello, Welcome)


class Refused(Exception):
    """The other side is not a gateway, or has another key."""


class Link(asyncio.Protocol):
    """An open connection. gateway: the other side's name.

    opened: called with a connection that the other side opened.
    """

    def __init__(self, opened: Callable[[Link], None] | None = None) -> None:
        self.gateway = ""
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._most = FIRST_BYTES
        self._frames: deque[bytes] = deque()  # of the greeting
        self._hear: Callable[[list[Message]], None] | None = None
        self._heard_at = self._loop.time()
        self._gone = asyncio.Event()
        self._broke = False
        self._why = ConnectionError("the connection ended")
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # Called by the transport -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no class of asyncio's
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: hand on each frame that is whole."""
        self._heard_at = self._loop.time()
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= LENGTH_BYTES and not self._gone.is_set():
            body = start + LENGTH_BYTES
            length = int.from_bytes(buffer[start:body], "big")
            if length > self._most:
                self._end(f"a frame of {length} bytes")
            elif len(buffer) - body < length:
                break
            else:
                start = body + length
                self._frame(bytes(buffer[body:start]))
        del buffer[:start]

    def pause_writing(self) -> None:
        """The other side has much to read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The other side has read most of it."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended: it broke, or the other side closed it."""
        self._broke = self._broke or exc is not None
        self._end(str(exc or "the connection ended"))

    def _frame(self, body: bytes) -> None:
        if self._hear is None:
            self._frames.append(body)
            self._news.set()
            if len(self._frames) > UNREAD:
                self._end("too many frames")
            return
        try:
            heard = messages(body)
        except ValueError as error:
            self._end(str(error))
            return
        self._hear(heard)

    def _end(self, why: str) -> None:
        """Nothing is heard any more."""
        if not self._gone.is_set():
            self._why = ConnectionError(why)
            for each in (self._gone, self._news, self._writable):
                each.set()
            self._transport.abort()

    # The greeting ----------------------------------------------------------------------------------------------------

    async def greet(self, own: str, key: bytes) -> bool:
        """Call as gateway `own`; whether the other side wants the prompts that were sent before it ran.

        Raises `Refused`, and OSError where the connection breaks.
        """
        async with asyncio.timeout(GREETING_S):
            challenge = await self._word(Challenge)
            self.gateway = challenge.gateway
            if challenge.version != VERSION:
                raise Refused(f"it speaks version {challenge.version}, and this gateway {VERSION}; run one version")
            nonce = os.urandom(16)
            answer = proof(key, "caller", challenge.nonce, own, self.gateway)
            self._send(frame(Hello(own, nonce, answer)))
            welcome = await self._word(Welcome)
            if not hmac.compare_digest(welcome.proof, proof(key, "listener", nonce, self.gateway, own)):
                raise Refused("it has another key; give all gateways the same")
            return welcome.empty

    async def answer(self, own: str, key: bytes, empty: bool) -> None:
        """Answer a caller's greeting; raises as `greet` does."""
        async with asyncio.timeout(GREETING_S):
            nonce = os.urandom(16)
            self._send(frame(Challenge(VERSION, own, nonce)))
            hello = await self._word(Hello)
            self.gateway = hello.gateway
            if not hmac.compare_digest(hello.proof, proof(key, "caller", nonce, self.gateway, own)):
                raise Refused("a caller has another key; give all gateways the same")
            self._send(frame(Welcome(proof(key, "listener", hello.nonce, own, self.gateway), empty)))

    async def _word(self, kind: type[Word]) -> Word:
        while not self._frames and not self._gone.is_set():
            self._news.clear()
            await self._news.wait()
        if self._broke and not self._frames:
            raise self._why
        try:
            word: FirstWord = first_word(self._frames.popleft())
        except (ValueError, IndexError):
            raise Refused("the greeting broke off: it is not a gateway, or has another key") from None
        if not isinstance(word, kind):
            raise Refused(f"it sent {type(word).__name__} where {kind.__name__} is due")
        return word

    # Reports ---------------------------------------------------------------------------------------------------------

    async def hear(self, hear: Callable[[list[Message]], None]) -> None:
        """Call `hear` with what the other side reports.

        OSError when the connection ends, is silent for too long, or brings anything else.
        """
        self._hear, self._most = hear, FRAME_BYTES
        while self._frames:
            self._frame(self._frames.popleft())
        while not self._gone.is_set():
            silent_at = self._heard_at + SILENCE_S
            if silent_at <= self._loop.time():
                raise ConnectionError("it is silent")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(silent_at):
                    await self._gone.wait()
        raise self._why

    def write(self, data: bytes) -> bool:
        """Send a frame, unless the connection has ended; False where the other side has stopped reading."""
        if not self._gone.is_set() and self._transport.get_write_buffer_size() > UNSENT_BYTES:
            return False
        self._send(data)
        return True

    def _send(self, data: bytes) -> None:
        """Nothing goes out once the connection has ended: a transport of uvloop that is closed raises RuntimeError."""
        if not self._gone.is_set():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the other side has read most of what was sent."""
        await self._writable.wait()

    async def closed(self) -> None:
        """Return when the other side has closed the connection; it never sends anything here."""
        await self._gone.wait()

    def close(self) -> None:
        """Close at once."""
        self._end("it was closed here")
