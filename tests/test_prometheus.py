"""A real Prometheus: each query of the dashboard has data under load, and alerts fire for their causes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from poise.live.traffic import words
from tests import prometheus
from tests.live.real.clients import Clients, ended, until
from tests.live.real.kept import Kept
from tests.live.real.process import free_port
from tests.live.real.served import ROOT, Served

MODEL = "llama-3.1-8b"
KEYS = {"chat": "sk-chat", "batch": "sk-batch"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH")
def test_alerts_fire_for_their_causes() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"],
        cwd=prometheus.RULES.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def engines(number: int) -> Iterator[tuple[list[str], list[Kept]]]:
    """URLs and processes of emulated engines."""
    flags = ["--model", MODEL, "--speed", "4", "--enable-prompt-tokens-details"]
    with contextlib.ExitStack() as stack:
        ports = [free_port() for _ in range(number)]
        processes = []
        for port in ports:
            command = [sys.executable, "-m", "poise", "engine", *flags, "--port", str(port)]
            processes.append(Kept(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            stack.callback(processes[-1].kill)
        yield [f"http://127.0.0.1:{port}" for port in ports], processes


@contextlib.asynccontextmanager
async def load(url: str) -> AsyncIterator[None]:
    """Both tenants send conversations without end; half of the requests are streams."""
    sent = count()

    async def sends(tenant: str) -> None:
        clients = Clients(url, model=MODEL, key=KEYS[tenant])
        try:
            while True:
                numbers = [next(sent) % 40 for _ in range(8)]
                await ended([clients.complete(words(each, 300), 20, stream=each % 2 == 0) for each in numbers])
        finally:
            await clients.close()

    tasks = [asyncio.create_task(sends(tenant)) for tenant in KEYS]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def nonsense(url: str) -> None:
    """A client that speaks no HTTP."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"hello\r\n\r\n")
        client.recv(1)


@pytest.mark.slow
@pytest.mark.skipif(prometheus.PROGRAM is None, reason="prometheus is not on PATH")
def test_the_dashboard_has_data_and_alerts_fire(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(json.dumps([{"name": name, "key": key} for name, key in KEYS.items()]))
    settings: dict[str, Any] = {
        "policies": {"hedge": "tail", "scaler": "kpa"}, "pools": [{"name": "chat", "max_replicas": 8}],
        "tenants": {"file": str(keys)}, "limits": {"drain_s": 1},
    }  # fmt: skip

    async def main(served: Served, found: prometheus.Prometheus, processes: list[Kept]) -> None:
        def silent() -> set[str]:
            return {name for name, each in queries.items() if not found.value(each)}

        def says(what: str) -> Any:
            return lambda: f"{what}; without data: {sorted(silent())}; firing: {sorted(found.firing())}"

        queries = prometheus.expressions()
        await asyncio.to_thread(nonsense, served.url)
        async with load(served.url):
            await until(lambda: all("Failures" in name for name in silent()), says("all panels but that of failures"))
            assert not found.firing()
            await asyncio.to_thread(processes[0].kill)
            await until(lambda: "PoiseEngineDown" in found.firing(), says("PoiseEngineDown fires"))
            await until(lambda: not silent(), says("all panels have data"))
            assert "PoiseNoEngine" not in found.firing(), "three engines serve"
        for process in processes[1:]:
            await asyncio.to_thread(process.kill)
        await until(lambda: "PoiseNoEngine" in found.firing(), says("PoiseNoEngine fires"))
        served.terminate()
        await until(lambda: "PoiseGone" in found.firing(), says("PoiseGone fires"))

    with engines(4) as (urls, processes):
        at = [{"url": url, "name": f"e{number}"} for number, url in enumerate(urls)]
        with (
            Served(tmp_path, at, **settings) as served,
            prometheus.Prometheus(tmp_path, served.page.removeprefix("http://")) as found,
        ):
            asyncio.run(main(served, found, processes))
