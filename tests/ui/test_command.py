"""`poise ui` as a process: how it begins, and that Ctrl-C ends it with its runs."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.patience import until
from tests.ui.house import LONG, served


def test_ctrl_c_ends_the_page_and_its_runs(tmp_path: Path) -> None:
    def ask(url: str, body: bytes | None, cookie: str) -> str:
        request = urllib.request.Request(url, body, {"cookie": cookie} if cookie else {})
        with urllib.request.urlopen(request) as answer:
            return str(answer.headers.get("set-cookie", "")).partition(";")[0]

    async def main() -> None:
        async with served(tmp_path) as page:
            cookie = await asyncio.to_thread(ask, page.url, None, "")
            await asyncio.to_thread(ask, f"{page.base}api/runs", json.dumps(LONG).encode(), cookie)
            root = psutil.Process(page.process.pid)
            await until(lambda: root.children())
            children = root.children(recursive=True)
            assert await page.stop() == 0
            await until(lambda: not any(child.is_running() for child in children))
        assert json.loads((tmp_path / "runs/compare/run.json").read_text())["state"] == "cancelled"

    asyncio.run(main())


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "poise", "ui", *words], capture_output=True, text=True, check=False)


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(str(tmp_path), "--port", str(taken.getsockname()[1]), "--no-browser")
    assert done.returncode == 2
    assert done.stderr.startswith("poise: --host 127.0.0.1 --port ")
    assert done.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(str(tmp_path / "file"), "--port", "0", "--no-browser")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be made" in done.stderr


def test_without_the_extra_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'uvicorn' else found(name, *rest)\n"
        f"from poise.cli import main; sys.exit(main(['ui', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("poise: poise ui: needs uvicorn; ")
    assert done.stderr.endswith('-m pip install "poise[ui]"\n')


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_beyond_this_machine_there_is_a_warning(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "poise", "ui", str(tmp_path), "--port", "0", "--no-browser", "--host", host,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None and process.stdout is not None
        assert b"http://" in await process.stdout.readline()
        assert b"others on the network can reach the page" in await process.stderr.readline()
        process.kill()
        await process.communicate()

    asyncio.run(main())
