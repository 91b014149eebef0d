"""A file with a line of JSON for each step, which a resumed run continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.report.files import replacing


class Lines:
    """Lines of steps before `start` are kept; later ones, and what a crash left half, are cut off."""

    def __init__(self, path: Path, start: int) -> None:
        self._path = path
        self.kept: list[dict[str, Any]] = [record for record in self._before() if record["step"] < start]
        with replacing(path) as fresh:
            fresh.write("".join(json.dumps(record) + "\n" for record in self.kept).encode())
        self._file = path.open("a", encoding="utf-8")

    def add(self, record: dict[str, Any]) -> None:
        """A step has ended. UserError where the disk is full."""
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(
                f"{self._path}: cannot be written ({error.strerror}); make room, then continue with --resume"
            ) from None

    def close(self) -> None:
        """The run has ended."""
        self._file.close()

    def _before(self) -> list[dict[str, Any]]:
        """The whole lines of a run before."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
