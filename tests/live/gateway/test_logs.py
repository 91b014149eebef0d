"""Logs: one object or line a record whatever is in it, a line a request, and never a key, prompt or body."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.live.gateway.logs import ACCESS, ROOT, Access, Json, RequestLogLine, redacted, start

from .fakes import Bench


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    logger = logging.getLogger(ROOT)
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before[0], before[1], before[2]


def written(form: str, *text: object, level: int = logging.INFO, **given: object) -> str:
    stream = io.StringIO()
    start("debug", form, stream)
    logging.getLogger("poise.x").log(level, *text, **given)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_record_is_one_json_object() -> None:
    result = json.loads(written("json", "engine %s is back", "a", extra={"fields": {"slot": 3}}))
    assert result.pop("time").endswith("Z")
    assert result == {"level": "info", "logger": "poise.x", "message": "engine a is back", "slot": 3}


def test_a_fault_is_logged_with_its_trace() -> None:
    try:
        raise ZeroDivisionError("no")
    except ZeroDivisionError:
        result = json.loads(written("json", "it failed", level=logging.ERROR, exc_info=True))
    assert result["error"].endswith("ZeroDivisionError: no") and result["level"] == "error"


@given(st.text(), st.text())
def test_every_message_is_one_line(message: str, value: str) -> None:
    record = logging.LogRecord("poise.x", logging.INFO, "", 0, "%s", (message,), None)
    record.fields = {"value": value}
    for formatter in (RequestLogLine(), Json()):
        assert len(formatter.format(record).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "authorization: Bearer {}", "bearer {}", "Basic {}", '{{"key": "sk-{}"}}', "sk_{}", "hf_{}",
        "http://user:{}@host/x",
    ],
)  # fmt: skip
@given(secret=st.text("abcdefghijklmnopqrstuvwxyzABCDEFXYZ0123456789-_", min_size=8, max_size=40))
def test_what_looks_like_a_key_is_blanked(text: str, secret: str) -> None:
    line = text.format(secret)
    assert secret not in redacted(line) or secret in text
    for form in (RequestLogLine(), Json()):
        record = logging.LogRecord("poise.x", logging.INFO, "", 0, "%s", (line,), None)
        assert secret not in form.format(record) or secret in text


def test_other_words_stay() -> None:
    for text in ("engine task-1 is gone (refused)", "http://host:8000/v1", "a bearer of news", "risk-free-and-well"):
        assert redacted(text) == text or "bearer" in text


def test_words_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match="'loud' is not a log level; use one of debug, info"):
        start("loud")
    with pytest.raises(UserError, match="'xml' is not a log form; use one of text, json"):
        start(form="xml")


def test_starting_again_does_not_say_everything_twice() -> None:
    stream = io.StringIO()
    start("info", "json", stream)
    start("info", "json", stream)
    logging.getLogger("poise.x").info("once")
    logging.getLogger("poise.x").debug("never")
    assert stream.getvalue().count("\n") == 1


def test_every_request_that_ends_has_a_line() -> None:
    stream = io.StringIO()
    start("info", "json", stream)
    bench = Bench(1)
    bench.world._watcher = Access(lambda: ["m"], lambda: bench.now)
    bench.ask(prompt=10, body=b'{"prompt": "s3cret"}')
    bench.now += 2 * 10**12
    call = bench.calls[0]
    call.head()
    call.data(b'data: x\n\ndata: {"usage":{"prompt_tokens":11,"completion_tokens":7}}\n\n')
    bench.now += 10**12
    call.end()
    _, exchange, _ = bench.ask()
    exchange.leave()
    done, left = [json.loads(line) for line in stream.getvalue().splitlines()]
    for entry in (done, left):
        entry.pop("time")
    assert done == {
        "level": "info", "logger": ACCESS, "message": "request", "request": 0, "tenant": "", "model": "m",
        "engine": "e0", "status": 200, "stream": True, "prompt_tokens": 11, "output_tokens": 7, "wait_s": 0.0,
        "ttft_s": 2.0, "e2e_s": 3.0,
    }  # fmt: skip
    assert left["status"] == 499 and "ttft_s" not in left
    assert "s3cret" not in stream.getvalue()


def test_without_a_handler_no_line_is_made() -> None:
    bench = Bench(1)
    start("warning", "json", stream := io.StringIO())
    bench.world._watcher = Access(list, lambda: bench.now)
    bench.ask()
    bench.calls[0].answer()
    assert stream.getvalue() == ""
