"""What is kept ends with its starter, and otherwise as it would by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.live.real.kept import Kept
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]

GRANDCHILD = "import signal; print('here', flush=True); signal.pause()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"
STARTER = f"""
import signal, sys
from tests.live.real.kept import Kept
kept = Kept([sys.executable, '-c', {CHILD!r}])
signal.pause()
"""


def test_all_end_with_their_starter() -> None:
    """Killed outright: the pipe that all of them write to comes to its end."""
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, cwd=ROOT) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"here\n"
        starter.kill()
        starter.communicate(timeout=PATIENCE_S)


def test_they_are_killed_together() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe:
        kept = Kept([sys.executable, "-c", CHILD], stdout=pipe.stdin)
        assert pipe.stdout is not None
        assert pipe.stdout.readline() == b"here\n"
        kept.kill()
        kept.kill()
        pipe.communicate(timeout=PATIENCE_S)
    assert kept.poll() is not None


def test_it_ends_as_its_command_does() -> None:
    kept = Kept([sys.executable, "-c", "raise SystemExit(3)"])
    assert kept.wait(PATIENCE_S) == 3
    kept.kill()


def test_it_ends_on_request() -> None:
    """SIGTERM reaches the command, whose status is told."""
    command = "import signal; signal.signal(15, lambda *_: exit(4)); print('here', flush=True); signal.pause()"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe:
        kept = Kept([sys.executable, "-c", command], stdout=pipe.stdin)
        assert pipe.stdout is not None
        assert pipe.stdout.readline() == b"here\n"
        kept.terminate()
        assert kept.wait(PATIENCE_S) == 4
        kept.kill()
