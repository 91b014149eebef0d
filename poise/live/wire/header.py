"""Heads as bytes: which headers end at this hop, and how the head of a request or an answer is written."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

Headers = Sequence[tuple[bytes, bytes]]

HOP = frozenset(
    (
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers that speak of one connection and never go past it (RFC 9110, section 7.6.1)."""

OURS = HOP | {b"content-length"}
"""Headers of an answer that the wire writes itself."""

ASKED = OURS | {b"expect", b"host"}
"""Headers of a request that the wire writes itself, or has already answered."""

STATUS = {status: b"HTTP/1.1 %d " % status for status in range(100, 1000)}
STATUS.update({each.value: b"HTTP/1.1 %d %b" % (each.value, each.phrase.encode()) for each in HTTPStatus})

EMPTY = frozenset((b"GET", b"HEAD", b"OPTIONS", b"DELETE"))
"""Methods that usually have no body: without one no length is sent."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def reply_head(status: int, headers: Headers, tail: bytes) -> bytes:
    """The head of an answer; names are lower-case, `tail` holds what frames it and the empty line.

    Raises ValueError where a name or a value would break its line.
    """
    return _lines([STATUS[status], *[b"%b: %b" % pair for pair in headers if pair[0] not in OURS]]) + tail


def request_head(method: bytes, target: bytes, host: bytes, headers: Headers, length: int) -> bytes:
    """The head of a request to an engine; names are lower-case, what ends at this hop is left out.

    Raises ValueError where the target, a name or a value would break its line.
    """
    ours = ASKED
    for name, value in headers:
        if name == b"connection":
            ours = ours | named(value)
    lines = [b"%b %b HTTP/1.1" % (method, target), b"host: %b" % host]
    lines += [b"%b: %b" % pair for pair in headers if pair[0] not in ours]
    if length or method not in EMPTY:
        lines.append(b"content-length: %d" % length)
    return _lines(lines) + b"\r\n\r\n"


def named(connection: bytes) -> frozenset[bytes]:
    """The headers that a Connection header names as its own."""
    return frozenset(token.strip() for token in connection.lower().split(b","))


def end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that go on past this hop."""
    hop = HOP
    for name, value in headers:
        if name == b"connection":
            hop = hop | named(value)
    return [pair for pair in headers if pair[0] not in hop]


def _lines(lines: list[bytes]) -> bytes:
    """Joined, after a look that no line holds the end of another: so nobody's value can write a head of its own."""
    joined = b"\r\n".join(lines)
    if joined.count(b"\n") != len(lines) - 1 or joined.count(b"\r") != len(lines) - 1:
        raise ValueError(f"a header holds the end of a line: {joined!r}")
    return joined
