"""Embeddings: each input is a request that computes its prompt; the answer is sent when all are computed."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

from poise.core.chance import mix
from poise.live.emulator import shape
from poise.live.emulator.ask import EngineRequest
from poise.live.emulator.reply import Outlet, Reply

_WIDTH: Final = 16


class Vectors:
    """The inputs of one embeddings request; sends the answer when the last one is computed."""

    def __init__(self, asks: list[EngineRequest], exchange: Outlet, name: str, created: int, packed: bool) -> None:
        self.asks = asks
        self.exchange = exchange
        self.name = name
        self.created = created
        self.packed = packed
        self.left = len(asks)

    def one_more(self) -> None:
        """One input is computed."""
        self.left -= 1
        if not self.left:
            vectors = [self._vector(ask) for ask in self.asks]
            self.exchange.answer(200, shape.embeddings(self.asks, self.name, self.created, vectors))

    def _vector(self, ask: EngineRequest) -> Any:
        vector = embedding(ask)
        return base64.b64encode(struct.pack(f"<{_WIDTH}f", *vector)).decode() if self.packed else vector


class Vector(Reply):
    """One input of an embeddings request."""

    __slots__ = ("vectors",)

    vectors: Vectors

    def close(self) -> None:
        """Its part is computed."""
        self.vectors.one_more()


def embedding(ask: EngineRequest) -> list[float]:
    """A vector of length 1, drawn from the prompt's tokens."""
    bits = ask.speech.bits
    values = [(mix(bits + place) >> 11) * 2.0**-52 - 1 for place in range(_WIDTH)]
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]
