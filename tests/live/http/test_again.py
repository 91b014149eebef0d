from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.http.again import Again
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits
from poise.live.http.request import RequestReader

HEAD = b"POST /v1/x?a=b HTTP/1.1\r\nHost: g\r\nX: y\r\nContent-Length: %d\r\nUser-Agent: z\r\n\r\n"


def _head(exchange: Exchange) -> dict[str, Any]:
    names = ("method", "target", "path", "query", "headers", "body", "begun_at", "keep_alive", "modern")
    return {name: getattr(exchange, name) for name in names} | {"length": exchange.header(b"content-length")}


def _fed(reader: RequestReader, data: bytes, at: int) -> list[dict[str, Any]]:
    if reader.refusal is None:
        reader.feed(data, at)
    found = [_head(exchange) for exchange in reader.ready]
    reader.ready.clear()
    return found


def _sent(body: bytes, head: bytes = HEAD) -> bytes:
    return head % len(body) + body


PIECES = st.one_of(
    st.binary(max_size=30).map(_sent),
    st.binary(max_size=30).map(lambda body: _sent(body) + b"\r\n"),
    st.binary(max_size=30).map(lambda body: _sent(body, HEAD.replace(b"y", b"other"))),
    st.binary(max_size=30).map(lambda body: _sent(body, b"POST / HTTP/1.1\r\ncontent-length:%d \r\nhost: g\r\n\r\n")),
    st.binary(min_size=1, max_size=9).map(lambda body: _sent(body)[:-1]),
    st.sampled_from(
        [
            b"GET /h HTTP/1.1\r\nhost: g\r\n\r\n",
            _sent(b"a") + _sent(b"b"),
            _sent(b"a") + _sent(b"b")[:40],
            _sent(b"a") + b"GET /other HTTP/1.1\r\nhost: g\r\nsplit: ",
            HEAD.replace(b"%d", b"003") + b"abc",
            HEAD.replace(b"%d", b"+3") + b"abc",
            HEAD.replace(b"%d", b"") + b"abc",
            HEAD.replace(b"%d", b"3\r\nContent-Length: 3") + b"abc",
            HEAD.replace(b"%d", b"99999999999999999999999") + b"abc",
            _sent(b"\r\n\r\n" + _sent(b"inner")),
            b"\r\n" + _sent(b"line before"),
            b"POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: g\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nok",
        ]
    ),
)


@given(st.lists(PIECES, max_size=9))
def test_a_head_that_is_not_parsed_reads_as_if_it_were(pieces: list[bytes]) -> None:
    quick, slow = RequestReader(Limits()), RequestReader(Limits())
    slow.memory._seen = 9  # remembers nothing
    for at, piece in enumerate(pieces):
        assert _fed(quick, piece, at) == _fed(slow, piece, at)
        assert (quick.state, quick.refusal) == (slow.state, slow.refusal)


def _reader(sent: bytes = HEAD, limits: Limits = Limits()) -> tuple[RequestReader, Again]:  # noqa: B008
    reader = RequestReader(limits)
    for each in (b"1", b"22"):
        _fed(reader, _sent(each, sent), 0)
    assert reader.memory._again is not None
    return reader, reader.memory._again


def test_only_the_length_may_differ() -> None:
    _, again = _reader()
    exchange = again.read(_sent(b"a longer body"), 7)
    assert exchange is not None and exchange.body == b"a longer body" and exchange.begun_at == 7
    assert exchange.header(b"content-length") == b"13" and exchange.header(b"x") == b"y"
    for other in (
        b"GET" + _sent(b"")[4:],
        _sent(b"x", HEAD.replace(b"z", b"a")),
        _sent(b"xx")[:-1],
        _sent(b"x") + b"y",
    ):
        assert again.read(other, 0) is None


def test_a_handler_that_changes_its_headers_changes_no_other() -> None:
    _, again = _reader()
    first = again.read(_sent(b"a"), 0)
    assert first is not None
    first.headers.clear()
    second = again.read(_sent(b"a"), 0)
    assert second is not None and len(second.headers) == 4


def test_a_body_past_its_limit_is_left_to_the_parser_to_refuse() -> None:
    reader, again = _reader(limits=Limits(body_bytes=5))
    assert again.read(_sent(b"123456"), 0) is None
    reader.feed(_sent(b"123456"), 0)
    assert reader.refusal is not None and reader.refusal.status == 413


def test_a_client_whose_heads_vary_is_let_be() -> None:
    reader, _ = _reader()
    for each in range(3):
        (found,) = _fed(reader, _sent(b"a", HEAD.replace(b"y", b"abc"[each : each + 1])), each)
        assert found["headers"][1] == (b"x", b"abc"[each : each + 1])
        assert reader.memory._again is None


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: g\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: 1\r\n\r\na",
        b"POST / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nhost: g\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 1\r\n\r\na\r\n",
        b"POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ],
)
def test_what_holds_but_once_is_not_repeated(sent: bytes) -> None:
    reader = RequestReader(Limits())
    reader.feed(sent, 0)
    assert Again.of(sent, reader.ready[0], 100) is None
