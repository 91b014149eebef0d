"""What tests install or build once and keep in the user's cache: engines, Helm."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from tests.live.real.kept import Kept

PATIENCE: Final = ("--timeout", "20", "--retries", "2")
"""Of pip: where there is no network, this is soon known."""


class Unavailable(Exception):
    """Why something cannot be had here."""


def cache() -> Path:
    """The folder of all that is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "poise"


def once(place: Path, what: str, make: Callable[[Path, float], None], limit_s: float) -> Path:
    """`place`, filled by `make(place, until)` if it is not yet; Unavailable where that fails or takes longer.

    Two test runs may want it at once: the second waits for the first. until: of the monotonic clock.
    """
    until = time.monotonic() + limit_s
    try:
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            if not _held(lock, until):
                raise Unavailable(f"another run has been installing {what} for more than {limit_s:.0f} s")
            if not (place / "ready").exists():
                make(place, until)
                (place / "ready").touch()
    except OSError as error:
        raise Unavailable(f"{what} cannot be installed at {place}: {error}") from None
    return place


def _held(lock: IO[str], until: float) -> bool:
    """Whether the lock is ours before `until`."""

    def take() -> None:
        with suppress(OSError, ValueError):  # closed meanwhile: this run no longer waits for it
            fcntl.flock(lock, fcntl.LOCK_EX)

    waiting = threading.Thread(target=take, daemon=True)
    waiting.start()
    waiting.join(until - time.monotonic())
    return not waiting.is_alive()


def ran(command: Sequence[str | Path], until: float) -> str:
    """Run a command; its errors, or nothing if it succeeds before `until`."""
    with tempfile.TemporaryFile("w+") as file:
        process = Kept(command, stdout=subprocess.DEVNULL, stderr=file)
        try:
            if not process.wait(max(0.0, until - time.monotonic())):
                return ""
        except subprocess.TimeoutExpired:
            return "it takes too long"
        finally:
            process.kill()
        file.seek(0)
        return file.read().strip() or "it gives no reason"


def pip(arguments: Sequence[str | Path], until: float, python: str | Path = sys.executable) -> str:
    """Run pip; its errors, or nothing if it succeeds."""
    problem = ran([python, "-m", "pip", "--disable-pip-version-check", *arguments], until)
    errors = [line for line in problem.splitlines() if line.startswith("ERROR:")]
    return " ".join(errors) or problem[-300:]


def library(requirement: str, limit_s: float = 300.0) -> Path:
    """A folder for PYTHONPATH with a package and what it depends on; Unavailable where it cannot be had."""

    def make(place: Path, until: float) -> None:
        shutil.rmtree(place / "lib", ignore_errors=True)  # pip adds to what an interrupted run left
        problem = pip(["install", "--quiet", *PATIENCE, "--target", place / "lib", requirement], until)
        if problem:
            raise Unavailable(f"{requirement} cannot be installed: {problem}")

    return once(cache() / requirement.replace("==", "-"), requirement, make, limit_s) / "lib"
