"""Processes of real engines: started, asked directly, killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from poise.live.telemetry.metrics import Reading, read
from tests.cached import Unavailable
from tests.live.real.kept import Kept

NAME: Final = "tiny"
"""The model's, at all engines."""

START_S: Final = 400.0
"""Longest start; 40 s is usual for vLLM on two cores, more than two minutes on busy ones."""

PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to whoever asks for any: what was free is free still when an engine comes to it."""


def free_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass(kw_only=True)
class Process(ABC):
    """One engine. log: where its output goes."""

    log: Path
    port: int = field(default_factory=free_port)
    process: Kept | None = None

    @abstractmethod
    def command(self) -> list[str | Path]:
        """What starts it."""

    def environment(self) -> dict[str, str]:
        """The variables that it has."""
        return dict(os.environ)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin to start."""
        with self.log.open("ab") as log:
            self.process = Kept(self.command(), env=self.environment(), stdout=log, stderr=log)

    def wait(self, until: float) -> None:
        """Until it is ready; Unavailable if it is not by `until`, of the monotonic clock."""
        assert self.process is not None
        until = min(until, time.monotonic() + START_S)
        while not self.well():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > until:
                self.kill()
                why = "it ended" if ended else "it was not ready in time"
                name = type(self).__name__
                raise Unavailable(f"{name} did not start, {why}: {self.log.read_text(errors='replace')[-600:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.25)

    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def well(self) -> bool:
        """Whether it says that it is."""
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        """End all its processes at once."""
        if self.process is not None:
            self.process.kill()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        return ask(self.url, method, path, body)

    def reading(self) -> Reading:
        """What its metrics say, as Poise reads them."""
        found = read(self.ask("GET", "/metrics")[1])
        assert isinstance(found, Reading), found
        return found


def ask(url: str, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """One request over a connection of its own; OSError where no answer comes."""
    raw = None if body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json"}
    request = urllib.request.Request(url + path, data=raw, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
