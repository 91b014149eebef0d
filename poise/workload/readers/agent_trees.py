"""From recorded conversations to a workload: which request waits for which, and what their prompts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.units import NEVER, SECOND
from poise.workload.readers.agent_chains import chains_of
from poise.workload.readers.agent_clock import Clock
from poise.workload.readers.agent_order import Ended, Stream, Wait, frontier
from poise.workload.readers.file import opened
from poise.workload.readers.hash_chains import Chains, Extents
from poise.workload.readers.weka import NAME, SUBAGENT, Conversation, Entry, Found, conversations, files, sound
from poise.workload.rows import by_arrival
from poise.workload.table import Prefixes, Workload

MAIN = "main"
"""The stage of the requests of a conversation itself; those of a sub-agent have its type."""

FLATTENED = "flattened"
"""The stage of sub-agents without a marker: their requests stand among those of the agent that started them."""

CALLS = ("tool", "user", "subagent")
"""What comes behind an answer: a tool, the user's next message, or sub-agents."""


@dataclass(slots=True)
class Rows:
    """The requests of all conversations, each behind those that it waits for.

    agent: 0 for the conversation itself, then its sub-agents as they were started.  counts: what was found.
    """

    session: list[int] = field(default_factory=list)
    agent: list[int] = field(default_factory=list)
    arrival: list[float] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    stage: list[str] = field(default_factory=list)
    tool: list[str] = field(default_factory=list)
    waits: list[list[Wait]] = field(default_factory=list)
    extents: list[Extents] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Tree:
    """Adds one conversation to `rows`. clock: what the times of its sub-agents mean.  extents: by `id` of requests."""

    rows: Rows
    session: int
    clock: Clock
    extents: Mapping[int, Extents]
    zero: float
    agents: int = 0

    def thread(self, entries: Sequence[Entry], first: Stream, base: float, parent: Ended | None) -> list[Ended]:
        """Add the requests in one agent's record; returns the last of this agent, and of each that stands among them.

        base: seconds that their times count from.  parent: the request that started the agent.
        """
        own = [entry for entry in entries if entry.type != SUBAGENT]
        chains = iter(chains_of(own, [self.extents[id(entry)] for entry in own]))
        streams, joined, latest = [first], list[Ended](), parent
        for entry in entries:
            if entry.type == SUBAGENT:
                joined += self._started(entry, base, first.last or parent)
                continue
            at, number = base + entry.t, next(chains)
            if number == len(streams):
                streams.append(self._agent(FLATTENED))
            stream = streams[number]
            waits = self._waits(entry, at, streams, number, latest, joined if number == 0 else [], parent)
            waits |= {each.row: 0.0 for each in frontier(streams, stream, at) if each.row not in waits}
            latest = self._request(entry, stream, at, waits)
            stream.add(latest)
            joined = joined if number else []
        self.rows.counts["background"] += len(joined)
        return [stream.last for stream in streams if stream.last is not None]

    def _waits(
        self, entry: Entry, at: float, streams: Sequence[Stream], number: int, latest: Ended | None,
        joined: Sequence[Ended], parent: Ended | None,
    ) -> dict[int, float]:  # fmt: skip
        """What a request waits for in its own stream, or where its agent was started, and for how many seconds."""
        if number and streams[number].last is None:
            self.rows.counts[FLATTENED] += 1
            return self._beside(at, streams[0].last)
        last = streams[number].last or parent
        if last is None:
            return {}
        waits = {each.row: _since(at, each) for each in joined}
        recorded = entry.think_time if last is latest and last is not parent else None
        waits[last.row] = 0.0 if joined else _since(at, last) if recorded is None else recorded
        return waits

    def _beside(self, at: float, starter: Ended | None) -> dict[int, float]:
        """The waits of an agent that began at `at`: for what started it, or where that was under way, with it."""
        assert starter is not None
        if at >= starter.over:
            self.rows.tool[starter.row] = "subagent"
            return {starter.row: _since(at, starter)}
        return {row: wait + at - starter.begin for row, wait in self.rows.waits[starter.row]}

    def _agent(self, stage: str) -> Stream:
        self.agents += 1
        return Stream(self.agents, stage)

    def _started(self, marker: Entry, base: float, last: Ended | None) -> list[Ended]:
        """The sub-agent of a marker; none where nothing started it, or where it made no request."""
        if last is None or all(entry.type == SUBAGENT for entry in marker.requests):
            self.rows.counts["dropped_subagents"] += 1
            return []
        self.rows.counts["subagents"] += 1
        self.rows.tool[last.row] = "subagent"
        begin = base + self.clock.begin(marker)
        own = begin if self.clock.relative else base
        ends = self.thread(marker.requests, self._agent(marker.subagent_type or SUBAGENT), own, last)
        lasted = None if marker.duration_ms is None else begin + marker.duration_ms / 1000
        return [Ended(end.row, end.begin, lasted if end.end is None else end.end) for end in ends]

    def _request(self, entry: Entry, stream: Stream, at: float, waits: Mapping[int, float]) -> Ended:
        """Add a request that arrives some seconds after the end of each that it waits for."""
        rows, row = self.rows, len(self.rows.prompt)
        stamps = [rows.arrival[before] + wait for before, wait in waits.items()]
        rows.session.append(self.session)
        rows.agent.append(stream.agent)
        rows.arrival.append(max(at - self.zero, *stamps) if stamps else at - self.zero)
        rows.prompt.append(entry.prompt)
        rows.output.append(max(entry.output, 1))
        rows.counts["empty_answers"] += entry.output == 0
        rows.stage.append(stream.stage)
        rows.tool.append("tool" if entry.stop == "tool_use" else "user")
        rows.waits.append(list(waits.items()))
        rows.extents.append(self.extents[id(entry)])
        return Ended(row, at, None if entry.api_time is None else at + entry.api_time)


def _since(at: float, last: Ended) -> float:
    return max(at - last.over, 0.0)


def requests_of(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The requests among entries, those of sub-agents where their marker stands."""
    for entry in entries:
        if entry.type == SUBAGENT:
            yield from requests_of(entry.requests)
        else:
            yield entry


def read_conversations(path: Path, data: bytes | None, *, skip_bad: bool = False, limit: int | None = None) -> Workload:
    """Return the conversations of a file (its bytes `data`), or of a folder (None), as a workload.

    Every conversation begins at 0, for the format does not record when it did, and is one session. Each request waits
    for the one before it in its agent's thread, or for the sub-agents that were started in between, and arrives the
    recorded time after the last of them. Sub-agents without a marker are found by their prompts (agent_chains.py); what
    one agent had ended when another sent a request has ended in a replay, too (agent_order.py). An answer without
    tokens counts as one token, for its prompt was computed.
    limit: conversations to read.  skip_bad: pass over bad ones and count them.
    """
    rows, chains, known = Rows(), Chains(), list[Conversation]()
    skipped, first = 0, None
    for wrong, conversation in sound(_all(path, data), skip_bad):
        if conversation is None:
            skipped, first = skipped + 1, first or wrong
            continue
        rows.counts["moved"] += _in_order(conversation.requests)
        chains.add(conversation)
        known.append(conversation)
        if len(known) == limit:
            break
    if not known:
        why = f" (the first: {first})" if first else ""
        raise TraceError(f"{path}: no usable conversation{why}; the trace needs at least one")
    clock = Clock.of(known)
    for number, (conversation, extents) in enumerate(zip(known, chains.extents(), strict=True)):
        requests = list(requests_of(conversation.requests))
        known_by = {id(request): each for request, each in zip(requests, extents, strict=True)}
        _Tree(rows, number, clock, known_by, requests[0].t).thread(conversation.requests, Stream(0, MAIN), 0.0, None)
    workload = by_arrival(_workload(rows)).check()
    found = {name: count for name, count in rows.counts.items() if count}
    workload.source = {
        "path": str(path), "kind": "trace", "format": NAME, "conversations": len(known), "rows": len(workload),
        "skipped": skipped, "first_skipped": first, "block_tokens": known[0].block_size, "moved": 0, **found,
    }  # fmt: skip
    return workload


def _all(path: Path, data: bytes | None) -> Iterator[Found]:
    """The conversations of a file, or of all files of a folder."""
    if data is not None:
        yield from conversations(path, data)
        return
    members = files(path)
    if not members:
        raise TraceError(f"{path}: the folder has no conversations; it needs files of JSON or JSON Lines")
    for file in members:
        yield from conversations(file, opened(file))


def _in_order(entries: list[Entry]) -> int:
    """Sort the entries of each agent by time, stably; returns how many were out of order."""
    order = sorted(range(len(entries)), key=lambda at: entries[at].t)
    moved = sum(at != place for place, at in enumerate(order))
    entries[:] = [entries[at] for at in order]
    return moved + sum(_in_order(entry.requests) for entry in entries)


def _ps(seconds: Sequence[float]) -> NDArray[np.int64]:
    return np.rint(np.minimum(np.array(seconds, dtype=np.float64) * SECOND, float(NEVER))).astype(np.int64)


def _workload(rows: Rows) -> Workload:
    """The rows as columns, in the order in which they were added."""
    count = len(rows.prompt)
    stages = tuple(dict.fromkeys(rows.stage))
    made = Workload(
        np.zeros(count, dtype=np.int64), np.array(rows.prompt, np.int32), np.array(rows.output, np.int32),
        after_offsets=np.cumsum([0, *map(len, rows.waits)]).astype(np.int64),
        after_ids=np.array([row for each in rows.waits for row, _ in each], dtype=np.int64),
        after_delay=_ps([wait for each in rows.waits for _, wait in each]),
        delay=np.zeros(count, dtype=np.int64),
        session=np.array(rows.session, dtype=np.int32), agent=np.array(rows.agent, dtype=np.int32),
        stage=np.array([stages.index(each) for each in rows.stage], dtype=np.int16), stages=stages,
        tool=_tools(rows), tools=CALLS, prefixes=_prefixes(rows.extents),
    )  # fmt: skip
    made.arrival = _settled(made, _ps(rows.arrival))
    return made


def _settled(made: Workload, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stamps of which none is before those that its row waits for, in whole picoseconds."""
    assert made.after_offsets is not None and made.after_ids is not None and made.after_delay is not None
    settled, offsets = stamps.tolist(), made.after_offsets.tolist()
    before, waits = made.after_ids.tolist(), made.after_delay.tolist()
    for row in range(len(settled)):
        for at in range(offsets[row], offsets[row + 1]):
            settled[row] = max(settled[row], settled[before[at]] + waits[at])
    if max(settled) >= NEVER:
        raise TraceError("a conversation lasts longer than 53 days; its times are seconds from its beginning")
    return np.array(settled, dtype=np.int64)


def _tools(rows: Rows) -> NDArray[np.int16]:
    """What each answer calls; -1 for those that nothing follows."""
    awaited = {row for each in rows.waits for row, _ in each}
    return np.array([CALLS.index(tool) if row in awaited else -1 for row, tool in enumerate(rows.tool)], np.int16)


def _prefixes(extents: Sequence[Extents]) -> Prefixes | None:
    """The extents of all requests in one; None where no prompt has ids."""
    sizes = [len(each.ids) for each in extents]
    if not sum(sizes):
        return None
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids, ends = (np.concatenate([getattr(each, name) for each in extents]) for name in ("ids", "ends"))
    return Prefixes(offsets, ids.astype(np.int64), ends.astype(np.int32))
