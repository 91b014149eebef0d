"""A cache of an engine's last head: an answer that repeats it, but for its length, is not parsed again.

Engines send the same head with each answer, but for its length and, once a second, the date. Repeated is only what the
parser has accepted, byte for byte; digits alone may differ, and only where the parser has read the length.
"""

from __future__ import annotations

import re
from typing import Final

from poise.live.http.header import end_to_end

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_DIGITS: Final = 12
_NAME: Final = b"content-length"
_MISSES: Final = 16
_SELDOM: Final = 64
"""Where so many answers in a row repeat nothing, one in this many is remembered."""


class ReplyMemory:
    """The head of status 200 that an engine sent last, for all its connections.

    body: of the answer that was recalled last.
    """

    __slots__ = ("_after", "_before", "_headers", "_missed", "_place", "body")

    def __init__(self) -> None:
        self._before = self._after = self.body = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._place = 0
        self._missed = 0

    def recall(self, data: bytes) -> list[tuple[bytes, bytes]] | None:
        """The end-to-end headers of the whole answer in a read, if it has the remembered head."""
        before, after = self._before, self._after
        if not before or not data.startswith(before):
            return None
        start = len(before)
        end = data.find(after, start, start + _DIGITS + len(after))
        if end < 0:
            return None
        digits = data[start:end]
        body_at = end + len(after)
        if not digits.isdigit() or len(data) - body_at != int(digits):
            return None
        self._missed = 0
        self.body = data[body_at:]
        headers = self._headers.copy()
        headers[self._place] = (_NAME, digits)
        return headers

    def learn(self, data: bytes, headers: list[tuple[bytes, bytes]], body: int) -> None:
        """A read was parsed: one answer of status 200 with a body of so many bytes, on a connection that stays."""
        self._missed += 1
        if self._missed > _MISSES and self._missed % _SELDOM:
            return
        end = data.find(b"\r\n\r\n") + 4
        found = _LENGTH.search(data, 0, end)
        kept = end_to_end(headers)
        names = [name for name, _ in headers]
        if found is None or end + body != len(data) or names.count(_NAME) != 1 or (_NAME, found[1]) not in kept:
            return
        if b"transfer-encoding" in names:
            return
        self._before, self._after = data[: found.start(1)], data[found.end(1) : end]
        self._headers, self._place = kept, kept.index((_NAME, found[1]))
