"""Processes that end with the one that started them, however that ends.

Between the two stands a keeper, this file as a program: it holds the end of a pipe whose other end the starter has
alone, and when the pipe closes it kills its command and all that this has started in its process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Kept:
    """A command under a keeper; `given` as to `subprocess.Popen`."""

    def __init__(self, command: Sequence[str | Path], **given: Any) -> None:
        reader, self._pipe = os.pipe()  # which no other process inherits
        keeper = [sys.executable, "-I", __file__, str(reader), *command]
        try:
            self._keeper = subprocess.Popen(
                keeper, pass_fds=(reader,), start_new_session=True, stdin=subprocess.DEVNULL, **given
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reader)

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._keeper.poll()

    def wait(self, seconds: float) -> int:
        """The exit status, once it has ended; subprocess.TimeoutExpired if it does not."""
        return self._keeper.wait(seconds)

    def terminate(self) -> None:
        """Ask it to end."""
        self._keeper.terminate()

    def kill(self) -> None:
        """End all its processes at once."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        self._keeper.wait(60)


def keep(pipe: int, command: list[str]) -> int:
    """Run a command until it ends or the pipe closes; its exit status, or that of a shell for one that was killed."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child.pid, signal.SIGTERM))

    def watch() -> None:
        os.read(pipe, 1)
        _kill(child.pid)

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    _kill(child.pid)  # who it left behind
    return status if status >= 0 else 128 - status


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), sys.argv[2:]))
