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
"""Hop-by-hop headers, which are never forwarded (RFC 9110, section 7.6.1)."""

OURS = HOP | {b"content-length"}
"""Headers of an answer that this module writes itself."""

OURS_IN_REQUEST = OURS | {b"expect", b"host"}
"""Headers of a request that this module writes itself, or that are already answered."""

STATUS = {status: b"HTTP/1.1 %d " % status for status in range(100, 1000)}
STATUS.update({each.value: b"HTTP/1.1 %d %b" % (each.value, each.phrase.encode()) for each in HTTPStatus})

PLAIN = frozenset((b"keep-alive", b"close", b"Keep-Alive"))
"""Connection headers that name no other header."""

EMPTY = frozenset((b"GET", b"HEAD", b"OPTIONS", b"DELETE"))
"""Methods that usually have no body: without one no length is sent."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def lines_of(headers: Headers, ours: frozenset[bytes]) -> bytes:
    """The end-to-end headers but for `ours`, each after a line end. ValueError where one contains a line end."""
    ours = _and_named(ours, headers)
    lines = [b"", *[b": ".join(pair) for pair in headers if pair[0] not in ours]]
    return _lines(lines, ends=len(lines) - 1)


def reply_head(status: int, headers: Headers, tail: bytes) -> bytes:
    """The head of an answer; names are lower-case, `tail` has the framing headers and the empty line.

    Raises ValueError where a name or a value contains a line end.
    """
    lines = [STATUS[status]]
    lines += [b": ".join(pair) for pair in headers if pair[0] not in OURS]
    return _lines(lines, ends=len(lines) - 1) + tail


def request_head(method: bytes, target: bytes, host: bytes, headers: Headers | bytes, length: int) -> bytes:
    """The head of a request to an engine; names are lower-case, hop-by-hop headers are left out.

    headers: as pairs, or as `lines_of` has written them.
    Raises ValueError where the target, a name or a value contains a line end.
    """
    lines = headers if isinstance(headers, bytes) else lines_of(headers, OURS_IN_REQUEST)
    if b"\n" in target or b"\r" in target:
        raise ValueError(f"the target holds the end of a line: {target!r}")
    if length or method not in EMPTY:
        return b"%b %b HTTP/1.1\r\nhost: %b%b\r\ncontent-length: %d\r\n\r\n" % (method, target, host, lines, length)
    return b"%b %b HTTP/1.1\r\nhost: %b%b\r\n\r\n" % (method, target, host, lines)


def end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The end-to-end headers."""
    hop = _and_named(HOP, headers)
    return [pair for pair in headers if pair[0] not in hop]


def _and_named(ours: frozenset[bytes], headers: Headers) -> frozenset[bytes]:
    """With the headers that Connection headers name as hop-by-hop, mostly none."""
    values = [value for name, value in headers if name == b"connection" and value not in PLAIN]
    return ours.union(token.strip() for value in values for token in value.lower().split(b",")) if values else ours


def _lines(lines: list[bytes], ends: int) -> bytes:
    """Joined lines; a line that contains a line end is an error, so that no value can inject a header."""
    joined = b"\r\n".join(lines)
    if joined.count(b"\n") != ends or joined.count(b"\r") != ends:
        raise ValueError(f"a header holds the end of a line: {joined!r}")
    return joined
