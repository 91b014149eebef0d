"""One budget for the bodies of all clients' requests together: each alone is small, ten thousand that wait are not."""

from __future__ import annotations

from typing import Final

from poise.live.wire.refuse import Refusal

FULL: Final = Refusal(
    503, "bodies", "the requests that are being served fill the memory; try again later", ((b"retry-after", b"1"),)
)


class Bodies:
    """Bytes of bodies that are being read or are kept for an engine, and how many of them there may be.

    held: at present. Who reads a body adds to it, who lets go of it subtracts.
    """

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.held = 0
        self.limit = limit

    def fits(self, size: int) -> bool:
        """Whether so much more may be kept."""
        return self.held + size <= self.limit
