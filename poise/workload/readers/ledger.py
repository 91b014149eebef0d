"""The bad rows of a file, and their one-line error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.workload.readers.raw import Raw

CURE = "correct or drop the row, or pass skip_bad=True"


@dataclass(slots=True)
class Ledger:
    """Marks bad rows of `raw` and remembers why the first of them is bad."""

    raw: Raw
    bad: NDArray[np.bool_] = field(init=False)
    first: tuple[int, str, str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.bad = np.zeros(self.raw.rows, dtype=bool)
        if self.raw.broken:
            self.bad[list(self.raw.broken)] = True
            row = min(self.raw.broken)
            self.first = (row, "", self.raw.broken[row])

    def refuse(self, bad: NDArray[np.bool_], column: str, rule: str) -> None:
        """Mark the rows in `bad`, whose `column` breaks `rule`."""
        if not bad.any():
            return
        row = int(bad.argmax())
        if self.first is None or row < self.first[0]:
            self.first = (row, column, rule)
        self.bad |= bad

    def settle(self, skip_bad: bool) -> NDArray[np.int64]:
        """Return the rows to keep; raise TraceError for the first bad one unless bad rows are to be skipped."""
        reason = self.reason()
        if reason is not None and not skip_bad:
            raise TraceError(f"{reason}; {CURE}")
        kept = np.flatnonzero(~self.bad)
        if len(kept) == 0:
            why = f" (the first: {reason})" if reason else ""
            raise TraceError(f"{self.raw.path}: no usable row{why}; the file needs at least one request")
        return kept

    @property
    def skipped(self) -> int:
        """How many rows are bad."""
        return int(self.bad.sum())

    def reason(self) -> str | None:
        """One line on the first bad row: its place, column and value, and the rule; None when no row is bad."""
        if self.first is None:
            return None
        row, column, rule = self.first
        if not column:
            return f"{self.raw.path}, {self.raw.place(row)}: {rule}"
        value = self.raw.columns[column][row] if column in self.raw.columns else None
        return f"{self.raw.path}, {self.raw.place(row)}: {column} is {_short(value)}; {rule}"


def _short(value: Any) -> str:
    if value is None or value == "":
        return "missing"
    text = repr(value.to_list() if hasattr(value, "to_list") else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
