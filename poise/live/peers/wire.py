"""The messages between gateways, and how each proves to the other that it has the shared key.

A frame is its length in four bytes and an array in MessagePack. The listener begins with a challenge; the caller
answers it and sends one of its own, and the listener answers that. Both answers are an HMAC-SHA256 of the challenge, so
the key never travels, and neither side reveals anything to one that lacks it. Afterwards only the caller sends.

Engines, models, tenants and adapters travel by name, because each gateway numbers them for itself; prompts travel as
hashes of their prefixes.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

VERSION: Final = 1
FIRST_BYTES: Final = 1024
"""Most bytes of a frame before both sides have proved that they have the key."""
FRAME_BYTES: Final = 64 << 20
LENGTH_BYTES: Final = 4


class Challenge(msgspec.Struct, tag="challenge", array_like=True, frozen=True):
    """The listener's first word. gateway: a random name of this run of it."""

    version: int
    gateway: str
    nonce: bytes


class Hello(msgspec.Struct, tag="hello", array_like=True, frozen=True):
    """The caller's answer."""

    gateway: str
    nonce: bytes
    proof: bytes


class Welcome(msgspec.Struct, tag="welcome", array_like=True, frozen=True):
    """The listener's answer. empty: it knows of no prompts that were sent before it ran, and wants them."""

    proof: bytes
    empty: bool


class Sent(msgspec.Struct, tag="sent", array_like=True, frozen=True):
    """A request waits at the sender, or was sent to `engine`; fields as in `RequestView`.

    decode: the other half of a P/D pair, else empty.  age_us: microseconds since it arrived.  lora: the adapter's name,
    empty for none.
    """

    id: int
    engine: str
    decode: str
    age_us: int
    prompt_tokens: int
    max_tokens: int
    predicted_tokens: int
    ids: tuple[int, ...]
    ends: tuple[int, ...]
    model: str
    session: int
    tenant: str
    lora: str
    priority: int


class Ended(msgspec.Struct, tag="ended", array_like=True, frozen=True):
    """A request of the sender ended."""

    id: int
    output_tokens: int


class Prefix(msgspec.Struct, tag="prefix", array_like=True, frozen=True):
    """A prompt of these extents was sent to `engine` before."""

    engine: str
    ids: tuple[int, ...]
    ends: tuple[int, ...]


class Answered(msgspec.Struct, tag="answered", array_like=True, frozen=True):
    """`engine` has the state of a response of /v1/responses."""

    response: str
    engine: str


Message = Sent | Ended | Prefix | Answered
FirstWord = Challenge | Hello | Welcome

_ENCODER: Final = msgspec.msgpack.Encoder()
_MESSAGES: Final = msgspec.msgpack.Decoder(list[Message])
_FIRST: Final = msgspec.msgpack.Decoder(FirstWord)


def frame(content: FirstWord | Sequence[Message]) -> bytes:
    """The bytes of one frame."""
    body = _ENCODER.encode(content)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def messages(body: bytes) -> list[Message]:
    """The messages of a frame's body; ValueError for anything else."""
    try:
        return _MESSAGES.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"no list of messages: {error}") from None


def first_word(body: bytes) -> FirstWord:
    """One of the three frames that begin a connection; ValueError for anything else."""
    try:
        word: FirstWord = _FIRST.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"no greeting of a gateway: {error}") from None
    return word


def proof(key: bytes, role: str, nonce: bytes, *gateways: str) -> bytes:
    """What shows that a gateway in this `role` has the key. gateways: the one that proves it, and the other."""
    return hmac.digest(key, b"\0".join((role.encode(), nonce, *(each.encode() for each in gateways))), "sha256")
