"""What directed loads are built of: the joins of a workload as they are met, and checks of their starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from poise.core.errors import ScenarioError
from poise.workload.scale import session_of
from poise.workload.table import Workload

ROWS = 2_000_000
"""The most rows of such a load, those that are only kept ready included."""


class Graph:
    """The joins of a workload: which rows wait for which, and how long after their ends they may arrive.

    programs: the rows of each program, in the order in which programs begin.  of: the program of each row.
    arrival: the stamp of each row.
    """

    def __init__(self, workload: Workload) -> None:
        number = np.unique(session_of(workload), return_inverse=True)[1]
        order = np.argsort(number, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(number))[:-1])
        self.programs = sorted(
            (each.tolist() for each in parts), key=lambda rows: (int(workload.arrival[rows[0]]), rows)
        )
        self.of = {row: at for at, rows in enumerate(self.programs) for row in rows}
        self.arrival: list[int] = workload.arrival.tolist()
        self._own: list[int] = [0] * len(workload) if workload.delay is None else workload.delay.tolist()
        self._after: dict[int, list[tuple[int, int]]] = {}
        self._awaited: dict[int, int] = {}
        self._ready: dict[int, int] = {}
        if workload.after_offsets is not None and workload.after_ids is not None:
            ids: list[int] = workload.after_ids.tolist()
            waits = [0] * len(ids) if workload.after_delay is None else workload.after_delay.tolist()
            for row, (low, high) in enumerate(pairwise(workload.after_offsets.tolist())):
                for before, wait in zip(ids[low:high], waits[low:high], strict=True):
                    self._after.setdefault(before, []).append((row, wait))
                if high > low:
                    self._awaited[row] = high - low

    def first(self, program: int) -> list[int]:
        """The rows of a program that wait for no other."""
        return [row for row in self.programs[program] if row not in self._awaited]

    def met(self, row: int, now: int) -> list[tuple[int, int]]:
        """The rows that only waited for this one still, which ended at `now`, with when each may arrive."""
        found = []
        for after, wait in self._after.get(row, ()):
            self._awaited[after] -= 1
            self._ready[after] = max(now + wait, self._ready.get(after, 0))
            if not self._awaited[after]:
                found.append((after, self._ready.pop(after) + self._own[after]))
        return found


def starts_only(starts: Workload, name: str) -> None:
    """Refuse starts of programs that are no plain open load, in the words of what is built on them."""
    if starts.endless is not None or starts.concurrency or starts.lanes is not None or starts.directed is not None:
        raise ScenarioError(f"{name} needs starts with an end, and open load; give poisson a number of requests, say")
    if starts.after_offsets is not None or starts.session is not None or starts.prefixes is not None:
        raise ScenarioError(
            f"{name} makes programs of its own, and the workload has some; remove workflows or sessions"
        )


def noted(workload: Workload, name: str, **facts: object) -> Workload:
    """Return the workload with what was done to it, for provenance; ScenarioError where it has too many rows."""
    if len(workload) > ROWS:
        raise ScenarioError(f"{name} makes {len(workload):,} rows, and {ROWS:,} are the most; ask for fewer programs")
    return replace(workload, source={**workload.source, name: facts})
