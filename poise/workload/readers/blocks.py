"""The `hash_ids` column: from one chained id a block to prefix extents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.workload.readers.columns import lists
from poise.workload.readers.ledger import Ledger
from poise.workload.table import Prefixes


def read_prefixes(ledger: Ledger, column: str, prompt: NDArray[np.int32], block_tokens: int) -> Prefixes | None:
    """Return the extents of every row, None where no row has ids.

    Id i of a row covers its tokens [i·`block_tokens`, (i+1)·`block_tokens`) or to the prompt's end; tokens behind the
    last id are unique. Too many ids for a prompt, and ids that follow different ids in different rows (not chained),
    are refused.
    """
    sizes, items, odd = lists(ledger.raw.columns[column])
    ledger.refuse(odd, column, "hash_ids must be a list of whole numbers or texts")
    if not items:
        return None
    most = -(-prompt.astype(np.int64) // block_tokens)
    rule = f"more ids than the prompt has blocks of {block_tokens} tokens; name the right block_tokens"
    ledger.refuse((sizes > most) & ~ledger.bad, column, rule)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = _dense(items)
    _refuse_unchained(ledger, column, rows, ids)
    position = np.arange(len(ids)) - offsets[rows]
    ends = np.minimum((position + 1) * block_tokens, prompt[rows].astype(np.int64))
    return Prefixes(offsets, ids, _agreed(ids, ends, ledger.bad[rows]).astype(np.int32))


def _dense(items: list[Any]) -> NDArray[np.int64]:
    """Ids as they are where they are small counts, else numbered; hashes of 64 bits and texts become small numbers."""
    if set(map(type, items)) == {int} and min(items) >= 0 and max(items) < 8 * len(items) + 1024:
        return np.array(items, dtype=np.int64)
    names = items if set(map(type, items)) == {int} else [str(item) for item in items]
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], dtype=np.int64)


def _refuse_unchained(ledger: Ledger, column: str, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
    before = np.full(len(ids), -1, dtype=np.int64)
    before[1:] = np.where(np.diff(rows) == 0, ids[:-1], -1)
    sound = ~ledger.bad[rows]
    _, first, inverse = np.unique(ids[sound], return_index=True, return_inverse=True)
    wrong = np.zeros(len(ledger.bad), dtype=bool)
    wrong[rows[sound][before[sound] != before[sound][first][inverse]]] = True
    ledger.refuse(wrong, column, "an id follows another id than in an earlier row; an id must name its whole prefix")


def _agreed(ids: NDArray[np.int64], ends: NDArray[np.int64], bad: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Ends on which all rows with an id agree: the shortest, as far as the prompts are known to be equal."""
    _, inverse = np.unique(ids, return_inverse=True)
    shortest = np.full(int(inverse.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, inverse[~bad], ends[~bad])
    return np.where(bad, ends, shortest[inverse])
