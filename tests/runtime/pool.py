"""Four real processes that run one job after another: starting them is what takes long."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from poise.runtime.guard import Seat
from poise.runtime.ranks import Ranks
from tests.patience import PATIENCE_S

RANKS = 4
JOBS = 40
"""Jobs of one set of processes: each group of ranks that a job makes keeps a thread of gloo awake until its process
ends."""


class Pool:
    """Runs the same function on all ranks and gives their results."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("fork")
        self._ends = [context.Pipe() for _ in range(RANKS)]
        self._ranks = Ranks(RANKS, self._serve, timeout_s=PATIENCE_S)
        self._jobs = 0

    def run(self, job: Callable[..., Any], *given: Any) -> list[Any]:
        """`job(*given)` on every rank; the results by rank. A rank that raises fails the test with its traceback."""
        if self._jobs == JOBS:
            self.close()
            self._begin()
        self._jobs += 1
        for ours, _ in self._ends:
            ours.send((job, given))
        seen = []
        for rank, (ours, _) in enumerate(self._ends):
            assert ours.poll(PATIENCE_S), f"rank {rank} does not answer"
            seen.append(ours.recv())
        failed = [f"rank {rank}: {expected}" for rank, (well, expected) in enumerate(seen) if not well]
        assert not failed, "\n".join(failed)
        return [expected for _, expected in seen]

    def close(self) -> None:
        for ours, _ in self._ends:
            ours.send(None)
        self._ranks.close(10)
        for ours, theirs in self._ends:
            ours.close()
            theirs.close()

    def _serve(self, seat: Seat) -> None:
        end: Connection = self._ends[seat.rank][1]
        while (task := end.recv()) is not None:
            job, given = task
            try:
                end.send((True, job(*given)))
            except Exception:
                end.send((False, traceback.format_exc()))
