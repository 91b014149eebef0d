"""One request of a client and the answer to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import unquote

from poise.live.http.header import OURS_IN_REQUEST, Headers, lines_of, reply_head
from poise.live.http.shared_head import LENGTH as LENGTH_NAME
from poise.live.http.shared_head import SharedHead

CHUNKED, LENGTH, UNTIL_CLOSE, NO_BODY = range(4)
"""The end marker of a chunked answer."""

BODILESS = frozenset((204, 304))
"""Statuses whose answers have no body."""

JOINED = 65_536
"""Bytes up to which a chunk is copied into its frame, so that it is one write."""


class Line(Protocol):
    """The connection interface of an exchange."""

    closing: bool

    def write(self, data: bytes) -> None:
        """Send."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call in the loop's next turn."""

    def over(self) -> None:
        """The answer is complete."""

    def cut(self, clean: bool) -> None:
        """The answer will never be complete; `clean`: the client can detect that from what was sent."""

    def freed(self, size: int) -> None:
        """Release `size` bytes of the request's body."""

    def keeps(self, size: int) -> bool:
        """Reserve `size` more bytes for the request, until its end; False where there is no room for them."""


class Exchange:
    """One request of a client, complete with its body, and the answer to it.

    target: path and query as sent.  path: decoded, without the query.  headers: names lower-cased, in order.
    peer: the client's address.  begun_at: when its first byte arrived, in picoseconds.
    more: bytes reserved for it in addition to its body.
    shared: the headers that it repeats, while none of them was changed.
    gone: set by the handler; called once if the client leaves, or closes its sending side, before the answer's end.
    flow: set by the handler; `flow(False)` when the client reads too slowly, `flow(True)` when it has caught up.
    """

    __slots__ = (
        "_first",
        "_framing",
        "_head",
        "_headers",
        "_left",
        "_length",
        "_line",
        "begun_at",
        "body",
        "ended",
        "flow",
        "gone",
        "keep_alive",
        "method",
        "modern",
        "more",
        "path",
        "peer",
        "query",
        "shared",
        "started",
        "target",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        begun_at: int,
        first: dict[bytes, bytes] | None = None,
        keep_alive: bool = True,
        modern: bool = True,
        model: Exchange | None = None,
    ) -> None:
        """first: the first value of each header.  keep_alive: another request may follow.  modern: HTTP/1.1.

        model: another exchange with the same target.
        """
        self.method = method
        self.target = target
        self._headers = headers
        self.shared: SharedHead | None = None
        self._length = b""
        self.body = body
        self.begun_at = begun_at
        self.keep_alive = keep_alive
        self.modern = modern
        if model is None:
            path, _, self.query = target.decode("latin-1").partition("?")
            self.path = path if path[:1] == "/" and "%" not in path else _plain(path)
        else:
            self.path, self.query = model.path, model.query
        self.peer = ""
        self._first = first
        self.gone: Callable[[], None] | None = None
        self.flow: Callable[[bool], None] | None = None
        self.started = False
        self.ended = False
        self._line: Line | None = None
        self._head = b""
        self._framing = NO_BODY
        self._left = 0
        self.more = 0

    def __repr__(self) -> str:
        return f"Exchange({self.method} {self.path}, {len(self.body)} bytes, from {self.peer})"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """All headers, which belong to this exchange alone."""
        if self.shared is not None:
            self._headers, self.shared = self.shared.headers(self._length), None
        return self._headers

    @headers.setter
    def headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers, self.shared = headers, None

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its lower-case name."""
        if self.shared is not None:
            return self._length if name == LENGTH_NAME else self.shared.get(name)
        if self._first is None:
            self._first = dict(reversed(self._headers))
        return self._first.get(name)

    def drop(self, names: frozenset[bytes]) -> None:
        """Remove these headers."""
        if self.shared is not None:
            self.shared = self.shared.without(names)
        else:
            self._headers = [pair for pair in self._headers if pair[0] not in names]

    def lines(self) -> bytes:
        """The headers as they are forwarded; ValueError where one contains a line end."""
        return self.shared.lines() if self.shared is not None else lines_of(self._headers, OURS_IN_REQUEST)

    # The answer ------------------------------------------------------------------------------------------------------

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """Begin the answer; header names are lower-case, and those of the hop are left out.

        length: of the body; None takes a `content-length` among the headers, and without one the body is chunked (to an
        HTTP/1.0 client: ended by closing). The head leaves with the first bytes of the body; that of a chunked answer
        leaves in the loop's next turn at the latest.
        """
        line = self._line
        if line is None:
            return self._late()
        assert not self.started, "an answer begins once"
        self.started = True
        self._first = None
        if length is None:
            stated = dict(headers).get(b"content-length")
            length = None if stated is None else int(stated)
        if line.closing:
            self.keep_alive = False
        if status in BODILESS or self.method == "HEAD":
            self._framing = NO_BODY
        elif length is not None:
            self._framing = LENGTH
            self._left = length
        else:
            self._framing = CHUNKED if self.modern else UNTIL_CLOSE
            line.soon(self._flush)
        self._head = reply_head(status, headers, self._tail(status, length))

    def write(self, data: bytes) -> None:
        """Send one piece of the body at once."""
        line = self._line
        if line is None:
            return self._late()
        assert self.started, "an answer begins with start()"
        if not data:
            return
        framing = self._framing
        if framing == CHUNKED:
            size = len(data)
            if size > JOINED:
                line.write(b"%b%x\r\n" % (self._head, size))
                line.write(data)
                line.write(b"\r\n")
            else:
                line.write(b"%b%x\r\n%b\r\n" % (self._head, size, data))
        elif framing == NO_BODY:
            return
        else:
            if framing == LENGTH:
                self._left -= len(data)
                if self._left < 0:
                    raise ValueError(f"the answer is {-self._left} bytes longer than its stated length")
            line.write(self._head + data if self._head else data)
        self._head = b""

    def end(self) -> None:
        """The answer is complete. One that is shorter than its stated length is cut instead."""
        line = self._line
        if line is None:
            return self._late()
        assert self.started, "an answer begins with start()"
        if self._framing == LENGTH and self._left:
            return self.cut()
        if self._framing == CHUNKED:
            line.write(self._head + b"0\r\n\r\n")
        elif self._head:
            line.write(self._head)
        self._head = b""
        self.ended = True
        self._line = self.gone = self.flow = None
        line.over()

    def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", headers: Headers = ()
    ) -> None:
        """The whole answer at once."""
        self.start(status, [(b"content-type", content_type), *headers], len(body))
        self.write(body)
        self.end()

    def cut(self) -> None:
        """Abort the answer: end the connection so that the client sees that it is incomplete."""
        line, self._line = self._line, None
        if line is None:
            return
        self.gone = self.flow = None
        if self._head:
            line.write(self._head)
            self._head = b""
        line.cut(clean=self._framing in (CHUNKED, LENGTH))

    def keeps(self, size: int) -> bool:
        """Whether `size` more bytes of data derived from the request fit the budget; they count until its end."""
        if self._line is not None and not self._line.keeps(size):
            return False
        self.more += size
        return True

    def rewrite(self, body: bytes) -> None:
        """Replace the target from now on."""
        if self._line is not None:
            self._line.freed(len(self.body) - len(body))
        self.body = body

    def forget(self) -> None:
        """Free the request's body, which is not needed any more: an answer may last long."""
        if self._line is not None:
            self._line.freed(len(self.body))
        self.body, self.headers = b"", []

    def again(self, shared: SharedHead, length: bytes, body: bytes, begun_at: int) -> Exchange:
        """Another request with the same first line and these headers, but for its length."""
        made = Exchange(self.method, self.target, [], body, begun_at, None, self.keep_alive, self.modern, self)
        made.shared, made._length = shared, length
        return made

    # Called by the connection ----------------------------------------------------------------------------------------

    def join(self, line: Line, peer: str) -> None:
        """Start the answer: earlier exchanges have ended."""
        self._line = line
        self.peer = peer

    def leave(self) -> None:
        """The client has disconnected; what the handler still writes is dropped."""
        gone = self.gone
        self._line = self.gone = self.flow = None
        if gone is not None:
            gone()

    def _tail(self, status: int, length: int | None) -> bytes:
        """The framing headers, and the end of the head."""
        framing = b""
        if length is not None and status != 204:
            framing = b"\r\ncontent-length: %d" % length
        elif self._framing == CHUNKED:
            framing = b"\r\ntransfer-encoding: chunked"
        elif self._framing == UNTIL_CLOSE:
            self.keep_alive = False
        if self.keep_alive:
            return framing + (b"\r\n\r\n" if self.modern else b"\r\nconnection: keep-alive\r\n\r\n")
        return framing + b"\r\nconnection: close\r\n\r\n"

    def _flush(self) -> None:
        """Send the head of an answer whose body has not begun."""
        if self._head and self._line is not None:
            head, self._head = self._head, b""
            self._line.write(head)

    def _late(self) -> None:
        """Ignore a write after a disconnect, which is not the handler's fault; raise for one after the answer's end."""
        assert not self.ended, "the answer has ended"


def _plain(path: str) -> str:
    """Decoded, and without the origin of `http://host/path`, the form that proxies get; `*` stays."""
    if not path.startswith("/"):
        _, origin, rest = path.partition("://")
        path = "/" + rest.partition("/")[2] if origin else path
    return unquote(path)
