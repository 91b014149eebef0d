"""A cache of the last request head: a head that repeats it, but for its length, is not parsed again.

Clients that keep a connection mostly send the same head with each request, some with twenty headers. Repeated is only
what the parser has accepted, byte for byte; digits alone may differ, and only where the parser has read the length.
"""

from __future__ import annotations

import re

from poise.live.http.exchange import Exchange
from poise.live.http.shared_head import SharedHead

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_DIGITS = 12
_ONCE = frozenset((b"expect", b"transfer-encoding", b"upgrade"))


class RepeatedHeads:
    """The heads that one connection remembers: the second, in case those after it are the same."""

    __slots__ = ("_again", "_seen")

    def __init__(self) -> None:
        self._again: Again | None = None
        self._seen = 0

    def recall(self, data: bytes, at: int) -> Exchange | None:
        """The request in a read, if that is one whole request with the remembered head."""
        return None if self._again is None else self._again.read(data, at)

    def learn(self, data: bytes, exchange: Exchange, limit: int) -> None:
        """A read was parsed, and held this request; a client whose heads vary is no longer checked."""
        if self._again is not None:
            if self._again.differs:
                self._again = None
        elif self._seen == 1:
            self._again = Again.of(data, exchange, limit)
        self._seen += 1


class Again:
    """A head that may be repeated.

    before, after: its bytes around the digits of its length.  model: the exchange that it began.
    limit: of the body, in bytes.
    """

    __slots__ = ("_after", "_before", "_limit", "_model", "_shared", "differs")

    def __init__(self, before: bytes, after: bytes, model: Exchange, shared: SharedHead, limit: int) -> None:
        self._before = before
        self._after = after
        self._model = model
        self._shared = shared
        self._limit = limit
        self.differs = False
        """Another head arrived: this client does not repeat itself."""

    @classmethod
    def of(cls, data: bytes, exchange: Exchange, limit: int) -> Again | None:
        """From a read that was one request; None if it was more than that, or has something that applies only once."""
        end = data.find(b"\r\n\r\n") + 4
        found = _LENGTH.search(data, 0, end)
        names = [name for name, _ in exchange.headers]
        if found is None or end + len(exchange.body) != len(data) or not _ONCE.isdisjoint(names):
            return None
        if not (exchange.keep_alive and exchange.modern) or exchange.header(b"content-length") != found[1]:
            return None
        shared = SharedHead(exchange.headers.copy())
        model = exchange.again(shared, found[1], b"", 0)
        return cls(data[: found.start(1)], data[found.end(1) : end], model, shared, limit)

    def read(self, data: bytes, at: int) -> Exchange | None:
        """The request in a read, if it is one whole request with this head."""
        before, after = self._before, self._after
        if not data.startswith(before):
            self.differs = True
            return None
        start = len(before)
        end = data.find(after, start, start + _DIGITS + len(after))
        digits = data[start:end]
        body_at = end + len(after)
        if end < 0 or not digits.isdigit() or len(data) - body_at != int(digits) or len(data) - body_at > self._limit:
            return None
        return self._model.again(self._shared, digits, data[body_at:], at)
