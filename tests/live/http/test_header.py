from __future__ import annotations

import pytest

from poise.live.http.header import end_to_end, reply_head, request_head

SENT = [
    (b"host", b"gate:8000"),
    (b"connection", b"keep-alive, X-Mine"),
    (b"x-mine", b"1"),
    (b"keep-alive", b"timeout=5"),
    (b"te", b"trailers"),
    (b"trailer", b"x"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"h2c"),
    (b"http2-settings", b"AA"),
    (b"proxy-authorization", b"secret"),
    (b"proxy-connection", b"keep-alive"),
    (b"expect", b"100-continue"),
    (b"content-length", b"99"),
    (b"accept", b"*/*"),
    (b"x-yours", b"\xff 2"),
    (b"accept", b"text/html"),
]


def test_what_belongs_to_the_hop_is_not_sent_on() -> None:
    assert request_head(b"POST", b"/v1?x", b"engine:1", SENT, 3) == (
        b"POST /v1?x HTTP/1.1\r\nhost: engine:1\r\naccept: */*\r\nx-yours: \xff 2\r\naccept: text/html\r\n"
        b"content-length: 3\r\n\r\n"
    )


def test_what_belongs_to_the_hop_is_not_sent_back() -> None:
    kept = [(b"host", b"gate:8000"), (b"expect", b"100-continue"), (b"content-length", b"99"), *SENT[-3:]]
    assert end_to_end(SENT) == kept


@pytest.mark.parametrize("value", [b"close", b"keep-alive", b"Keep-Alive", b"Close", b""])
def test_a_plain_connection_header_names_nothing(value: bytes) -> None:
    assert end_to_end([(b"connection", value), (b"x", b"y")]) == [(b"x", b"y")]


def test_several_connection_headers_count_together() -> None:
    sent = [(b"connection", b"close"), (b"connection", b"a"), (b"connection", b"close"), (b"a", b"1"), (b"b", b"2")]
    assert end_to_end(sent) == [(b"b", b"2")]


@pytest.mark.parametrize(("method", "expected"), [(b"GET", False), (b"HEAD", False), (b"POST", True), (b"PUT", True)])
def test_a_length_is_sent_where_a_body_is_expected(method: bytes, expected: bool) -> None:
    assert (b"content-length: 0" in request_head(method, b"/", b"e", [], 0)) is expected
    assert b"content-length: 1" in request_head(method, b"/", b"e", [], 1)


@pytest.mark.parametrize("target", [b"/ HTTP/1.1\r\nx: y", b"/\n", b"/\r"])
def test_a_target_cannot_write_a_head(target: bytes) -> None:
    with pytest.raises(ValueError, match="end of a line"):
        request_head(b"GET", target, b"e", [], 0)


@pytest.mark.parametrize("status", [200, 418, 499, 599, 999])
def test_every_status_has_a_line(status: int) -> None:
    line, _, rest = reply_head(status, [(b"a", b"b")], b"\r\n\r\n").partition(b"\r\n")
    assert line.startswith(b"HTTP/1.1 %d " % status) and rest == b"a: b\r\n\r\n"
