"""Loss, learning rate, gradient norms and speed of each step: lines of JSON, and TensorBoard's events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poise.runtime.lines import Lines


class Metrics:
    """Written by rank 0; a resumed run continues both."""

    def __init__(self, file: Path | None, folder: Path | None, start: int) -> None:
        self._lines = None if file is None else Lines(file, start)
        self._board: Any = None
        if folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(folder, purge_step=start or None)

    def add(self, record: dict[str, float]) -> None:
        """The figures of a step by name, `step` among them."""
        if self._lines is not None:
            self._lines.add(record)
        if self._board is not None:
            for name, value in record.items():
                if name != "step":
                    self._board.add_scalar(name, value, int(record["step"]))

    def close(self) -> None:
        """The run has ended."""
        if self._lines is not None:
            self._lines.close()
        if self._board is not None:
            self._board.close()
