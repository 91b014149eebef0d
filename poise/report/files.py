"""Writes files atomically: they appear whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from poise.core.errors import UserError


def to_json(data: Any) -> str:
    """Plain data as JSON text; NaN and infinity become null."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def file_name(label: str) -> str:
    """A label as part of a file name."""
    return "".join(character if character.isalnum() or character in "_-" else "_" for character in label)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new temporary file next to `path` for writing bytes; it is renamed to `path` only when the block succeeds.

    Parent folders are made, a link is followed, and what was at `path` before stays until the last moment. Raises
    `UserError` when the path cannot be written; a block that raises anything leaves no trace. Temporary files of a
    process that was killed within such a block are removed.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # Renaming over a device would replace it, and over a folder cannot work.
        raise UserError(f"{path}: is not a regular file, and only such can be replaced; give the name of a file")
    fresh = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        with fresh.open("wb") as file:
            _hold(file)
            yield file
        fresh.replace(target)
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError(f"{path}: cannot be written ({why}); give a file in a folder that you may write to") from error
    finally:
        with suppress(OSError):
            fresh.unlink()


def _clear(target: Path) -> None:
    """Remove unfinished files of `target` without a writer."""
    for left in target.parent.glob(f".{escape(target.name)}.*.part"):
        with suppress(OSError):
            _remove(left)


if sys.platform == "win32":

    def _hold(file: BinaryIO) -> None:
        """Nothing to do: on Windows a file that is open cannot be removed."""

    def _remove(left: Path) -> None:
        """Remove a file; OSError while it is open."""
        left.unlink()

else:
    import fcntl

    def _hold(file: BinaryIO) -> None:
        """Lock a file for as long as it is open."""
        fcntl.flock(file, fcntl.LOCK_EX)

    def _remove(left: Path) -> None:
        """Remove a file; OSError while its writer holds it."""
        with left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
