"""`poise serve`, a process, before real engines."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.live.real.engines import BLOCK, Pair
from tests.live.real.kept import Kept
from tests.live.real.process import ask, free_port

ROOT = Path(__file__).parents[3]
READY_S = 60.0


Section = dict[str, Any]


class Served:
    """The gateway before engines, entries of its file; `settings` are merged into the file, section by section.

    url, page: where it and its page listen.
    """

    def __init__(self, folder: Path, engines: Sequence[Section], name: str = "serve", **settings: Any) -> None:
        self.engines = engines
        self.log = folder / f"{name}.log"
        port, page = free_port(), free_port()
        self.url, self.page = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page}"
        sections: Section = {
            "listen": {"port": port}, "admin": {"port": page}, "engines": engines,
            "policies": {"router": "prefix_cache"}, "limits": {"drain_s": 60}, "belief": {"period_s": 0.2},
        }  # fmt: skip
        for section, given in settings.items():
            ours = sections.get(section)
            sections[section] = {**ours, **given} if isinstance(ours, dict) else given
        self.file = folder / f"{name}.yaml"
        self.file.write_text(json.dumps(sections), encoding="utf-8")  # JSON is YAML

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = Kept(
                [sys.executable, "-m", "poise", "serve", self.file],
                cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        try:
            self.until(self._ready, "the gateway serves all engines")
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.process.poll() is None:
                self.process.terminate()
            assert self.process.wait(90) == 0, self.output()
        finally:
            self.process.kill()

    def _ready(self) -> bool:
        try:
            return ask(self.page, "GET", "/state")[0] == 200 and self.serving() == len(self.engines)
        except OSError:
            return False

    def serving(self) -> int:
        """Engines that take requests."""
        return sum(engine["state"] == "serving" for engine in self.state()["engines"].values())

    def state(self) -> dict[str, Any]:
        """What its page shows."""
        result: dict[str, Any] = json.loads(ask(self.page, "GET", "/state")[1])
        return result

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds; fail if it never does, or if the gateway ends."""
        until = time.monotonic() + READY_S
        while not holds():
            assert self.process.poll() is None, f"the gateway ended: {self.output()}"
            assert time.monotonic() < until, f"not within {READY_S:.0f} s: {what}; the gateway says: {self.output()}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        return ask(self.url, method, path, body)

    def terminate(self) -> None:
        """Ask it to end, once all is answered."""
        self.process.terminate()


def in_front_of(pair: Pair, folder: Path, router: Any = "prefix_cache", **settings: Section) -> Served:
    """A gateway that knows the caches of two vLLM by their KV events."""
    engines = [
        {"url": engine.url, "name": f"e{number}", "kv_events": pair.kv_endpoint, "kv_topic": engine.topic}
        for number, engine in enumerate(pair.engines)
    ]
    reported = {
        "prefix": "reported", "tokenizer": str(pair.model), "block_tokens": BLOCK, "kv_bind": pair.kv_endpoint,
    }  # fmt: skip
    name = f"serve-{router if isinstance(router, str) else 'made'}"
    return Served(folder, engines, name, policies={"router": router}, belief=reported, **settings)
