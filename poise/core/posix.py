"""What runs on Linux and macOS alone says so on Windows."""

from __future__ import annotations

import sys

from poise.core.errors import UserError


def need_posix(command: str) -> None:
    """UserError on Windows for a command that forks, or serves until a signal. command: as in `poise serve`."""
    if sys.platform == "win32":
        raise UserError(f"{command}: needs Linux or macOS; simulate, compare and plan run here")
