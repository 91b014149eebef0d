"""One budget for all bodies: what is counted is what is kept, and nothing is left when everybody has gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.http import Limits, Server
from poise.live.http.connection import Connection
from tests.live.http.test_connection import Client

LIMITS = Limits(bodies_bytes=1000)
BIG = 600


def _post(size: int, sent: int | None = None) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % size + b"x" * (size if sent is None else sent)


def _chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size)


def _two() -> tuple[Client, Client]:
    first = Client(limits=LIMITS)
    return first, Client(server=first.server)


@pytest.mark.parametrize("repeats", [0, 3])
def test_a_body_that_does_not_fit_is_refused_by_its_head(repeats: int) -> None:
    first, second = _two()
    for _ in range(repeats):  # so that the head is one that is remembered
        second.send(_post(BIG))
        first.exchanges.pop().answer(200, b"")
        second.transport.writes.clear()
    first.send(_post(BIG))
    second.send(_post(BIG, sent=0 if not repeats else BIG))
    assert second.status() == 503 and b"\r\nretry-after: 1\r\n" in second.transport.written
    error = json.loads(second.transport.written.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == 503 and error["type"] == "server_error"
    assert first.server.causes == {"bodies": 1} and first.server.bodies.held == BIG


def test_requests_without_a_body_are_always_heard() -> None:
    first, second = _two()
    first.send(_post(1000))
    second.send(b"GET /health HTTP/1.1\r\nhost: g\r\n\r\n")
    assert [exchange.path for exchange in first.exchanges] == ["/", "/health"]


def test_a_body_without_a_length_is_refused_as_it_grows() -> None:
    first, second = _two()
    first.send(_post(BIG))
    second.send(b"POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n" + _chunk(399))
    assert not second.transport.writes and first.server.bodies.held == 999
    second.send(_chunk(2))
    assert second.status() == 503 and first.server.bodies.held == BIG


def test_a_head_alone_takes_no_room() -> None:
    first, second = _two()
    first.send(_post(BIG, sent=0))
    second.send(_post(BIG))
    assert first.server.bodies.held == BIG and len(first.exchanges) == 1


@pytest.mark.parametrize("how", ["ended", "cut", "left", "forgotten", "aborted"])
def test_what_is_let_go_makes_room(how: str) -> None:
    first, second = _two()
    first.send(_post(BIG))
    (exchange,) = first.exchanges
    if how == "forgotten":
        exchange.forget()
    elif how == "ended":
        exchange.answer(200, b"")
    elif how == "cut":
        exchange.start(200, [])
        exchange.cut()
    elif how == "left":
        first.connection.connection_lost(None)
    else:
        first.connection.abort()
    assert first.server.bodies.held == 0
    second.send(_post(BIG))
    assert len(first.exchanges) == 2


def test_what_comes_too_early_counts_and_without_room_the_connection_ends() -> None:
    first, second = _two()
    first.send(_post(BIG))
    first.send(_post(200))
    kept = len(_post(200))
    assert first.server.bodies.held == BIG + kept
    second.send(_post(100))
    second.send(_post(300))
    assert second.connection.closing and first.server.bodies.held == BIG + kept + 100
    first.exchanges[1].answer(200, b"")
    assert second.transport.closed and first.server.bodies.held == BIG + kept


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["post", "part", "rest", "chunks", "answer", "forget", "lose"])),
    max_size=60,
)


@given(STEPS)
def test_what_is_counted_is_what_is_kept(steps: list[tuple[int, str]]) -> None:
    server = Server(lambda exchange: None, Limits(bodies_bytes=1000, pipelined=2))
    clients = [Client(server=server) for _ in range(4)]
    for number, step in steps:
        client = clients[number]
        exchange = client.connection._exchange
        if step == "lose":
            client.connection.connection_lost(None)
            clients[number] = Client(server=server)
        elif step in ("answer", "forget"):
            if exchange is not None:
                exchange.answer(200, b"") if step == "answer" else exchange.forget()
        elif client.transport.reading and not client.transport.is_closing():
            client.send({"post": _post(150) * 2, "part": _post(300, 100), "rest": b"x" * 100}.get(step, CHUNKED))
        assert server.bodies.held == sum(_kept(client.connection) for client in clients)
        assert server.bodies.held <= 1000 + 300
    for client in clients:
        client.connection.connection_lost(None)
    assert server.bodies.held == 0


CHUNKED = b"POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n" + _chunk(120)


def _kept(connection: Any) -> int:
    """Bytes that a connection keeps, looked up in its parts."""
    assert isinstance(connection, Connection)
    reader, ahead, exchange = connection._reader, connection._ahead, connection._exchange
    ready = [] if reader is None else [each.body for each in reader.ready]
    return (
        sum(map(len, ready))
        + (0 if reader is None else reader.received)
        + (0 if ahead is None else len(ahead[0]))
        + (0 if exchange is None else len(exchange.body))
    )
