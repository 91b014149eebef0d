"""One memory budget for the request bodies of all clients: each is small, ten thousand waiting ones are not."""

from __future__ import annotations

from typing import Final

from poise.live.http.refuse import Refusal

FULL: Final = Refusal(
    503, "bodies", "the requests that are being served fill the memory; try again later", ((b"retry-after", b"1"),)
)


class Bodies:
    """Bytes of bodies that are being read or are buffered for an engine, and their limit.

    held: bytes at present. A reader of a body adds to it, and subtracts when it releases the body.
    """

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.held = 0
        self.limit = limit

    def fits(self, size: int) -> bool:
        """Whether there is room for `size` more bytes."""
        return self.held + size <= self.limit
