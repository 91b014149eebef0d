"""Bytes of a client into requests: the pure half of the server."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from poise.live.wire.exchange import Exchange
from poise.live.wire.limits import Limits

IDLE, HEAD, BODY = range(3)
"""Between messages; in a head; in a body."""

_FRAMING = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))


class Refusal(NamedTuple):
    """Why nothing more is read of this client: a status, a word to count it by, and a sentence for the client."""

    status: int
    cause: str
    reason: str


class Refused(Exception):
    """Stops the parser; never leaves this file."""

    def __init__(self, status: int, cause: str, reason: str) -> None:
        self.refusal = Refusal(status, cause, reason)


class RequestReader:
    """Requests of one connection.

    ready: requests that are complete, in order.  refusal: set once, after which nothing is read.
    state: IDLE, HEAD or BODY.  received: bytes of the body so far.
    expects: the client waits for `100 Continue` before it sends the body.
    """

    __slots__ = (
        "_at",
        "_bare",
        "_begun_at",
        "_headers",
        "_hosts",
        "_length",
        "_limits",
        "_modern",
        "_parser",
        "_parts",
        "_raw",
        "_size",
        "_target",
        "expects",
        "ready",
        "received",
        "refusal",
        "state",
    )

    def __init__(self, limits: Limits) -> None:
        self.ready: deque[Exchange] = deque()
        self.refusal: Refusal | None = None
        self.state = IDLE
        self.expects = False
        self.received = 0
        self._limits = limits
        self._parser = HttpRequestParser(self)
        self._at = self._begun_at = 0
        self._bare = self._raw = self._size = 0
        self.on_message_begin()
        self.state = IDLE

    def close(self) -> None:
        """Let go of the parser, which holds this reader."""
        del self._parser

    def feed(self, data: bytes, at: int) -> None:
        """Read what came at `at`."""
        self._at = at
        try:
            if self._raw:
                data = self._take(data)
            while data:
                data = self._parse(data)
        except Refused as refused:
            self.refusal = refused.refusal

    def refuse(self, status: int, cause: str, reason: str) -> None:
        """Read no more."""
        self.refusal = Refusal(status, cause, reason)

    def _parse(self, data: bytes) -> bytes:
        """Parse all of it, or up to where the parser expects another protocol; returns the rest."""
        received, self._size = self.received, len(data)
        if self.state == IDLE:
            self._bare = 0
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            return self._take(rest) if self._raw else rest
        except HttpParserError as error:
            if error.__context__ is not None:
                raise error.__context__ from None
            raise Refused(400, "malformed", f"malformed request: {error}") from None
        if self.state != IDLE and received == self.received:
            self._bare += len(data)
            if self._bare > self._limits.header_bytes:
                raise self._too_long() if self.state == HEAD else Refused(400, "malformed", "chunks without a body")
        return b""

    def _too_long(self) -> Refused:
        return Refused(431, "head", f"the head is longer than {self._limits.header_bytes} bytes")

    def _take(self, data: bytes) -> bytes:
        """Take the body that the parser would not read, as it came with an offer to upgrade; returns the rest."""
        part, rest = data[: self._raw], data[self._raw :]
        self._raw -= len(part)
        self.on_body(part)
        if not self._raw:
            self.on_message_complete()
        return rest

    # Called by the parser --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._begun_at = self._at
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._target = b""
        self._hosts = self._length = self.received = 0
        self.state = HEAD

    def on_url(self, part: bytes) -> None:
        """A piece of the target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head, or of a trailer, which is dropped."""
        if self.state == BODY:
            return
        name = name.lower()
        self._headers.append((name, value))
        if name in _FRAMING:
            self._note(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete."""
        limits, headers = self._limits, self._headers
        if len(headers) > limits.headers:
            raise Refused(431, "head", f"more than {limits.headers} headers")
        if self._bare + self._size > limits.header_bytes and self._head_bytes() > limits.header_bytes:
            raise self._too_long()
        if len(self.ready) > limits.pipelined:
            raise Refused(503, "pipelined", f"more than {limits.pipelined} requests wait on this connection")
        version = self._parser.get_http_version()
        self._modern = version == "1.1"
        if self._modern:
            if self._hosts != 1:
                raise Refused(400, "malformed", "a request names its host once")
        elif version != "1.0":
            raise Refused(505, "version", f"HTTP/{version} is not spoken here")
        if self._length > limits.body_bytes:
            raise Refused(413, "body", f"the body is longer than {limits.body_bytes} bytes")
        if self._parser.should_upgrade():
            self._stay()
        self.state = BODY

    def on_body(self, part: bytes) -> None:
        """A piece of the body."""
        self._parts.append(part)
        self.received += len(part)
        self._bare = 0
        if self.received > self._limits.body_bytes:
            raise Refused(413, "body", f"the body is longer than {self._limits.body_bytes} bytes")

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._raw:
            return
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self.ready.append(
            Exchange(
                self._parser.get_method().decode(),
                self._target,
                self._headers,
                body,
                self._begun_at,
                keep_alive=self._parser.should_keep_alive(),
                modern=self._modern,
            )
        )
        self.expects = False
        self.state = IDLE
        self._bare = -self._size  # what follows in this read is of the next request

    def _head_bytes(self) -> int:
        return len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def _note(self, name: bytes, value: bytes) -> None:
        """A header that says where the request ends, or what the client waits for. The parser has seen to the rest."""
        if name == b"host":
            self._hosts += 1
        elif name == b"content-length":
            self._length = int(value)
        elif name == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise Refused(501, "coding", "the only transfer coding that is read is chunked")
            if self._parser.get_http_version() == "1.0":
                raise Refused(400, "malformed", "HTTP/1.0 knows no transfer coding")
            self._length = -1
        elif value.strip().lower() == b"100-continue":
            self.expects = True
        else:
            raise Refused(417, "expectation", "the only expectation that is met is 100-continue")

    def _stay(self) -> None:
        """Go on in HTTP/1.1 with a client that offers to upgrade (as Java's does); its body is taken by length."""
        if self._parser.get_method() == b"CONNECT":
            raise Refused(501, "connect", "this is no tunnel")
        if self._length < 0:
            raise Refused(501, "coding", "a chunked request cannot offer to upgrade")
        self._raw = self._length
