"""Parses a client's bytes into requests: the pure half of the server."""

from __future__ import annotations

from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from poise.live.http.again import RepeatedHeads
from poise.live.http.bodies import FULL, Bodies
from poise.live.http.exchange import Exchange
from poise.live.http.header import Headers
from poise.live.http.limits import Limits
from poise.live.http.refuse import Gate, Refusal

IDLE, HEAD, BODY = range(3)
"""Between messages; in a head; in a body."""


class Refused(Exception):
    """Stops the parser; never leaves this file."""

    def __init__(self, status: int, cause: str, reason: str, headers: Headers = (), body: bytes = b"") -> None:
        self.refusal = Refusal(status, cause, reason, headers, body)


class RequestReader:
    """Requests of one connection.

    ready: requests that are complete, in order.  refusal: set once, after which nothing is read.
    state: IDLE, HEAD or BODY.  received: bytes of the body so far.
    expects: the client waits for `100 Continue` before it sends the body.
    memory: of the connection's heads.  bodies: the budget that its bodies count against.
    gate: called with a head whose body is still to come; a body that arrives with its head is the handler's to refuse.
    """

    __slots__ = (
        "_at",
        "_bare",
        "_begun_at",
        "_bodies",
        "_body",
        "_count",
        "_gate",
        "_head",
        "_headers",
        "_length",
        "_limits",
        "_modern",
        "_most",
        "_parser",
        "_parts",
        "_raw",
        "_size",
        "_target",
        "_through",
        "expects",
        "memory",
        "on_body",
        "ready",
        "refusal",
        "state",
    )

    def __init__(self, limits: Limits, bodies: Bodies | None = None, gate: Gate | None = None) -> None:
        self.memory = RepeatedHeads()
        self.ready: list[Exchange] = []
        self.refusal: Refusal | None = None
        self._limits = limits
        self._bodies = bodies or Bodies(limits.bodies_bytes)
        self._gate = gate
        self._at = self._begun_at = self._bare = self._raw = self._size = 0
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._body = bytearray()
        self.state = IDLE
        self._begin()
        self._parser: Any = HttpRequestParser(self)

    @property
    def target(self) -> bytes:
        """The target of the request that is being read, so far."""
        return self._target

    @property
    def received(self) -> int:
        """Bytes of the body so far."""
        return len(self._body)

    def follows(self, limits: Limits, gate: Gate | None) -> bool:
        """Whether these are its limits."""
        return self._limits is limits and self._gate == gate

    def close(self) -> None:
        """Release what was read, and the parser, which holds this reader."""
        self._forget()
        self._bodies.held -= sum(len(exchange.body) for exchange in self.ready)
        self._parser = None

    def feed(self, data: bytes, at: int) -> None:
        """Parse a read that arrived at `at`."""
        bodies = self._bodies
        if self.state == IDLE and bodies.fits(len(data)):
            exchange = self.memory.recall(data, at)
            if exchange is not None:
                bodies.held += len(exchange.body)
                self.ready.append(exchange)
                return
        self._at = at
        try:
            rest = self._take(data) if self._raw else data
            while rest:
                rest = self._parse(rest)
            if self.state == BODY and not self._through and self._gate is not None:
                self._ask(self._gate)
        except Refused as refused:
            self.refusal = refused.refusal
            self._forget()

    def _ask(self, gate: Gate) -> None:
        """Refuse a request by its head, before its body is read."""
        refusal = gate(self._target, self._head)
        if refusal is not None:
            raise Refused(*refusal)
        self._through = True

    def _forget(self) -> None:
        """Release a body that will not be complete."""
        self._bodies.held -= len(self._body)
        self._body = bytearray()
        self._parts.clear()

    def _parse(self, data: bytes) -> bytes:
        """Parse all of it, or up to where the parser expects another protocol; returns the rest."""
        self._size = len(data)
        fresh = self.state == IDLE
        if fresh:
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
        if self.state != IDLE:
            self._wait()
        elif fresh and len(self.ready) == 1:
            self.memory.learn(data, self.ready[0], self._limits.body_bytes)
        return b""

    def _wait(self) -> None:
        """The request is not complete: join its body so far, and check its limits."""
        limits = self._limits
        if self._parts:
            self._gather()
            self._bare = 0
            return
        self._bare += self._size
        if self._bare > limits.header_bytes:
            raise self._too_long() if self.state == HEAD else Refused(400, "malformed", "chunks without a body")

    def _gather(self) -> bytearray:
        """Join the pieces of the body: a chunk of one byte takes forty until then."""
        before = len(self._body)
        self._body += b"".join(self._parts)
        self._parts.clear()
        self._bodies.held += len(self._body) - before
        if len(self._body) > self._most:
            raise self._too_large()
        if not self._bodies.fits(0):
            raise Refused(*FULL)
        return self._body

    def _take(self, data: bytes) -> bytes:
        """Take the body that the parser would not read, as its request offers to upgrade; returns the rest."""
        part, rest = data[: self._raw], data[self._raw :]
        self._raw -= len(part)
        self._parts.append(part)
        if self._raw:
            self._gather()
        else:
            self.on_message_complete()
        return rest

    def _begin(self) -> None:
        """Between two requests."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._target = b""
        self.expects = self._through = False
        self.state = IDLE

    # Called by the parser --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request; an empty line before it is none."""
        self.state = HEAD
        self._begun_at = self._at

    def on_url(self, part: bytes) -> None:
        """A piece of the target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head, or of a trailer, which is ignored."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        limits, headers = self._limits, self._headers
        head = self._head = dict(headers)
        self._count = len(headers)
        if len(headers) > limits.headers:
            raise Refused(431, "head", f"more than {limits.headers} headers")
        if (self._bare or self._size > limits.header_bytes) and self._head_bytes() > limits.header_bytes:
            raise self._too_long()
        if len(self.ready) > limits.pipelined:
            raise Refused(503, "pipelined", f"more than {limits.pipelined} requests wait on this connection")
        if len(head) != len(headers):
            self._fold()
        version = self._parser.get_http_version()
        self._modern = version == "1.1"
        if self._modern:
            if b"host" not in head:
                raise Refused(400, "malformed", "a request names its host once")
        elif version != "1.0":
            raise Refused(505, "version", f"HTTP/{version} is not spoken here")
        self._length = int(head.get(b"content-length", b"0"))
        self._most = limits.body_limit(self._target)
        if self._length > self._most:
            raise self._too_large()
        if self._length and not self._bodies.fits(self._length):
            raise Refused(*FULL)
        if b"transfer-encoding" in head:
            self._check_coding(head[b"transfer-encoding"])
        if b"expect" in head:
            self._check_expectation(head[b"expect"])
        if self._parser.should_upgrade():
            self._stay()
        self.state = BODY

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._raw:
            return  # its body is still to be taken
        parts, parser, headers = self._parts, self._parser, self._headers
        if len(parts) == 1 and not self._body:
            body = parts.pop()
            if len(body) > self._most:
                raise self._too_large()
            self._bodies.held += len(body)
        else:
            body = bytes(self._gather())
            self._body.clear()
        if len(headers) > self._count:
            del headers[self._count :]  # a trailer
        self.ready.append(
            Exchange(
                parser.get_method().decode(),
                self._target,
                headers,
                body,
                self._begun_at,
                self._head,
                parser.should_keep_alive(),
                self._modern,
            )
        )
        self._bare = -self._size  # what follows in this read is of the next request
        self._begin()

    # Refusals --------------------------------------------------------------------------------------------------------

    def _too_long(self) -> Refused:
        return Refused(431, "head", f"the head is longer than {self._limits.header_bytes} bytes")

    def _too_large(self) -> Refused:
        return Refused(413, "body", f"the body is longer than {self._most} bytes")

    def _head_bytes(self) -> int:
        return len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def _fold(self) -> None:
        """Some header is repeated: the first counts, where it may (the parser checks those that frame the body)."""
        self._head = dict(reversed(self._headers))
        if sum(name == b"host" for name, _ in self._headers) > 1:
            raise Refused(400, "malformed", "a request names its host once")

    def _check_coding(self, value: bytes) -> None:
        if value.strip().lower() != b"chunked":
            raise Refused(501, "coding", "the only transfer coding that is read is chunked")
        if not self._modern:
            raise Refused(400, "malformed", "HTTP/1.0 knows no transfer coding")

    def _check_expectation(self, value: bytes) -> None:
        if value.strip().lower() != b"100-continue":
            raise Refused(417, "expectation", "the only expectation that is met is 100-continue")
        self.expects = self._modern

    def _stay(self) -> None:
        """Continue in HTTP/1.1 with a client that offers to upgrade (as Java's does); its body is taken by length."""
        if self._parser.get_method() == b"CONNECT":
            raise Refused(501, "connect", "this is no tunnel")
        if b"transfer-encoding" in self._head:
            raise Refused(501, "coding", "a chunked request cannot offer to upgrade")
        self._raw = self._length
