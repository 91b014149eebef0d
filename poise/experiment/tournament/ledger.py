"""The finished short runs, one line each, found again by a digest of their inputs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poise.core.errors import UserError

FILE = "runs.jsonl"


@dataclass(slots=True)
class Ledger:
    """rows: figures by digest. folder: where they are kept; None keeps them for this call only."""

    folder: Path | None = None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, key: str, fields: dict[str, Any]) -> None:
        """Store a run, at once also in the file."""
        row = {"print": key, **fields}
        self.rows[key] = row
        if self.folder is not None:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def opened(folder: Path | None, *, resume: bool) -> Ledger:
    """The ledger in a folder; UserError where it has runs that are not to be used, or cannot be read.

    A last line that was cut off is one run that is done again.
    """
    ledger = Ledger(folder)
    if folder is None:
        return ledger
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if lines and not resume:
        raise UserError(
            f"--out {folder}: holds {len(lines):,} runs of an earlier tournament; add --resume to use those that are "
            "the same, or name another folder"
        )
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            ledger.rows[row["print"]] = row
        except (ValueError, KeyError, TypeError):
            if number < len(lines):
                raise UserError(f"{file}:{number}: is not a run; remove that line, and it is simulated again") from None
            file.write_text("".join(f"{each}\n" for each in lines[:-1]), encoding="utf-8")
    return ledger
