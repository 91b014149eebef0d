"""The files that commands on schedules write: checked before any work, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def check_files(json: str | None, files: Mapping[str, Path | None] | None = None) -> None:
    """UserError for a file, by its option, that cannot be written."""
    from poise.scenario.write import check_json, check_writable

    check_json(json)
    for option, file in (files or {}).items():
        if file is not None:
            check_writable(file, option)


def write_file(path: Path, content: bytes) -> None:
    """Write `content` to `path`."""
    from poise.report.files import replacing

    with replacing(path) as file:
        file.write(content)
