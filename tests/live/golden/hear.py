"""Asks an engine, real or emulated, and hears what it answers and what it tells of its cache."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import zmq
from msgspec import msgpack

from tests.live.golden.asks import CACHED, COMPLETION, FIRST, LAST, NAME, SURE, Body, Question
from tests.live.golden.shape import parsed, steady
from tests.patience import PATIENCE_S

HEADERS: Final = ("content-type", "allow", "transfer-encoding")


def answered(url: str, question: Question) -> dict[str, Any]:
    """Status, headers that matter and body."""
    body, headers = question.body, {}
    if body is not None:
        body, headers = body if isinstance(body, str) else json.dumps(body), {"content-type": "application/json"}
    at = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE_S)) as line:
        line.request(question.method, question.path, body, headers)
        answer = line.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        kept = {name: fields[name] for name in HEADERS if name in fields}
        return {"status": answer.status, "headers": kept, "body": steady(parsed(answer.read()))}


def events(url: str, socket: zmq.Socket[bytes], topic: str) -> list[Body]:
    """What `CACHED` and a reset after it do to the cache, with names for hashes. The engine connects to `socket`."""
    socket.linger = 0
    socket.rcvtimeo = 1000 * PATIENCE_S
    socket.subscribe(topic)
    while not socket.poll(100):  # until the engine has found the socket
        _do(url, Question("POST", "/reset_prefix_cache"))
        _complete(url, LAST)
    _do(url, Question("POST", "/reset_prefix_cache"))
    for body in (FIRST, *CACHED):
        _complete(url, body)
    _do(url, Question("POST", "/reset_prefix_cache"))
    _complete(url, LAST)
    messages = _messages(socket)
    while not _stores(next(messages), FIRST):
        pass
    found: list[Body] = []
    for event in messages:
        if _stores(event, LAST):
            return named(found)
        found.append(event)
    raise AssertionError("events do not end by themselves")


def _do(url: str, question: Question) -> None:
    found = answered(url, question)
    assert found["status"] == 200, found


def _complete(url: str, body: Body) -> None:
    _do(url, Question("POST", COMPLETION, {"model": NAME, "max_tokens": 1, **SURE, **body}))


def _messages(socket: zmq.Socket[bytes]) -> Iterator[Body]:
    """Events as they come, from frames as they must be: topic, number, and a batch of time, events and rank."""
    last = -1
    while True:
        _, number, payload = socket.recv_multipart()
        assert len(number) == 8 and (last < 0 or int.from_bytes(number, "big") == last + 1)
        last = int.from_bytes(number, "big")
        at, batch, rank = msgpack.decode(payload)
        assert isinstance(at, float) and rank == 0
        yield from batch


def _stores(event: Body, body: Body) -> bool:
    return bool(event["type"] == "BlockStored" and event["token_ids"] == body["prompt"][: event["block_size"]])


def named(events: list[Body]) -> list[Body]:
    """With short names for blocks in place of hashes."""
    names: dict[int | None, str | None] = {None: None}
    messages = []
    for event in events:
        each = dict(event)
        if "block_hashes" in each:
            blocks = each["block_hashes"]
            each["block_hashes"] = [names.setdefault(block, f"block {len(names)}") for block in blocks]
        if "parent_block_hash" in each:
            each["parent_block_hash"] = names[each["parent_block_hash"]]
        messages.append(each)
    return messages
