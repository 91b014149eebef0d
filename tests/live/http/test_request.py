from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits
from poise.live.http.refuse import Refusal
from poise.live.http.request import BODY, HEAD, IDLE, RequestReader

POST = b"POST /v1/x?a=b%20c HTTP/1.1\r\nHost: gate\r\nX-Id: 7\r\nContent-Length: 5\r\n\r\nhello"
GET = b"GET /health HTTP/1.1\r\nHost: gate\r\n\r\n"
CHUNKS = (
    b"POST /c HTTP/1.1\r\nhost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
)
UPGRADE = (
    b"POST /u HTTP/1.1\r\nhost: g\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AA\r\nContent-Length: 4\r\n\r\nGET "
)


def _read(*pieces: bytes, limits: Limits = Limits()) -> RequestReader:  # noqa: B008
    reader = RequestReader(limits)
    for at, piece in enumerate(pieces):
        if reader.refusal is None:
            reader.feed(piece, at)
    return reader


def _progress(exchange: Exchange) -> dict[str, Any]:
    names = ("method", "target", "path", "query", "headers", "body", "keep_alive", "modern")
    return {name: getattr(exchange, name) for name in names}


def _refusal(*pieces: bytes, limits: Limits = Limits()) -> Refusal:  # noqa: B008
    reader = _read(*pieces, limits=limits)
    assert reader.refusal is not None
    return reader.refusal


def test_a_request_is_handed_over_whole() -> None:
    (exchange,) = _read(POST).ready
    assert _progress(exchange) == {
        "method": "POST",
        "target": b"/v1/x?a=b%20c",
        "path": "/v1/x",
        "query": "a=b%20c",
        "headers": [(b"host", b"gate"), (b"x-id", b"7"), (b"content-length", b"5")],
        "body": b"hello",
        "keep_alive": True,
        "modern": True,
    }
    assert exchange.header(b"x-id") == b"7" and exchange.header(b"x-no") is None


def test_a_request_begins_with_its_first_byte() -> None:
    reader = _read(POST[:1], POST[1:30], POST[30:])
    assert reader.ready[0].begun_at == 0
    reader.feed(GET, 9)
    assert reader.ready[1].begun_at == 9


def test_chunks_are_put_together_and_trailers_dropped() -> None:
    (exchange,) = _read(CHUNKS).ready
    assert exchange.body == b"abcde"
    assert exchange.headers == [(b"host", b"g"), (b"transfer-encoding", b"chunked")]


def test_an_offer_to_upgrade_is_passed_over_and_its_body_is_no_request() -> None:
    reader = _read(UPGRADE + GET)
    first, second = reader.ready
    assert (first.path, first.body, second.path) == ("/u", b"GET ", "/health")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a%2Fb%20c?x", "/a/b c", "x"),
        (b"http://host:1/p/q?r=s", "/p/q", "r=s"),
        (b"http://host", "/", ""),
        (b"*", "*", ""),
        (b"//x", "//x", ""),
    ],
)
def test_targets(target: bytes, path: str, query: str) -> None:
    (exchange,) = _read(b"OPTIONS " + target + b" HTTP/1.1\r\nhost: g\r\n\r\n").ready
    assert (exchange.target, exchange.path, exchange.query) == (target, path, query)


@pytest.mark.parametrize(
    ("head", "keep_alive", "modern"),
    [
        (b"GET / HTTP/1.1\r\nhost: g\r\n\r\n", True, True),
        (b"GET / HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n", False, True),
        (b"GET / HTTP/1.0\r\n\r\n", False, False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, False),
    ],
)
def test_versions_and_keep_alive(head: bytes, keep_alive: bool, modern: bool) -> None:
    (exchange,) = _read(head).ready
    assert (exchange.keep_alive, exchange.modern) == (keep_alive, modern)


STREAM = POST + CHUNKS + GET + UPGRADE + b"\r\n" + POST
WHOLE = [_progress(exchange) for exchange in _read(STREAM).ready]


def test_the_stream_holds_five_requests() -> None:
    assert [each["path"] for each in WHOLE] == ["/v1/x", "/c", "/health", "/u", "/v1/x"]


def test_a_split_anywhere_changes_nothing() -> None:
    for cut in range(1, len(STREAM)):
        assert [_progress(exchange) for exchange in _read(STREAM[:cut], STREAM[cut:]).ready] == WHOLE, cut


@given(st.lists(st.integers(1, 40), min_size=1))
def test_splits_everywhere_change_nothing(sizes: list[int]) -> None:
    reader, at, turn = RequestReader(Limits()), 0, 0
    while at < len(STREAM):
        size = sizes[turn % len(sizes)]
        reader.feed(STREAM[at : at + size], turn)
        at, turn = at + size, turn + 1
    assert reader.refusal is None and reader.state == IDLE
    assert [_progress(exchange) for exchange in reader.ready] == WHOLE


@given(
    st.lists(
        st.tuples(st.from_regex(rb"\A[a-z0-9!#$&'*+.^_`|~-]{1,12}\Z"), st.from_regex(rb"\A[!-~]{0,20}\Z")), max_size=20
    ),
    st.lists(st.binary(min_size=1, max_size=50), max_size=6),
    st.booleans(),
    st.integers(1, 400),
)
def test_what_was_sent_is_what_is_read(
    headers: list[tuple[bytes, bytes]], parts: list[bytes], chunked: bool, size: int
) -> None:
    taken = {b"host", b"content-length", b"transfer-encoding", b"expect", b"connection", b"upgrade"}
    headers = [(b"host", b"g"), *[pair for pair in headers if pair[0] not in taken]]
    body = b"".join(parts)
    if chunked:
        framing = (
            b"transfer-encoding: chunked\r\n\r\n"
            + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts)
            + b"0\r\n\r\n"
        )
    else:
        framing = b"content-length: %d\r\n\r\n%b" % (len(body), body)
    sent = b"POST /x HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in headers) + framing
    reader = _read(*[sent[at : at + size] for at in range(0, len(sent), size)])
    (exchange,) = reader.ready
    assert exchange.headers[:-1] == headers and exchange.body == body
    assert all(exchange.header(name) == next(v for n, v in headers if n == name) for name, _ in headers)


@given(st.binary(max_size=300))
def test_noise_never_breaks_the_reader(noise: bytes) -> None:
    reader = RequestReader(Limits())
    for at in range(0, len(noise), 7):
        if reader.refusal is None:
            reader.feed(noise[at : at + 7], at)
    assert reader.refusal is None or reader.refusal.status in (400, 501, 505)


@given(st.integers(0, len(STREAM) - 1), st.binary(max_size=3), st.integers(0, 3), st.integers(1, 60))
def test_a_wrong_byte_is_taken_the_same_way_however_it_is_split(at: int, wrong: bytes, gone: int, size: int) -> None:
    sent = STREAM[:at] + wrong + STREAM[at + gone :]
    whole, split = _read(sent), _read(*[sent[at : at + size] for at in range(0, len(sent), size)])
    assert [_progress(each) for each in whole.ready] == [_progress(each) for each in split.ready]
    assert (whole.refusal and whole.refusal.status) == (split.refusal and split.refusal.status)


HEADS = b"POST /a HTTP/1.1\r\nHost: g\r\n"


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        # Where one server reads one request and another reads two
        (400, HEADS + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        (400, HEADS + b"Content-Length: 5, 5\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: +5\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: -5\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: 0x5\r\n\r\nhello"),
        (400, HEADS + b"Content-Length: 5_0\r\n\r\nhello"),
        (400, HEADS + b"Content-Length:\r\n\r\n"),
        (400, HEADS + b"Content-Length: 99999999999999999999999\r\n\r\n"),
        (400, HEADS + b"Content-Length : 5\r\n\r\nhello"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        (501, HEADS + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (501, HEADS + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        (501, HEADS + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
        (501, HEADS + b"Transfer-Encoding: gzip\r\n\r\n"),
        (400, b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"),
        (400, HEADS + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
        (501, HEADS + b"Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        # Bytes that have no place in a head
        (400, HEADS + b"X: a\x00b\r\n\r\n"),
        (400, HEADS + b"X: a\x01b\r\n\r\n"),
        (400, HEADS + b"X: a\rb\r\n\r\n"),
        (400, HEADS + b"X: a\nY: b\r\n\r\n"),
        (400, HEADS + b"X: a\r\n folded\r\n\r\n"),
        (400, HEADS + b"X\x00: a\r\n\r\n"),
        (400, HEADS + b": a\r\n\r\n"),
        (400, HEADS + b"no colon\r\n\r\n"),
        (400, HEADS + b" X: a\r\n\r\n"),
        (400, b"GET /\x00 HTTP/1.1\r\nhost: g\r\n\r\n"),
        (400, b"GET /\xff HTTP/1.1\r\nhost: g\r\n\r\n"),
        (400, b"GET / a HTTP/1.1\r\nhost: g\r\n\r\n"),
        (400, b"GET / HTTP/1.1\nhost: g\n\n"),
        (400, b"get / HTTP/1.1\r\nhost: g\r\n\r\n"),
        (400, b"MADEUP / HTTP/1.1\r\nhost: g\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        # Hosts and versions
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"),
        (400, b"GET / HTTP/1.7\r\nhost: a\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\nhost: a\r\n\r\n"),
        (505, b"GET /\r\n\r\n"),
        # What is not offered
        (501, b"CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n"),
        (417, HEADS + b"Expect: the best\r\n\r\n"),
    ],
)
def test_refused(status: int, sent: bytes) -> None:
    reader = _read(sent)
    assert reader.refusal is not None and reader.refusal.status == status
    assert not reader.ready
    split = _read(*[sent[at : at + 1] for at in range(len(sent))])
    assert split.refusal is not None and split.refusal.status == status


def test_a_refusal_does_not_unsay_the_requests_before_it() -> None:
    reader = _read(GET + POST + HEADS + b"X: \x00\r\n\r\n")
    assert [each.path for each in reader.ready] == ["/health", "/v1/x"]
    assert reader.refusal is not None


def test_a_body_is_refused_by_its_stated_length() -> None:
    assert _refusal(HEADS + b"Content-Length: 11\r\n\r\n", limits=Limits(body_bytes=10))[:2] == (413, "body")
    assert _read(HEADS + b"Content-Length: 10\r\n\r\n" + b"x" * 10, limits=Limits(body_bytes=10)).ready


def test_a_chunked_body_is_refused_when_it_passes_its_limit() -> None:
    head = HEADS + b"Transfer-Encoding: chunked\r\n\r\n"
    reader = _read(head, *[b"4\r\nabcd\r\n"] * 2, limits=Limits(body_bytes=10))
    assert (reader.state, reader.received, reader.refusal) == (BODY, 8, None)
    reader.feed(b"4\r\nabcd\r\n", 3)
    assert reader.refusal is not None and reader.refusal.status == 413
    assert _refusal(head + b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n", limits=Limits(body_bytes=10)).status == 413


def test_heads_are_bounded_in_bytes_and_in_headers() -> None:
    long = HEADS + b"X: " + b"a" * 200
    assert _refusal(long + b"\r\n\r\n", limits=Limits(header_bytes=100))[:2] == (431, "head")
    assert _refusal(long[:80], long[80:], limits=Limits(header_bytes=100)).status == 431
    many = HEADS + b"A: b\r\n" * 9
    assert _refusal(many + b"C: d\r\n\r\n", limits=Limits(headers=10)).status == 431
    assert _read(many + b"\r\n", limits=Limits(headers=10)).ready


def test_a_long_body_before_it_does_not_make_a_head_long() -> None:
    limits = Limits(header_bytes=100)
    body = HEADS + b"Content-Length: 500\r\n\r\n" + b"x" * 500
    reader = _read(body + GET[:10], GET[10:20], GET[20:], limits=limits)
    assert reader.refusal is None and len(reader.ready) == 2


def test_a_head_that_never_ends_keeps_no_more_than_its_limit() -> None:
    reader = RequestReader(Limits(header_bytes=1000))
    fed = 0
    while reader.refusal is None:
        reader.feed(b"GET / HTTP/1.1\r\nX: " if not fed else b"a" * 100, 0)
        fed += 100
    assert fed <= 1200


def test_chunks_without_a_body_are_bounded() -> None:
    head = HEADS + b"Transfer-Encoding: chunked\r\n\r\n1;"
    assert _refusal(head, *[b"x" * 60] * 3, limits=Limits(header_bytes=100)).status == 400
    trailers = HEADS + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
    assert _refusal(trailers, *[b"T: t\r\n"] * 30, limits=Limits(header_bytes=100)).status == 400


def test_only_so_many_requests_may_wait() -> None:
    assert len(_read(GET * 3, limits=Limits(pipelined=2)).ready) == 3
    assert _refusal(GET * 4, limits=Limits(pipelined=2))[:2] == (503, "pipelined")


def test_an_expectation_is_reported_until_the_body_is_there() -> None:
    head = HEADS + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
    reader = _read(head)
    assert reader.expects and reader.state == BODY
    reader.feed(b"ok", 1)
    assert not reader.expects and reader.ready[0].body == b"ok"
    assert not _read(head + b"ok").expects
    assert not _read(head.replace(b"HTTP/1.1", b"HTTP/1.0")).expects


def test_states() -> None:
    reader = _read(b"\r\n")
    assert reader.state == IDLE
    reader.feed(POST[:10], 0)
    assert reader.state == HEAD
    reader.feed(POST[10:-2], 0)
    assert reader.state == BODY and reader.received == 3
    reader.feed(POST[-2:], 0)
    assert reader.state == IDLE
