"""Engines as attackers: whatever one answers, its client gets a whole answer or a clear error."""

from __future__ import annotations

import asyncio
import logging

import pytest

from poise.live.gateway.settings import Settings
from poise.live.http.limits import PoolLimits
from tests.live.gateway.attack import Besieged, Script, forever, says
from tests.live.gateway.live import Answer
from tests.live.warp import run

OK = b"HTTP/1.1 200 OK\r\n"
LIMITS = Settings(held_s=10, engines=PoolLimits(connect_s=1.0, head_s=5.0, stall_s=5.0, header_bytes=16_384))


async def answered(script: Script, stream: bool = False) -> tuple[Answer, Besieged]:
    """How a request ends that only an evil engine can answer."""
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    async with Besieged(script, tries=1, settings=LIMITS) as live:
        answer = await live.ask(stream=stream).wait()
        await live.check_balance()
        assert not problems, problems
        return answer, live


GARBAGE = {
    "no HTTP": b"hello\r\n\r\n",
    "another version": b"HTTP/9.9 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    "a status of two digits": b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nhi",
    "status 000": b"HTTP/1.1 000 OK\r\ncontent-length: 2\r\n\r\nhi",
    "status 099": b"HTTP/1.1 099 OK\r\ncontent-length: 2\r\n\r\nhi",
    "an upgrade": b"HTTP/1.1 101 Go\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nhi",
    "a header with a line end": OK + b"x: a\nset-cookie: evil=1\r\ncontent-length: 2\r\n\r\nhi",
    "a header with a return": OK + b"x: a\rset-cookie: evil=1\r\ncontent-length: 2\r\n\r\nhi",
    "a folded header": OK + b"x: a\r\n set-cookie: evil=1\r\ncontent-length: 2\r\n\r\nhi",
    "a header with a zero": OK + b"x: a\0b\r\ncontent-length: 2\r\n\r\nhi",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi",
    "length and chunks": OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "a negative length": OK + b"content-length: -2\r\n\r\nhi",
    "an endless length": OK + b"content-length: 99999999999999999999999\r\n\r\nhi",
    "an unknown coding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "nothing": b"",
    "half a head": OK + b"content-le",
    "a head without an end": OK + b"x: " + b"y" * 60_000 + b"\r\n\r\n",
    "many headers": OK + b"".join(b"x-%d: y\r\n" % each for each in range(5000)) + b"\r\n",
}


@pytest.mark.parametrize("expected", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_answer_is_a_clear_error(expected: bytes) -> None:
    answer, _ = run(answered(says(expected)))
    assert answer.status == 503 and "engine" in answer.error, (answer.status, answer.body)
    assert "evil" not in answer.error and b"127.0.0.1" not in answer.body, "where it was is nobody's business"
    assert b"set-cookie" not in answer.headers and b"Traceback" not in answer.body


CUT = {
    "shorter than its length": OK + b"content-length: 20\r\n\r\nhi",
    "a bad chunk": OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n-5\r\n",
    "a huge chunk": OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\nfffffffffffffffff\r\n",
    "chunks without an end": OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
}


@pytest.mark.parametrize("expected", CUT.values(), ids=CUT)
def test_an_answer_that_breaks_off_is_seen_to_break_off(expected: bytes) -> None:
    """The client is never told that it has all."""
    head, _, rest = expected.partition(b"\r\n\r\n")
    answer, _ = run(answered(says(head + b"\r\n\r\n", rest)))
    assert (not answer.complete and answer.why is not None) or answer.status == 503


@pytest.mark.parametrize("left", [1, 150, 5000])
def test_a_stream_that_breaks_off_says_so_whatever_length_was_stated(left: int) -> None:
    """Less than the error event needs, about as much, or more."""
    data = b"data: {}\n\n"
    answer, _ = run(answered(says(OK + b"content-length: %d\r\n\r\n" % (len(data) + left), data), stream=True))
    assert answer.status == 200 and answer.body.startswith(data) and not answer.complete
    assert b'data: {"error":' in answer.body and b"content-length" not in answer.headers


PASSED = {
    "longer than its length": (OK + b"content-length: 2\r\n\r\nhi and more", 200, b"hi"),
    "a redirect": (b"HTTP/1.1 307 Go\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", 307, b""),
    "a strange status": (b"HTTP/1.1 299 Odd\r\ncontent-length: 2\r\n\r\nhi", 299, b"hi"),
    "no content": (b"HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\nhi", 204, b""),
    "until it closes": (OK + b"\r\nhi", 200, b"hi"),
    "hints before it": (b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" * 9 + OK + b"content-length: 2\r\n\r\nhi", 200, b"hi"),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "status", "body"), PASSED.values(), ids=PASSED)
def test_what_can_be_read_is_passed_on(expected: bytes, status: int, body: bytes) -> None:
    answer, live = run(answered(says(expected)))
    assert (answer.status, answer.body, answer.complete) == (status, body, True)
    assert len(live.evil.heads) == 1, "a redirect is the client's to follow"
    assert b"link" not in answer.headers


ENDLESS = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a head": (OK, b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
    "an error": (b"HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n", b"1000\r\n" + b"e" * 4096 + b"\r\n"),
    "an error elsewhere": (b"HTTP/1.1 500 Bad\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\nevil\r\n"),
    "chunk extensions": (OK + b"transfer-encoding: chunked\r\n\r\n", b"1;" + b"x" * 4096),
}


@pytest.mark.parametrize(("head", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_is_ended(head: bytes, piece: bytes) -> None:
    answer, _ = run(answered(forever(head, piece)))
    assert answer.status in (400, 500, 503) and answer.complete
    assert len(answer.body) <= LIMITS.error_bytes, "an error is passed on up to a bound"


def test_a_client_that_leaves_ends_an_endless_answer() -> None:
    async def main() -> None:
        piece = b"1000\r\n" + b"e" * 4096 + b"\r\n"
        async with Besieged(forever(OK + b"transfer-encoding: chunked\r\n\r\n", piece), tries=1) as live:
            answer = live.ask()
            await answer.began.wait()
            assert answer.call is not None
            answer.call.cancel()
            await live.check_balance()

    run(main())


def test_another_engine_answers_for_an_evil_one() -> None:
    async def main() -> None:
        async with Besieged(says(GARBAGE["two lengths"]), good=1) as live:
            answers = [await live.ask(f"number {each}").wait() for each in range(20)]
            assert all(answer.whole for answer in answers)
            assert live.evil.heads, "it was asked"
            await live.check_balance()

    run(main())


@pytest.mark.parametrize(
    "models",
    [
        b"null", b"[]", b'{"data": 5}', b'{"data": [null, 7, {"id": 7}, {"id": ""}]}', b"\xff" * 50,
        b'{"data": [{"id": "x", "max_model_len": "many"}, {"id": "y", "max_model_len": -1}]}',
        b'{"data": [{"id": "x", "max_model_len": 1' + b"0" * 400 + b'}]}',
        b'{"data": [{"id": "' + b"long" * 5000 + b'"}]}',
        b'{"data": [{"id": "a", "parent": {"b": ["c"]}}]}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_models_that_make_no_sense_stop_nothing(models: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        live = Besieged(says(OK + b"content-length: 2\r\n\r\nhi"))
        live.evil.models = models
        async with live:
            (engine,) = live.gateway.world.fleet
            name = engine.models[0] if engine.models else "anything"
            assert (await live.ask(model=name).wait()).body == b"hi"
            assert not problems, problems

    with caplog.at_level(logging.ERROR):
        run(main())
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("value", ["-5", "1e300", "NaN", "+Inf", "1" * 5000, "nonsense"])
def test_metrics_that_make_no_sense_are_not_believed(value: str) -> None:
    from poise.live.telemetry.metrics import Reading, read

    page = (
        f'vllm:num_requests_running{{model_name="m"}} 1\nvllm:num_requests_waiting{{model_name="m"}} {value}\n'
        f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{value}"}} 1\n'
    )
    reading = read(page.encode())
    if isinstance(reading, Reading):
        assert all(0 <= column < 1 << 60 for column in reading.columns.values()), reading.columns
