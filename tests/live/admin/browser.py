"""Headless Chromium over its debugging pipe (Chrome DevTools Protocol): pages, what they say, and pictures of them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.patience import PATIENCE_S

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
_LAUNCH = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ours[0], 3)
os.dup2(ours[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from descriptor 3 and answers on 4."""


def program() -> str | None:
    """Where the browser is, if it is installed."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


class Browser:
    """One browser with one page. errors: what its console and its log complained about."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._expected: dict[str, asyncio.Event] = {}
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next = 0
        self._session = ""

    async def __aenter__(self) -> Browser:
        found = program()
        assert found is not None
        self._folder = tempfile.mkdtemp(prefix="poise-browser-")
        commands, ours = os.pipe()
        theirs, answers = os.pipe()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _LAUNCH, str(commands), str(answers), found, *FLAGS,
            f"--user-data-dir={self._folder}", "about:blank",
            pass_fds=(commands, answers), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._commands = os.fdopen(ours, "wb", buffering=0)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=64 << 20)
        self._pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(theirs, "rb", buffering=0)
        )
        self._hears = loop.create_task(self._hear(reader))
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        await self._process.wait()
        await self._hears
        self._pipe.close()
        self._commands.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def call(self, method: str, **given: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        answer = self._waiting[self._next] = asyncio.get_running_loop().create_future()
        self._commands.write(json.dumps(message).encode() + b"\0")
        reply = await asyncio.wait_for(answer, PATIENCE_S)
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to a page."""
        await self.call("Page.navigate", url=url)

    async def seen(self, event: str) -> None:
        """Wait for an event of the page; one that came before counts."""
        await asyncio.wait_for(self._expected.setdefault(event, asyncio.Event()).wait(), PATIENCE_S)

    async def value(self, expression: str) -> Any:
        """What an expression gives on the page; one that cannot be computed yet gives None."""
        reply = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return reply["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true on the page."""
        watch = (
            "new Promise(done => { const look = () => { let is = false; try { is = !!(" + expression + ") } catch {} "
            "is ? done(true) : setTimeout(look, 50); }; look(); })"
        )
        assert await self.value(watch), expression

    async def look(self, wide: int, high: int, dark: bool, whole: bool = True) -> bytes:
        """A picture of the page, as PNG."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    async def save(self, path: Path, wide: int, high: int, dark: bool = False, whole: bool = True) -> None:
        """Keep a picture of the page."""
        path.write_bytes(await self.look(wide, high, dark, whole))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                reply = json.loads((await reader.readuntil(b"\0"))[:-1])
            except asyncio.IncompleteReadError:
                return
            if "id" in reply:
                self._waiting.pop(reply["id"]).set_result(reply)
                continue
            self._expected.setdefault(reply["method"], asyncio.Event()).set()
            if reply["method"] == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(reply["params"]["exceptionDetails"])[:500])
            elif reply["method"] == "Runtime.consoleAPICalled" and reply["params"]["type"] in ("error", "warning"):
                self.errors.append(json.dumps(reply["params"]["args"])[:500])
            elif reply["method"] == "Log.entryAdded" and reply["params"]["entry"]["level"] in ("error", "warning"):
                self.errors.append(reply["params"]["entry"]["text"])
