"""Training data: batches drawn by step and row, so that any step can be made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from poise.core.chance import Chance, mix
from poise.runtime.documents import Tokens
from poise.runtime.loss import IGNORED


class Batch(NamedTuple):
    """Inputs and targets of a step, (rows, length) each, and keyword inputs of the model by name."""

    tokens: Tensor
    target: Tensor
    shared: dict[str, Tensor]


class Source(Protocol):
    """Where batches are from."""

    def batch(self, step: int) -> Batch:
        """The rows of a step."""
        ...


class Bytes:
    """Windows of a file's bytes; the token is the byte, the target the next one."""

    def __init__(self, path: Path, length: int, rows: int, seed: int) -> None:
        self._bytes = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        self._length, self._rows = length, rows
        self._chance = Chance(seed)

    def batch(self, step: int) -> Batch:
        """The windows of a step."""
        windows = []
        for row in range(self._rows):
            self._chance.key = step * self._rows + row
            at = int(self._chance.draw("window") * (len(self._bytes) - self._length))
            windows.append(self._bytes[at : at + self._length + 1])
        tokens = torch.stack(windows).long()
        return Batch(tokens[:, :-1], tokens[:, 1:], {})


class Packed:
    """Documents one behind the other in rows without padding, in a new order each epoch.

    A document that a row's end cuts goes on in the next row, as if it began there. `documents` numbers the pieces of a
    row, `positions` count from each one's begin; a document's last token has no target. The tokens of an epoch's last
    row that is not full are left out.
    """

    def __init__(self, documents: Sequence[Tokens], length: int, rows: int, seed: int) -> None:
        self._documents, self._length, self._rows = documents, length, rows
        self._sizes = np.array([len(each) for each in documents])
        self._each = int(self._sizes.sum()) // length
        self._orders = _Orders(len(documents), seed)
        self._ends = np.zeros(0, np.int64)

    def batch(self, step: int) -> Batch:
        """The rows of a step."""
        return _stacked([self._row(step * self._rows + row) for row in range(self._rows)])

    def _row(self, number: int) -> list[Tokens]:
        epoch, row = divmod(number, self._each)
        if self._orders.epoch != epoch:
            self._ends = self._sizes[self._orders.of(epoch)].cumsum()
        order = self._orders.of(epoch)
        tokens: list[Tokens] = []
        target: list[Tokens] = []
        documents: list[Tokens] = []
        positions: list[Tokens] = []
        at, end = row * self._length, (row + 1) * self._length
        place = int(self._ends.searchsorted(at, "right"))
        while at < end:
            document = self._documents[order[place]]
            begin = at - int(self._ends[place]) + len(document)
            count = min(end - at, len(document) - begin)
            tokens.append(document[begin : begin + count])
            target.append(np.append(document[begin + 1 : begin + count], _next(document, begin + count)))
            documents.append(np.full(count, len(documents)))
            positions.append(np.arange(count))
            at, place = at + count, place + 1
        return [np.concatenate(each) for each in (tokens, target, documents, positions)]


class Padded:
    """A document in each row, cut or filled up to `length`; filling has no targets and is a document of its own."""

    def __init__(self, documents: Sequence[Tokens], length: int, rows: int, seed: int) -> None:
        self._documents, self._length, self._rows = documents, length, rows
        self._orders = _Orders(len(documents), seed)

    def batch(self, step: int) -> Batch:
        """The rows of a step."""
        return _stacked([self._row(step * self._rows + row) for row in range(self._rows)])

    def _row(self, number: int) -> list[Tokens]:
        epoch, place = divmod(number, len(self._documents))
        document = self._documents[self._orders.of(epoch)[place]]
        count, length = min(len(document), self._length), self._length
        tokens, target = np.zeros(length, np.int64), np.full(length, IGNORED, np.int64)
        tokens[:count] = document[:count]
        goals = document[1 : count + 1]
        target[: len(goals)] = goals
        at = np.arange(length)
        return [tokens, target, (at >= count).astype(np.int64), at]


def _next(document: Tokens, at: int) -> int:
    return int(document[at]) if at < len(document) else IGNORED


class _Orders:
    """All numbers below `count`, shuffled anew for each epoch; the last order is kept."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed, self.epoch = count, seed, -1
        self._order = np.zeros(0, np.int64)

    def of(self, epoch: int) -> Tokens:
        if epoch != self.epoch:
            self.epoch = epoch
            self._order = np.random.default_rng(mix(self._seed << 20 ^ epoch)).permutation(self._count)
        return self._order


def _stacked(rows: Sequence[Sequence[Tokens]]) -> Batch:
    tokens, target, documents, positions = (torch.from_numpy(np.stack(each)) for each in zip(*rows, strict=True))
    return Batch(tokens.long(), target.long(), {"positions": positions.long(), "documents": documents.long()})
