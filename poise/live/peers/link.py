"""One connection between two gateways: frames in order, and the greeting at its beginning."""

from __future__ import annotations

import asyncio
import hmac
import os
from typing import Final, TypeVar

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

Word = TypeVar("Word", Challenge, Hello, Welcome)


class Refused(Exception):
    """The other side is not a gateway, or has another key."""


class Link:
    """An open connection. gateway: the other side's name."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.gateway = ""
        self._reader = reader
        self._writer = writer

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
            self._writer.write(frame(Hello(own, nonce, answer)))
            welcome = await self._word(Welcome)
            if not hmac.compare_digest(welcome.proof, proof(key, "listener", nonce, self.gateway, own)):
                raise Refused("it has another key; give all gateways the same")
            return welcome.empty

    async def answer(self, own: str, key: bytes, empty: bool) -> None:
        """Answer a caller's greeting; raises as `greet` does."""
        async with asyncio.timeout(GREETING_S):
            nonce = os.urandom(16)
            self._writer.write(frame(Challenge(VERSION, own, nonce)))
            hello = await self._word(Hello)
            self.gateway = hello.gateway
            if not hmac.compare_digest(hello.proof, proof(key, "caller", nonce, self.gateway, own)):
                raise Refused("a caller has another key; give all gateways the same")
            self._writer.write(frame(Welcome(proof(key, "listener", hello.nonce, own, self.gateway), empty)))

    async def _word(self, kind: type[Word]) -> Word:
        try:
            word: FirstWord = first_word(await self._frame(FIRST_BYTES))
        except (ValueError, asyncio.IncompleteReadError):
            raise Refused("the greeting broke off: it is not a gateway, or has another key") from None
        if not isinstance(word, kind):
            raise Refused(f"it sent {type(word).__name__} where {kind.__name__} is due")
        return word

    async def read(self) -> list[Message]:
        """The next messages; OSError when the connection ends, is silent for too long, or brings anything else."""
        try:
            async with asyncio.timeout(SILENCE_S):
                return messages(await self._frame(FRAME_BYTES))
        except (ValueError, asyncio.IncompleteReadError) as error:
            raise ConnectionError(str(error)) from None

    async def _frame(self, most: int) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
        if length > most:
            raise ValueError(f"a frame of {length} bytes")
        return await self._reader.readexactly(length)

    def write(self, data: bytes) -> bool:
        """Send a frame; False where the other side has stopped reading."""
        if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES:
            return False
        self._writer.write(data)
        return True

    async def drain(self) -> None:
        """Wait until the other side has read most of what was sent."""
        await self._writer.drain()

    async def closed(self) -> None:
        """Return when the other side has closed the connection; it never sends anything here."""
        await self._reader.read(1)

    def close(self) -> None:
        """Close at once."""
        self._writer.transport.abort()
