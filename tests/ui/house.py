"""A page of `poise ui` as a process, and a form for it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

SMALL: dict[str, Any] = {
    "what": "compare",
    "routers": ["round_robin", "least_requests"],
    "device": "H100-SXM-80GB",
    "replicas": 2,
    "loads": [1],
    "load": {"rate": 20, "requests": 60, "prompt_tokens": 200, "output_tokens": 20},
    "ttft_s": 1,
}
"""A comparison of a second."""

LONG: dict[str, Any] = {**SMALL, "load": {"rate": 50, "requests": 2_000_000}}
"""One of hours."""


class Served:
    """A running page. url: with its token."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url
        self.base = url.partition("?")[0]

    async def stop(self) -> int:
        """End it as Ctrl-C does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Served]:
    """`poise ui` on a free port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "poise", "ui", str(folder), "--port", "0", "--no-browser",
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield Served(process, found[0])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
