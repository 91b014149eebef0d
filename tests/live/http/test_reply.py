from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.http.reply import BODY, DONE, GARBAGE, HEAD, ReplyReader
from poise.live.http.reply_memory import ReplyMemory

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"


def _read(*pieces: bytes, method: bytes = b"POST") -> tuple[ReplyReader, bytes]:
    reader = ReplyReader(1000)
    reader.begin(method)
    return reader, b"".join(reader.feed(piece) for piece in pieces)


def test_an_answer_with_a_length() -> None:
    reader, body = _read(LENGTH)
    assert (reader.state, reader.status, body, reader.reusable) == (DONE, 200, b"hello", True)
    assert reader.headers == [(b"content-type", b"text/plain"), (b"content-length", b"5")]


def test_an_answer_in_chunks_comes_as_the_bytes_of_one_read() -> None:
    reader, body = _read(CHUNKS)
    assert (reader.state, body, reader.reusable) == (DONE, b"abcde", True)
    assert reader.headers == [(b"transfer-encoding", b"chunked")]


def test_an_answer_that_ends_with_the_connection() -> None:
    reader, body = _read(OK + b"\r\n", b"one", b"two")
    assert (reader.state, body, reader.reusable) == (BODY, b"onetwo", False)
    assert reader.finish() and reader.state == DONE


def test_a_connection_that_ends_too_early() -> None:
    assert not _read(LENGTH[:-1])[0].finish()
    assert not _read(CHUNKS[:-1])[0].finish()
    assert not _read(OK)[0].finish()
    assert not _read()[0].finish()


@pytest.mark.parametrize("answer", [LENGTH, CHUNKS, b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH])
def test_a_split_anywhere_changes_nothing(answer: bytes) -> None:
    whole, body = _read(answer)
    for cut in range(1, len(answer)):
        reader, parts = _read(answer[:cut], answer[cut:])
        assert (reader.state, reader.status, reader.headers, reader.reusable) == (DONE, 200, whole.headers, True)
        assert parts == body


def test_answers_of_status_1xx_are_passed_over() -> None:
    reader, _ = _read(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
    assert reader.state == HEAD
    assert reader.feed(LENGTH) == b"hello" and reader.status == 200
    assert (b"link", b"x") not in reader.headers


def test_answers_without_a_body() -> None:
    assert _read(OK + b"content-length: 9\r\n\r\n", method=b"HEAD")[0].state == DONE
    assert not _read(OK + b"content-length: 9\r\n\r\n", method=b"HEAD")[0].reusable
    for status in (b"204 No Content", b"304 Not Modified"):
        reader, body = _read(b"HTTP/1.1 " + status + b"\r\ncontent-length: 9\r\n\r\n")
        assert (reader.state, body, reader.reusable) == (DONE, b"", True)


def test_one_answer_after_the_other() -> None:
    reader = ReplyReader(1000)
    for _ in range(3):
        for answer, body in ((LENGTH, b"hello"), (CHUNKS, b"abcde")):
            reader.begin(b"GET")
            assert (reader.feed(answer), reader.state, reader.reusable) == (body, DONE, True)


@pytest.mark.parametrize("rest", [b"x", LENGTH, b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
@pytest.mark.parametrize("answer", [LENGTH, CHUNKS])
def test_what_follows_the_end_spoils_the_connection_but_not_the_answer(answer: bytes, rest: bytes) -> None:
    reader, body = _read(answer + rest)
    assert reader.state == DONE and not reader.reusable
    assert (reader.status, body) == (200, b"hello" if answer is LENGTH else b"abcde")
    assert all(name != b"content-length" or value == b"5" for name, value in reader.headers)


@pytest.mark.parametrize(
    "answer",
    [OK + b"connection: close\r\ncontent-length: 1\r\n\r\na", b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na"],
)
def test_an_engine_that_will_close(answer: bytes) -> None:
    reader, body = _read(answer)
    assert (reader.state, reader.reusable, body) == (DONE, False, b"a")


@pytest.mark.parametrize(
    "answer",
    [
        b"hello there\r\n\r\n",
        b"\x00\x01\x02",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/3.0 200 OK\r\n\r\n",
        OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
        OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        OK + b"content-length: five\r\n\r\n",
        OK + b"transfer-encoding: gzip\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
        OK + b"x: a\x00b\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        OK + b"x: " + b"a" * 2000,
    ],
)
def test_garbage(answer: bytes) -> None:
    reader, _ = _read(*[answer[at : at + 1] for at in range(len(answer))])
    assert reader.state == GARBAGE and reader.reason and not reader.reusable


@given(st.binary(max_size=200))
def test_noise_never_breaks_the_reader(noise: bytes) -> None:
    reader = ReplyReader(1000)
    reader.begin(b"GET")
    for at in range(0, len(noise), 9):
        if reader.state in (HEAD, BODY):
            reader.feed(noise[at : at + 9])
    assert reader.state in (HEAD, BODY, DONE, GARBAGE)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(1, 60))
def test_all_bytes_come_once_and_in_order(parts: list[bytes], size: int) -> None:
    sent = OK + b"transfer-encoding: chunked\r\n\r\n"
    sent += b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    reader, body = _read(*[sent[at : at + size] for at in range(0, len(sent), size)])
    assert reader.state == DONE and body == b"".join(parts)


LENGTHS = OK + b"Date: now\r\nContent-Length: %d\r\nConnection: x\r\nX: y\r\n\r\n"


def _answer(body: bytes, head: bytes = LENGTHS) -> bytes:
    return head % len(body) + body


ANSWERS = st.one_of(
    st.binary(max_size=30).map(_answer),
    st.binary(max_size=30).map(lambda body: _answer(body) + b"\r\n"),
    st.binary(max_size=30).map(lambda body: _answer(body, LENGTHS.replace(b"now", b"later"))),
    st.binary(min_size=1, max_size=9).map(lambda body: _answer(body)[:-1]),
    st.sampled_from(
        [
            LENGTH,
            CHUNKS,
            _answer(b"a") + _answer(b"b"),
            LENGTHS.replace(b"%d", b"003") + b"abc",
            LENGTHS.replace(b"%d", b"+3") + b"abc",
            LENGTHS.replace(b"%d", b"") + b"abc",
            LENGTHS.replace(b"%d", b"3\r\ncontent-length: 3") + b"abc",
            LENGTHS.replace(b"%d", b"99999999999999999999999") + b"abc",
            LENGTHS.replace(b"200 OK", b"304 Not Modified") % 3 + b"abc",
            _answer(b"abc", LENGTHS.replace(b"Connection: x", b"Connection: close")),
            _answer(b"abc", LENGTHS.replace(b"X: y", b"Transfer-Encoding: chunked")),
            _answer(b"abc", LENGTHS.replace(b"Connection: x", b"Connection: content-length")),
            b"HTTP/1.1 100 Continue\r\n\r\n" + _answer(b"abc"),
        ]
    ),
)


@given(st.lists(ANSWERS, max_size=9), st.sampled_from([b"POST", b"POST", b"HEAD"]))
def test_a_head_that_is_not_parsed_reads_as_if_it_were(answers: list[bytes], method: bytes) -> None:
    """Each answer on a connection of its own, as after any that is not kept; and all on one as long as it is."""
    memory = ReplyMemory()
    quick, slow = ReplyReader(1000, memory), ReplyReader(1000)
    for answer in answers:
        slow.memory = ReplyMemory()  # remembers nothing
        found = []
        for reader in (quick, slow):
            reader.begin(method)
            body = reader.feed(answer)
            found.append((body, reader.state, reader.status, reader.reusable, reader.reason, reader.take_headers()))
        assert found[0] == found[1]
        if quick.state != DONE or not quick.reusable:
            quick, slow = ReplyReader(1000, memory), ReplyReader(1000)


def test_an_engine_that_repeats_itself_is_parsed_once() -> None:
    memory = ReplyMemory()
    assert memory.recall(_answer(b"a")) is None
    reader = ReplyReader(1000, memory)
    reader.begin(b"POST")
    reader.feed(_answer(b"a"))
    found = memory.recall(_answer(b"longer by far"))
    assert found is not None and (b"content-length", b"13") in found and memory.body == b"longer by far"
    assert (b"connection", b"x") not in found


def test_an_engine_whose_heads_vary_is_remembered_seldom() -> None:
    reader, learned = ReplyReader(1000), 0
    for number in range(200):
        answer = _answer(b"a", LENGTHS.replace(b"now", b"%d" % (1000 + number)))
        reader.begin(b"POST")
        reader.feed(answer)
        learned += reader.memory.recall(answer) is not None
        reader.memory._missed = number + 1
    assert 16 <= learned < 24
