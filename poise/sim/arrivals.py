"""From the columns of a workload to requests that arrive: open, closed, and one after another."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from poise.core.fast_tuple import made
from poise.core.records.records import Conversations
from poise.core.request import UNKNOWN_TOOL, RequestView, Sequence
from poise.workload.paths import programs
from poise.workload.reuse import shared_tokens

if TYPE_CHECKING:
    from poise.workload.table import Workload


_DEFAULTS: Final = RequestView(0, 0, 0)[3:-1]
_UNNAMED: Final = RequestView(0, 0, 0)[6:-1]
"""The defaults of a request in a workload with lengths alone, or with lengths and prefixes."""


def _column(values: Any, kind: str) -> Any:
    """A column that answers plain Python integers by index, without a copy."""
    return None if values is None else memoryview(np.ascontiguousarray(values, dtype=kind))  # type: ignore[arg-type]


def turns(session: Any) -> Any:
    """How many earlier rows each row's session has; 0 for rows without one."""
    order = np.argsort(session, kind="stable")
    first = np.flatnonzero(np.diff(session[order], prepend=-2))
    counts: Any = np.diff(np.append(first, len(order)))
    turn: Any = np.empty(len(order), dtype=np.int32)
    turn[order] = np.arange(len(order)) - np.repeat(first, counts)
    return np.where(session < 0, 0, turn)


def programs_of(workload: Workload) -> array[int] | None:
    """The program of each row, -1 for none; None where no row belongs to one."""
    found = programs(workload)
    if found is not None and workload.lanes is not None:
        lanes = workload.lanes
        found = np.where(lanes.primer | ~lanes.whole[lanes.play], -1, found)  # what began before has no time of its own
    return None if found is None else array("i", found.astype(np.int32).tobytes())


def conversations_of(workload: Workload) -> Conversations | None:
    """The conversations of agents that requests belong to; None where the workload has none."""
    agent, lanes = workload.agent, workload.lanes
    if agent is None and lanes is None:
        return None
    of = workload.session if lanes is None else np.where(lanes.primer, -1, lanes.play)
    play: Any = np.full(len(workload), -1, np.int32) if of is None else of.astype(np.int32)
    own: Any = np.where(play < 0, -1, 0 if agent is None else agent).astype(np.int32)
    whole: Any = np.ones(int(play.max(initial=-1)) + 1, dtype=bool) if lanes is None else lanes.whole
    shared = None if workload.prefixes is None else array("q", shared_tokens(workload.prefixes).tobytes())
    return Conversations(
        array("i", own.tobytes()), array("i", play.tobytes()), array("b", whole.astype(np.int8).tobytes()),
        0 if lanes is None else lanes.count, shared,
    )  # fmt: skip


def reusable(workload: Workload) -> Any:
    """Prompt tokens of each row that a cache which never evicts would hold; None where prompts have no identity."""
    return None if workload.prefixes is None else _column(shared_tokens(workload.prefixes), "i8")


class Arrivals:
    """Rows of a workload as `RequestView`s, and which rows follow which.

    order: rows that arrive by the clock, by arrival; the others follow their predecessors.
    """

    def __init__(self, workload: Workload) -> None:
        self.rows = len(workload)
        self.arrival = _column(workload.arrival, "i8")
        self.prompt = _column(workload.prompt, "i4")
        self.output = _column(workload.output, "i4")
        self.max_tokens = _column(workload.max_tokens, "i4")
        self.timeout = _column(workload.timeout, "i8")
        self.delay = _column(workload.delay, "i8")
        self._model = _column(workload.model, "i2")
        self._session = _column(workload.session, "i4")
        self._tenant = _column(workload.tenant, "i4")
        self._lora = _column(workload.lora, "i4")
        self._priority = _column(workload.priority, "i2")
        self._deadline = _column(workload.deadline, "i8")
        self._stage = _column(workload.stage, "i2")
        self._tool = _column(workload.tool, "i2")
        self._turn = _column(None if workload.session is None else turns(workload.session), "i4")
        self._begun: dict[int, int] = {}
        named = (workload.model, workload.session, workload.tenant, workload.lora, workload.priority, workload.deadline)
        self._named = any(column is not None for column in (*named, workload.stage, workload.max_tokens))
        self._plain = not self._named and workload.prefixes is None
        prefixes = workload.prefixes
        self._offsets = _column(prefixes.offsets, "i8") if prefixes else None
        self._ids = _column(prefixes.ids, "i8") if prefixes else None
        self._ends = _column(prefixes.ends, "i4") if prefixes else None
        self._output_ids = _column(prefixes.output, "i8") if prefixes else None
        self.order: Iterator[int] = iter(range(self.rows))
        self.followers: dict[int, list[int]] = {}
        self.awaited: dict[int, int] = {}
        self.ready: dict[int, int] = {}
        self._waits: dict[tuple[int, int], int] = {}
        if workload.after_offsets is not None and workload.after_ids is not None:
            self._chain(workload.after_offsets, workload.after_ids, workload.after_delay)

    def view(self, row: int, at: int) -> RequestView:
        """The view of row `row`, arrived at `at`."""
        if self._plain:
            return made(RequestView, (row, at, self.prompt[row], *_DEFAULTS, at))
        ids: tuple[int, ...] = ()
        ends: tuple[int, ...] = ()
        if self._offsets is not None and self._ids is not None and self._ends is not None:
            first, last = self._offsets[row], self._offsets[row + 1]
            ids, ends = tuple(self._ids[first:last].tolist()), tuple(self._ends[first:last].tolist())
            if not self._named:
                return made(RequestView, (row, at, self.prompt[row], 0, ids, ends, *_UNNAMED, at))
        deadline = self._deadline[row] if self._deadline else 0
        session = self._session[row] if self._session else -1
        return RequestView(
            row,
            at,
            self.prompt[row],
            self.max_tokens[row] if self.max_tokens else 0,
            ids,
            ends,
            self._model[row] if self._model else 0,
            session,
            self._tenant[row] if self._tenant else -1,
            self._lora[row] if self._lora else -1,
            self._priority[row] if self._priority else 0,
            at + deadline if deadline else 0,
            turn=self._turn[row] if self._turn else 0,
            stage=self._stage[row] if self._stage else -1,
            begun_at=self._begun.setdefault(session, at) if session >= 0 else at,
        )

    def truth(self, row: int) -> int:
        """Output tokens after which the row ends, its client's limit included."""
        output: int = self.output[row]
        limit = self.max_tokens[row] if self.max_tokens else 0
        return limit if 0 < limit < output else output

    def running(self, request: RequestView, room: int, produced: int = 0) -> Sequence:
        """A request as an engine runs it, with room for `room` output tokens; `produced` are made already."""
        row = request.id
        output = self.truth(row) if self.max_tokens else self.output[row]
        if output > room:
            output = room
        output_id = self._output_ids[row] if self._output_ids else -1
        return Sequence(request, output, produced, output_id, self._tool[row] if self._tool else UNKNOWN_TOOL)

    def session_of(self, row: int) -> int:
        """The session that the row belongs to, -1 for none."""
        return self._session[row] if self._session else -1

    def away(self, row: int) -> int:
        """Picoseconds from the end of the row until the next request of its session arrives at the earliest, or -1."""
        session, waits = self.session_of(row), self._waits
        return min(
            [
                (waits[row, other] if waits else 0) + (self.delay[other] if self.delay else 0)
                for other in self.followers.get(row, ())
                if self.session_of(other) == session
            ],
            default=-1,
        )

    def met(self, before: int, row: int, now: int) -> int:
        """One of those that `row` waits for has ended: the instant at which it may arrive, -1 while others are out."""
        self.awaited[row] -= 1
        if self._waits:
            now = max(now + self._waits[before, row], self.ready.get(row, 0))
            self.ready[row] = now
        if self.awaited[row]:
            return -1
        self.ready.pop(row, None)
        return now + (self.delay[row] if self.delay else 0)

    def _chain(self, offsets: Any, ids: Any, waits: Any) -> None:
        counts = np.diff(offsets)
        rows: Any = np.repeat(np.arange(self.rows), counts)
        for row, before in zip(rows.tolist(), ids.tolist(), strict=True):
            self.followers.setdefault(before, []).append(row)
        if waits is not None:
            for row, before, wait in zip(rows.tolist(), ids.tolist(), waits.tolist(), strict=True):
                self._waits[before, row] = max(wait, self._waits.get((before, row), 0))
        self.awaited = {int(row): int(counts[row]) for row in np.flatnonzero(counts)}
        self.order = iter(np.flatnonzero(counts == 0).tolist())
