"""The engine as a process: it says where it is, serves, and goes when it is told to."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from poise.core.errors import UserError
from poise.live.emulator.main import run
from poise.live.emulator.options import Options
from poise.policies import Policies

PROGRAM = """
from poise.live.emulator.main import run
from poise.live.emulator.options import Options
from poise.policies import Policies
raise SystemExit(run(Options(port=0, speed=10.0, faults=True), Policies()))
"""


def test_a_process_serves_until_it_is_signalled() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        printed = process.stderr.readline()
        found = re.search(
            r"llama-3\.1-8b on 1 × \S*H100\S*.* emulated at (http://127\.0\.0\.1:\d+); .*10 times", printed
        )
        assert found, printed
        with urllib.request.urlopen(found[1] + "/health", timeout=20) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_port_in_use_is_the_users_mistake() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port} on 127.0.0.1 cannot be listened at"):
            run(Options(port=port), Policies())
