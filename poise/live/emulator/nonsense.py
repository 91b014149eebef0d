"""Applies a fault to one answer: breaks its connection, or sends malformed bytes in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from poise.live.emulator.fault import Fault, Faults
from poise.live.emulator.reply import Reply
from poise.live.http import Exchange

NO_HTTP: Final = b"\x16\x03\x01\x00\xffthis is no HTTP\r\n\r\n"
NO_CHUNK: Final = b"zz\r\nno length\r\n"
NO_EVENT: Final = b'data: {"id": "cmpl-, no json\n\n'
NO_JSON: Final = b"<html>no json"

_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


def arm(reply: Reply, exchange: Exchange, drop: Callable[[], None], faults: Faults) -> None:
    """Give the answer the faults that apply to it; its first choice counts its tokens. drop: stops all of them."""
    cut = faults.meet("cut")
    garbage = faults.meet("garbage")
    if cut is not None:
        reply.breaks_after = cut.after_tokens
        reply.strike = lambda: _cut(exchange, drop)
    elif garbage is not None:
        reply.breaks_after = garbage.after_tokens
        reply.strike = lambda: _spoil(garbage, exchange, drop)


def _cut(exchange: Exchange, drop: Callable[[], None]) -> bool:
    """Break the connection, as a crashing engine does."""
    exchange.gone = None
    drop()
    exchange.cut()
    return False


def _spoil(fault: Fault, exchange: Exchange, drop: Callable[[], None]) -> bool:
    """Send malformed bytes; a stream continues after one malformed event."""
    if fault.form == "sse" and exchange.started:
        exchange.write(NO_EVENT)
        return True
    if fault.form == "sse":
        exchange.gone = None
        drop()
        exchange.answer(200, NO_JSON)
        return False
    if fault.form == "chunk":
        _raw(exchange, NO_CHUNK if exchange.started else _HEAD + NO_CHUNK)
    else:
        _raw(exchange, NO_HTTP)
    return _cut(exchange, drop)


def _raw(exchange: Exchange, data: bytes) -> None:
    """Bytes past the framing, which a correct handler never sends."""
    line = exchange._line
    if line is not None:
        line.write(data)
