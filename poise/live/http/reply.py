"""Parses an engine's bytes into answers, one after another: the pure half of the client."""

from __future__ import annotations

from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from poise.live.http.header import end_to_end
from poise.live.http.reply_memory import ReplyMemory

HEAD, BODY, DONE, GARBAGE = range(4)
"""The state of an answer."""


class ReplyReader:
    """Answers of one connection, each between `begin()` and DONE.

    state: HEAD, BODY, DONE or GARBAGE (`reason` says why).  status, headers: valid from BODY on; names lower-cased.
    reusable: another request may be sent when this answer is DONE.
    memory: of heads, shared by an engine's connections.
    """

    __slots__ = (
        "_bare",
        "_bodiless",
        "_fresh",
        "_limit",
        "_open_ended",
        "_parser",
        "_parts",
        "_recalled",
        "headers",
        "memory",
        "on_body",
        "reason",
        "reusable",
        "state",
        "status",
    )

    def __init__(self, header_bytes: int, memory: ReplyMemory | None = None) -> None:
        self._limit = header_bytes
        self.memory = memory or ReplyMemory()
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._parser: Any = HttpResponseParser(self)
        self.begin("GET")

    def close(self) -> None:
        """Release the parser, which holds this reader."""
        self._parser = None

    def begin(self, method: str | bytes) -> None:
        """A request was sent; an answer to HEAD has no body, whatever its headers say."""
        self._bodiless = method in (b"HEAD", "HEAD")
        self._open_ended = self._recalled = False
        self._fresh = not self._bodiless
        self._bare = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.state = HEAD
        self.reason = ""
        self.reusable = False

    def feed(self, data: bytes) -> bytes:
        """Parse a read; returns the bytes of the body in it."""
        if not self._fresh:
            return self._parse(data)
        self._fresh = False
        headers = self.memory.recall(data)
        if headers is not None:
            self.headers, self.status, self.state = headers, 200, DONE
            self._recalled = self.reusable = True
            return self.memory.body
        body = self._parse(data)
        if self.state == DONE and self.status == 200 and self.reusable:
            self.memory.learn(data, self.headers, len(body))
        return body

    def take_headers(self) -> list[tuple[bytes, bytes]]:
        """The end-to-end headers, once."""
        headers, self.headers = self.headers, []
        return headers if self._recalled else end_to_end(headers)

    def _parse(self, data: bytes) -> bytes:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._spoil("the engine changed the protocol")
        except HttpParserError as error:
            self._spoil(str(error))
        parts = self._parts
        if not parts:
            self._bare += len(data)
            if self._bare > self._limit and self.state != DONE:
                self._spoil(f"more than {self._limit} bytes without a body")
            return b""
        self._bare = 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return b"" if self._bodiless or self.state == GARBAGE else body

    def finish(self) -> bool:
        """The engine closed: True if that is how this answer ends."""
        if self.state == BODY and self._open_ended:
            self.state = DONE
        return self.state == DONE

    def _spoil(self, reason: str) -> None:
        """Bytes after the end do not harm the answer, but the connection cannot be reused."""
        self.reusable = False
        if self.state != DONE:
            self.state = GARBAGE
            self.reason = reason

    # Called by the parser --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of an answer; after the end, an answer without a request."""
        if self.state == DONE:
            raise HttpParserError("bytes after the end")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head, or of a trailer, which is dropped."""
        if self.state == HEAD:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete; one of status 1xx is skipped."""
        if self.state != HEAD:
            return
        self.status = self._parser.get_status_code()
        if self.status < 100:
            raise HttpParserError(f"there is no status {self.status:03}")
        if self.status < 200:
            return
        self.reusable = self._parser.should_keep_alive()
        self.state = BODY
        lengthy = False
        for name, value in self.headers:
            if name == b"content-length":
                lengthy = True
            elif name == b"transfer-encoding":
                lengthy = True
                if value.strip().lower() != b"chunked":
                    self._spoil("the only transfer coding that is read is chunked")
        self._open_ended = not lengthy
        if self._bodiless:
            self.state = DONE
            self.reusable = self.reusable and not lengthy

    def on_message_complete(self) -> None:
        """The answer is complete, unless it was of status 1xx."""
        if self.state == BODY:
            self.state = DONE
        elif self.state == HEAD:
            self.headers = []
