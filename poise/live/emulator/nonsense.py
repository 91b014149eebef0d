"""What faults do to one answer: break it, or put nonsense in its place."""

from __future__ import annotations

from typing import Final

from poise.live.emulator.engine import Core
from poise.live.emulator.fault import Fault, Faults
from poise.live.emulator.reply import Reply
from poise.live.http import Exchange

NO_HTTP: Final = b"\x16\x03\x01\x00\xffthis is no HTTP\r\n\r\n"
NO_CHUNK: Final = b"zz\r\nno length\r\n"
NO_EVENT: Final = b'data: {"id": "cmpl-, no json\n\n'
NO_JSON: Final = b"<html>no json"

_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


def arm(reply: Reply, exchange: Exchange, core: Core, faults: Faults) -> None:
    """Let the answer meet the faults that are due to it."""
    cut = faults.meet("cut")
    garbage = faults.meet("garbage")
    if cut is not None:
        reply.breaks_after = cut.after_tokens
        reply.strike = lambda: _cut(reply, exchange, core)
    elif garbage is not None:
        reply.breaks_after = garbage.after_tokens
        reply.strike = lambda: _spoil(garbage, reply, exchange, core)


def _cut(reply: Reply, exchange: Exchange, core: Core) -> bool:
    """Break the connection, as an engine that dies does."""
    exchange.gone = None
    core.drop(reply)
    exchange.cut()
    return False


def _spoil(fault: Fault, reply: Reply, exchange: Exchange, core: Core) -> bool:
    """Send nonsense; a stream goes on behind an event that is none."""
    if fault.form == "sse" and exchange.started:
        exchange.write(NO_EVENT)
        return True
    if fault.form == "sse":
        exchange.gone = None
        core.drop(reply)
        exchange.answer(200, NO_JSON)
        return False
    if fault.form == "chunk":
        _raw(exchange, NO_CHUNK if exchange.started else _HEAD + NO_CHUNK)
    else:
        _raw(exchange, NO_HTTP)
    return _cut(reply, exchange, core)


def _raw(exchange: Exchange, data: bytes) -> None:
    """Bytes past the framing, which no honest handler sends."""
    line = exchange._line
    if line is not None:
        line.write(data)
