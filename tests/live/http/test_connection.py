from __future__ import annotations

from typing import Any, cast

import pytest

from poise.live.http import Exchange, Limits, Server
from poise.live.http.connection import Connection
from tests.live.http.kit import FakeLoop, FakeTransport

GET = b"GET /%d HTTP/1.1\r\nhost: g\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 4\r\n\r\nbody"
SECOND = 10**12


class Client:
    """A connection with a client that is not there."""

    def __init__(self, handler: Any = None, limits: Limits = Limits(), server: Server | None = None) -> None:  # noqa: B008
        self.exchanges: list[Exchange] = []
        self.server = server or Server(handler or self.exchanges.append, limits)
        self.loop = FakeLoop()
        self.transport = FakeTransport()
        self.connection = Connection(self.server, cast(Any, self.loop))
        self.connection.connection_made(cast(Any, self.transport))

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def waits(self, *at_s: float) -> None:
        """Sweep at these seconds; the first stamps the beginning."""
        for at in at_s:
            self.connection.sweep(int(at * SECOND))

    def status(self) -> int:
        return int(self.transport.written[9:12])


def test_the_exchange_knows_its_client() -> None:
    client = Client()
    client.send(POST)
    (exchange,) = client.exchanges
    assert (exchange.peer, exchange.body, exchange.begun_at > 0) == ("127.0.0.9", b"body", True)
    assert (client.server.open, client.server.connections, client.server.accepted) == (1, 1, 1)


def test_an_answer_is_one_write() -> None:
    client = Client(lambda exchange: exchange.answer(200, b"{}", headers=[(b"x-y", b"z")]))
    client.send(POST)
    assert client.transport.writes == [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-y: z\r\ncontent-length: 2\r\n\r\n{}"
    ]
    assert client.server.open == 0 and not client.transport.is_closing()


def test_chunks_leave_one_by_one_and_the_head_with_the_first() -> None:
    client = Client()
    client.send(POST)
    (exchange,) = client.exchanges
    exchange.start(200, [(b"content-type", b"text/event-stream")])
    exchange.write(b"data: 1\n\n")
    exchange.write(b"")
    exchange.write(b"data: 2\n\n")
    client.loop.turn()
    exchange.end()
    first, *rest = client.transport.writes
    assert first.endswith(b"transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
    assert rest == [b"9\r\ndata: 2\n\n\r\n", b"0\r\n\r\n"]


def test_the_head_of_a_stream_does_not_wait_for_its_first_chunk() -> None:
    client = Client()
    client.send(POST)
    client.exchanges[0].start(200, [])
    assert not client.transport.writes
    client.loop.turn()
    assert client.transport.written == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def test_large_chunks_are_framed_without_a_copy() -> None:
    client = Client()
    client.send(POST)
    exchange, data = client.exchanges[0], bytes(100_000)
    exchange.start(200, [])
    exchange.write(data)
    exchange.end()
    assert client.transport.written.endswith(b"\r\n\r\n186a0\r\n" + data + b"\r\n0\r\n\r\n")


def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    client = Client()
    client.send(b"".join(GET % each for each in range(3)))
    client.send(GET % 3)
    assert not client.transport.reading, "no more is read while one is under way"
    for each in range(4):
        assert [exchange.path for exchange in client.exchanges] == [f"/{n}" for n in range(each + 1)]
        assert client.server.open == 1
        client.exchanges[each].answer(200, b"%d" % each)
    assert client.transport.reading
    assert [write[-1:] for write in client.transport.writes] == [b"0", b"1", b"2", b"3"]


def test_a_refusal_waits_for_the_answers_before_it() -> None:
    client = Client()
    client.send(GET % 0 + b"GET / HTTP/9.9\r\n\r\n")
    assert not client.transport.writes
    client.exchanges[0].answer(200, b"first")
    assert client.transport.writes[0].endswith(b"first") and client.transport.writes[1].startswith(b"HTTP/1.1 400 ")
    assert client.transport.half_closed


def test_a_refusal_is_sent_once() -> None:
    client = Client()
    client.send(b"GET / HTTP/9.9\r\n\r\n")
    client.connection.pause_writing()
    client.connection.resume_writing()
    client.send(b"GET / HTTP/9.9\r\n\r\n")
    assert len(client.transport.writes) == 1 and client.server.causes == {"malformed": 1}


def test_answers_given_at_once_do_not_pile_up_on_the_stack() -> None:
    client = Client(lambda exchange: exchange.answer(200, b""), Limits(pipelined=5000))
    client.send(b"".join(GET % each for each in range(3000)))
    assert len(client.transport.writes) == 3000


def test_what_comes_after_a_last_request_is_not_read() -> None:
    client = Client(lambda exchange: exchange.answer(200, b""))
    client.send(b"GET / HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n")
    assert b"\r\nconnection: close\r\n" in client.transport.written and client.transport.closed


def test_old_clients() -> None:
    client = Client()
    client.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    client.exchanges[0].answer(200, b"x")
    assert b"\r\nconnection: keep-alive\r\n" in client.transport.written and not client.transport.closed
    client.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    client.exchanges[1].start(200, [])
    client.exchanges[1].write(b"until I close")
    client.exchanges[1].end()
    assert client.transport.writes[-1] == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil I close"
    assert client.transport.closed


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [(b"HEAD", 200, b"content-length: 2\r\n"), (b"GET", 304, b"content-length: 2\r\n"), (b"GET", 204, b"")],
)
def test_answers_without_a_body(method: bytes, status: int, expected: bytes) -> None:
    client = Client()
    client.send(method + b" / HTTP/1.1\r\nhost: g\r\n\r\n")
    client.exchanges[0].answer(status, b"{}")
    _, _, rest = client.transport.written.partition(b"application/json\r\n")
    assert rest == expected + b"\r\n" and not client.transport.closed


def test_a_length_among_the_headers_frames_the_answer() -> None:
    client = Client()
    client.send(GET % 0)
    client.exchanges[0].start(200, [(b"content-length", b"2"), (b"transfer-encoding", b"x"), (b"connection", b"x")])
    client.exchanges[0].write(b"ok")
    client.exchanges[0].end()
    assert client.transport.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]


def test_an_answer_shorter_than_its_length_is_cut() -> None:
    client = Client()
    client.send(GET % 0)
    exchange = client.exchanges[0]
    exchange.start(200, [], 5)
    exchange.write(b"four")
    exchange.end()
    assert client.transport.closed and not exchange.ended and client.server.open == 0


def test_an_answer_longer_than_its_length_is_an_error_before_it_is_sent() -> None:
    client = Client()
    client.send(GET % 0)
    client.exchanges[0].start(200, [], 3)
    with pytest.raises(ValueError, match="1 bytes longer"):
        client.exchanges[0].write(b"four")
    assert not client.transport.writes


def test_nothing_is_written_after_the_end() -> None:
    client = Client()
    client.send(GET % 0)
    client.exchanges[0].answer(200, b"x")
    before = client.transport.written
    for late in (lambda e: e.write(b"y"), lambda e: e.end(), lambda e: e.answer(500, b"")):
        with pytest.raises(AssertionError, match="has ended"):
            late(client.exchanges[0])
    client.exchanges[0].cut()
    assert client.transport.written == before and not client.transport.is_closing()


def test_an_answer_begins_once_and_before_its_body() -> None:
    client = Client()
    client.send(GET % 0)
    with pytest.raises(AssertionError, match="start"):
        client.exchanges[0].write(b"y")
    client.exchanges[0].start(200, [])
    with pytest.raises(AssertionError, match="once"):
        client.exchanges[0].start(200, [])


@pytest.mark.parametrize("header", [(b"x", b"a\r\nset-cookie: b"), (b"x", b"a\rb"), (b"x\n", b"a")])
def test_a_header_cannot_write_another(header: tuple[bytes, bytes]) -> None:
    client = Client()
    client.send(GET % 0)
    with pytest.raises(ValueError, match="end of a line"):
        client.exchanges[0].start(200, [header])


def test_a_client_that_leaves_is_reported_once() -> None:
    gone: list[str] = []
    for leave in ("connection_lost", "eof_received"):
        client = Client()
        client.send(GET % 0)
        exchange = client.exchanges[0]
        exchange.gone = lambda: gone.append("gone")
        exchange.start(200, [])
        if leave == "eof_received":
            client.connection.eof_received()
            assert client.transport.aborted
        client.connection.connection_lost(None)
        exchange.write(b"into the void")
        exchange.end()
        exchange.cut()
        assert client.server.open == 0 and client.server.connections == 0 and not exchange.ended
    assert gone == ["gone", "gone"]


def test_a_client_that_leaves_after_the_end_is_not_reported() -> None:
    client = Client()
    client.send(GET % 0)
    client.exchanges[0].gone = lambda: pytest.fail("it had its answer")
    client.exchanges[0].answer(200, b"x")
    client.connection.connection_lost(None)


def test_a_client_that_leaves_takes_its_waiting_requests_along() -> None:
    client = Client()
    client.send(GET % 0 + GET % 1)
    client.connection.eof_received()
    client.connection.connection_lost(None)
    assert len(client.exchanges) == 1


def test_a_slow_client_stops_the_handler_and_the_next_request() -> None:
    client = Client()
    client.send(GET % 0 + GET % 1)
    flows: list[bool] = []
    exchange = client.exchanges[0]
    exchange.flow = flows.append
    client.connection.pause_writing()
    client.connection.resume_writing()
    client.connection.pause_writing()
    exchange.answer(200, b"x")
    assert flows == [False, True, False] and len(client.exchanges) == 1
    client.connection.resume_writing()
    assert len(client.exchanges) == 2 and client.transport.high == Limits().write_buffer_bytes


def test_what_comes_while_a_slow_client_holds_its_answer_waits_unread() -> None:
    client = Client(lambda exchange: exchange.answer(200, b"x"))
    client.send(GET % 0)
    client.connection.pause_writing()
    for each in range(3):
        client.send(GET % each)
    assert len(client.transport.writes) == 1 and not client.transport.reading
    client.connection.resume_writing()
    assert len(client.transport.writes) == 4 and client.transport.reading


def test_a_half_read_request_keeps_its_reader_from_others() -> None:
    server = Server(lambda exchange: exchange.answer(200, exchange.path.encode()))
    first, second = Client(server=server), Client(server=server)
    first.send(GET % 0 + b"GET /first HT")
    second.send(GET % 1)
    first.send(b"TP/1.1\r\nhost: g\r\n\r\n")
    second.send(GET % 2)
    assert [write.rpartition(b"\n")[2] for write in first.transport.writes] == [b"/0", b"/first"]
    assert [write.rpartition(b"\n")[2] for write in second.transport.writes] == [b"/1", b"/2"]


def test_a_cut_answer_has_no_end() -> None:
    client = Client()
    client.send(GET % 0)
    client.exchanges[0].start(200, [])
    client.exchanges[0].write(b"half")
    client.exchanges[0].cut()
    assert client.transport.closed and not client.transport.written.endswith(b"0\r\n\r\n")
    unanswered = Client()
    unanswered.send(GET % 0)
    unanswered.exchanges[0].cut()
    assert unanswered.transport.aborted and not unanswered.transport.writes
    assert client.server.open == unanswered.server.open == 0


def test_a_handler_that_fails_is_answered_for() -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.path == "/1":
            exchange.start(200, [])
        raise RuntimeError("no")

    client = Client(handler)
    client.send(GET % 0)
    assert client.status() == 500 and not client.transport.is_closing()
    client.send(GET % 1)
    assert client.transport.closed and len(client.loop.errors) == 2
    assert client.server.open == 0


def test_the_body_is_requested_when_it_is_its_turn() -> None:
    head = b"POST / HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    client = Client()
    client.send(GET % 0 + head)
    assert not client.transport.writes
    client.exchanges[0].answer(200, b"x")
    assert client.transport.writes[1:] == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    client.send(b"o")
    client.send(b"k")
    assert client.exchanges[1].body == b"ok" and len(client.transport.writes) == 2


# Times ---------------------------------------------------------------------------------------------------------------

LIMITS = Limits(head_s=10, body_s=60, body_rate=1, idle_s=75, read_s=120, linger_s=2)


def test_an_idle_connection_is_closed() -> None:
    client = Client(limits=LIMITS)
    client.waits(1, 76)
    assert not client.transport.is_closing()
    client.waits(76.1)
    assert client.transport.closed and not client.transport.writes


def test_idleness_begins_anew_with_each_answer() -> None:
    client = Client(limits=LIMITS)
    client.waits(1, 70)
    client.send(GET % 0)
    client.waits(71, 1000)
    assert not client.transport.is_closing(), "an answer may take its time"
    client.exchanges[0].answer(200, b"x")
    client.waits(1001, 1076)
    assert not client.transport.is_closing()
    client.waits(1077)
    assert client.transport.closed


def test_a_slow_head_is_refused_though_bytes_keep_coming() -> None:
    client = Client(limits=LIMITS)
    client.waits(1)
    client.send(b"GET / HT")
    for at in range(2, 13):
        client.send(b"T" if at == 2 else b"")
        client.waits(at)
    assert not client.transport.writes
    client.waits(12.1)
    assert client.status() == 408 and client.server.causes == {"head_timeout": 1}


def test_a_slow_body_is_refused_and_a_steady_one_is_not() -> None:
    slow, steady = Client(limits=LIMITS), Client(limits=LIMITS)
    for client in (slow, steady):
        client.send(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 1000\r\n\r\n")
        client.waits(1)
    steady.send(b"x" * 40)
    slow.waits(61, 62)
    steady.waits(61, 62, 100)
    assert slow.status() == 408 and slow.server.causes == {"body_timeout": 1}
    assert not steady.transport.writes
    steady.waits(102)
    assert steady.status() == 408


def test_a_client_that_takes_nothing_is_cut() -> None:
    gone: list[bool] = []
    client = Client(limits=LIMITS)
    client.send(GET % 0)
    client.exchanges[0].gone = lambda: gone.append(True)
    client.connection.pause_writing()
    client.waits(1, 100)
    client.connection.resume_writing()
    client.connection.pause_writing()
    client.waits(101, 221)
    assert not client.transport.aborted
    client.waits(222)
    assert client.transport.aborted and gone == [True] and client.server.causes == {"read_timeout": 1}


def test_a_client_that_never_takes_its_last_answer_is_cut() -> None:
    client = Client(limits=LIMITS)
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    client.exchanges[0].answer(200, b"x")
    client.waits(1, 121)
    assert not client.transport.aborted
    client.waits(122)
    assert client.transport.aborted


def test_a_refused_client_is_read_for_a_while_and_not_for_ever() -> None:
    client = Client(limits=Limits(body_bytes=10, linger_bytes=100))
    client.send(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 11\r\n\r\n")
    assert client.status() == 413 and client.transport.half_closed and not client.transport.is_closing()
    client.send(b"x" * 99)
    assert not client.transport.aborted
    client.send(b"x")
    assert client.transport.aborted
    waiting = Client(limits=Limits(body_bytes=10, linger_s=2))
    waiting.send(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 11\r\n\r\n")
    waiting.waits(1, 3)
    assert not waiting.transport.aborted
    waiting.waits(3.1)
    assert waiting.transport.aborted
    assert waiting.server.causes["body"] == 1


def test_one_client_too_many() -> None:
    server = Server(lambda exchange: None, Limits(connections=1))
    first, second = Client(server=server), Client(server=server)
    assert not first.transport.writes
    assert second.status() == 503 and second.transport.closed and server.causes == {"connections": 1}
    second.connection.connection_lost(None)
    first.connection.connection_lost(None)
    assert not Client(server=server).transport.writes
