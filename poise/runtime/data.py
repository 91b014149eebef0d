"""Bytes of a text as training data: windows drawn by step and row, so that any step can be made again."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from poise.core.chance import Chance


class Bytes:
    """Batches of a file's bytes; the token is the byte."""

    def __init__(self, path: Path, length: int, rows: int, seed: int) -> None:
        self._bytes = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        self._length, self._rows = length, rows
        self._chance = Chance(seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step, (rows, length) each; the target is the next byte."""
        windows = []
        for row in range(self._rows):
            self._chance.key = step * self._rows + row
            at = int(self._chance.draw("window") * (len(self._bytes) - self._length))
            windows.append(self._bytes[at : at + self._length + 1])
        tokens = torch.stack(windows).long()
        return tokens[:, :-1], tokens[:, 1:]
