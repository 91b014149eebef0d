"""The `after` column: from request ids or row numbers to joins that a workload may have."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.units import NEVER
from poise.workload.readers.columns import codes, lists
from poise.workload.readers.ledger import Ledger
from poise.workload.readers.raw import Column

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Joins:
    """Predecessors of each row as offset arrays over the rows of the file; `delay` in picoseconds."""

    offsets: Rows
    ids: Rows
    delay: Rows

    @property
    def owners(self) -> Rows:
        """The waiting row of each predecessor."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def read_joins(ledger: Ledger, after: str, request_id: str | None, delay: Rows) -> Joins:
    """Return the joins of column `after`; rows that refer to no request, or to themselves in a ring, are refused."""
    columns = ledger.raw.columns
    sizes, items, odd = lists(columns[after])
    ledger.refuse(odd, after, "predecessors must be row numbers or request ids")
    owners = np.repeat(np.arange(len(sizes)), sizes)
    if request_id is None:
        targets = np.array([_row(item) for item in items], dtype=np.int64)
        rule = "no such row; without request ids, predecessors are row numbers from 0"
    else:
        targets = _by_name(ledger, columns[request_id], request_id, items)
        rule = f"no row has this {request_id}"
    # -1 means no predecessor, as in other columns of indices.
    named = np.array([str(item) != "-1" for item in items], dtype=bool)
    unknown = named & ((targets < 0) | (targets >= len(sizes)))
    ledger.refuse(_any(owners[unknown], len(sizes)), after, rule)
    sound = named & ~unknown
    owners, targets = owners[sound], targets[sound]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(sizes)))]).astype(np.int64)
    waits = np.diff(offsets) > 0
    return Joins(offsets, targets, np.where(waits, delay, 0))


def _row(item: Any) -> int:
    try:
        return min(max(int(item), -2), 2**62)
    except ValueError:
        return -2


def _by_name(ledger: Ledger, column: Column, name: str, items: list[Any]) -> Rows:
    numbered, names = codes(column)
    _, first = np.unique(numbered, return_index=True)
    again = np.ones(len(numbered), dtype=bool)
    again[first] = False
    ledger.refuse(again & (numbered >= 0), name, "each request needs an id of its own")
    row_of = {names[numbered[row]]: row for row in first.tolist() if numbered[row] >= 0}
    return np.array([row_of.get(str(item).strip(), -2) for item in items], dtype=np.int64)


def _any(rows: Rows, total: int) -> NDArray[np.bool_]:
    marked = np.zeros(total, dtype=bool)
    marked[rows] = True
    return marked


def settle_stamps(ledger: Ledger, joins: Joins, arrival: Rows, after: str) -> tuple[Rows, Rows]:
    """Return (arrival, depth): stamps no earlier than predecessor + delay, and the longest chain before each row.

    Sorting by both puts every predecessor first. Rows that wait for each other in a ring are refused, and so are
    those that wait for a refused row.
    """
    total = len(arrival)
    stamp, depth = arrival.tolist(), [0] * total
    waiting = np.diff(joins.offsets).tolist()
    bad, delay = ledger.bad.tolist(), joins.delay.tolist()
    order = np.argsort(joins.ids, kind="stable")
    successors = joins.owners[order].tolist()
    begins = np.searchsorted(joins.ids[order], np.arange(total + 1)).tolist()
    ready = deque(row for row in range(total) if waiting[row] == 0)
    orphan = [False] * total
    while ready:
        row = ready.popleft()
        for successor in successors[begins[row] : begins[row + 1]]:
            orphan[successor] |= bad[row] or orphan[row]
            depth[successor] = max(depth[successor], depth[row] + 1)
            stamp[successor] = max(stamp[successor], min(stamp[row] + delay[successor], NEVER))
            waiting[successor] -= 1
            if waiting[successor] == 0:
                ready.append(successor)
    ring = np.array(waiting) > 0
    ledger.refuse(ring, after, "these requests wait for each other; a predecessor must be able to end first")
    ledger.refuse(np.array(orphan, dtype=bool) & ~ring, after, "it waits for a request whose row is bad")
    stamps = np.array(stamp, dtype=np.int64)
    ledger.refuse(stamps >= NEVER, after, "its delay and those before it add up to more than 53 days")
    return stamps, np.array(depth, dtype=np.int64)
