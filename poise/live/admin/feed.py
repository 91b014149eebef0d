"""Server-sent events to all open pages: the state once, then its changes, each encoded once for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from poise.live.admin.merge import Json, patch
from poise.live.http.exchange import Exchange

BEAT_S: Final = 0.2
"""Shortest time between two sets of decisions."""
BEATS: Final = 5
"""A state is taken once in this many beats."""
MOST: Final = 64
"""Most pages open at once."""
FIRST: Final = 50
"""Decisions in a page's first event."""
BATCH: Final = 25
"""Most decisions in one beat; of more, the newest are sent with the number of those left out."""

HEADERS: Final = ((b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"))

Decided = Callable[[int, int], tuple[int, list[Json]]]
"""The number of the last decision, and those after a number, at most so many of the newest."""


def event(name: str, data: object) -> bytes:
    """One event in its wire format."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


class Page:
    """One open page. slow: it has not read what it was sent, and gets nothing until it has; then the whole state."""

    __slots__ = ("exchange", "slow")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.slow = False


class Feed:
    """Broadcasts state and decisions to all open pages.

    state: takes a snapshot.  decided: the decisions.  turned: called when the first page opens and the last closes.
    A page that does not read keeps what the connection buffers, no more, and is cut by the server's `read_s`.
    """

    def __init__(
        self, state: Callable[[], Json], decided: Decided, turned: Callable[[bool], None] = lambda on: None
    ) -> None:
        self._state = state
        self._decided = decided
        self._turned = turned
        self._pages: dict[int, Page] = {}
        self._last: Json = {}
        self._sent = 0
        self._beat = 0
        self._next = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._pages)

    def join(self, exchange: Exchange, headers: tuple[tuple[bytes, bytes], ...] = ()) -> bool:
        """Open a page; False if there are too many."""
        if len(self._pages) >= MOST or self._closed:
            return False
        if not self._pages:
            self._turned(True)
            self._last = self._state()
            self._sent, _ = self._decided(0, 0)
            self._beat = 0
        key, page = self._next, Page(exchange)
        self._next += 1
        self._pages[key] = page
        exchange.gone = lambda: self._leave(key)
        exchange.flow = lambda on: self._flow(page, on)
        exchange.start(200, [*HEADERS, *headers])
        self._all(page)
        return True

    def beat(self) -> None:
        """Send what is new; called once a beat."""
        if not self._pages:
            return
        self._beat += 1
        news = self._decisions()
        if self._beat % BEATS == 0:
            state = self._state()
            changed = patch(self._last, state)
            self._last = state
            news += event("change", changed)
        if news:
            for page in list(self._pages.values()):
                if not page.slow:
                    page.exchange.write(news)

    def close(self) -> None:
        """End the stream of every page; no other may open."""
        self._closed = True
        for page in list(self._pages.values()):
            page.exchange.end()
        if self._pages:
            self._pages.clear()
            self._turned(False)

    def _decisions(self) -> bytes:
        last, rows = self._decided(self._sent, BATCH)
        left_out = last - self._sent - len(rows)
        self._sent = last
        return event("decisions", {"rows": rows, "left_out": left_out}) if rows else b""

    def _all(self, page: Page) -> None:
        """The first event of a page: the whole state and the latest decisions."""
        rows = [row for row in self._decided(0, FIRST)[1] if row["number"] <= self._sent]  # newer ones come next
        page.exchange.write(
            event("state", self._last) + event("decisions", {"rows": rows, "left_out": 0, "anew": True})
        )

    def _flow(self, page: Page, on: bool) -> None:
        page.slow = not on
        if on:
            self._all(page)

    def _leave(self, key: int) -> None:
        del self._pages[key]
        if not self._pages:
            self._turned(False)
