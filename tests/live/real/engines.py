"""vLLM processes: started side by side, asked directly, killed and started again."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from poise.live.telemetry.metrics import Reading, read
from tests.cached import Unavailable
from tests.live.real.kept import Kept

NAME: Final = "tiny"
BLOCK: Final = 32
"""Tokens of a KV block: on CPUs a multiple of 32."""

BLOCKS: Final = 160
"""KV blocks of an engine: few, so that tiny prompts fill them."""

START_S: Final = 400.0
"""Longest start; 40 s is usual on two cores, more than two minutes on busy ones."""

LIMIT_S: Final = 1500.0
"""Longest time for all tests with the installation: those that would begin later are skipped. Without it, four minutes
are usual on two cores and six on busy ones.
"""

PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to whoever asks for any: what was free is free still when an engine comes to it."""

SWITCHES: Final = ("--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details")

SILENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


def _environment() -> dict[str, str]:
    """Ours, but that compiled bytecode is kept: pip was told to compile none, and most of it is never used."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


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


@dataclass
class Vllm:
    """One engine. kv_endpoint: where it connects to with its KV events, under `topic`."""

    programs: Path
    model: Path
    kv_endpoint: str
    log: Path
    port: int = field(default_factory=free_port)
    process: Kept | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def topic(self) -> str:
        return f"kv@{self.port}"

    def start(self) -> None:
        """Begin to start."""
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": self.kv_endpoint, "topic": self.topic}
        flags = {
            "--served-model-name": NAME, "--host": "127.0.0.1", "--port": self.port, "--dtype": "bfloat16",
            "--max-model-len": 4096, "--block-size": BLOCK, "--max-num-seqs": 16, "--num-gpu-blocks-override": BLOCKS,
            "--kv-events-config": json.dumps(events),
        }  # fmt: skip
        given = [str(each) for pair in flags.items() for each in pair]
        with self.log.open("ab") as log:
            self.process = Kept(
                [self.programs / "vllm", "serve", self.model, *given, *SWITCHES],
                env={**_environment(), **SILENT}, stdout=log, stderr=log,
            )  # fmt: skip

    def wait(self, until: float) -> None:
        """Until it is ready; Unavailable if it is not by `until`, of the monotonic clock."""
        assert self.process is not None
        until = min(until, time.monotonic() + START_S)
        while not self.well():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > until:
                self.kill()
                why = "it ended" if ended else "it was not ready in time"
                raise Unavailable(f"vLLM did not start, {why}: {self.log.read_text(errors='replace')[-600:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.25)

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


class Pair:
    """Two engines of one model, whose KV events go to one endpoint.

    until: when they serve no more tests, of the monotonic clock.
    """

    def __init__(self, programs: Path, model: Path, logs: Path, until: float) -> None:
        self.model = model
        self.kv_endpoint = f"tcp://127.0.0.1:{free_port()}"
        self.engines = [Vllm(programs, model, self.kv_endpoint, logs / f"vllm{number}.log") for number in range(2)]
        self.until = until

    def start(self) -> None:
        """Start those that do not run, side by side; Unavailable where they do not, or have served long enough."""
        if time.monotonic() > self.until:
            raise Unavailable(f"what was before this took more than {LIMIT_S:.0f} s")
        starting = [engine for engine in self.engines if engine.process is None or engine.process.poll() is not None]
        for engine in starting:
            engine.start()
        for engine in starting:
            engine.wait(self.until)

    def clear(self) -> None:
        """Forget all prefixes."""
        for engine in self.engines:
            assert engine.ask("POST", "/reset_prefix_cache")[0] == 200

    def hits(self) -> tuple[float, float]:
        """Prompt tokens that were found in the caches, and that were looked up."""
        counters = [engine.reading().counters for engine in self.engines]
        return sum(each["prefix_hits"] for each in counters), sum(each["prefix_queries"] for each in counters)

    def stop(self) -> None:
        for engine in self.engines:
            engine.kill()
