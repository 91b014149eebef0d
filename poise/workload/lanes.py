"""Conversations in lanes: a closed load, replayed as AIPerf's AgentX scenario, InferenceX and AISimulate do.

A lane holds one conversation with all its sub-agents. The first of each lane begins inside its record, at a drawn share
of the time that it lasted; when all of a conversation is over the lane takes the next one, from its first request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import ps
from poise.workload.draw import count, positive, stream
from poise.workload.replay import relabelled
from poise.workload.rows import Rows, take
from poise.workload.scale import session_of
from poise.workload.table import Lanes, Prefixes, Workload

IDLE_S, TREE_IDLE_S = 10.0, 300.0
"""InferenceX's caps on the time in which nothing is under way: at all, and of one conversation."""

DURATION_S, GRACE_S = 3600.0, 30.0
"""InferenceX's hour, and the seconds for which what is under way then may still be answered."""

START = (0.25, 0.75)
"""The shares of a record between which InferenceX lets the first conversations begin; AIPerf's scenario has (0, 1)."""

MOST_ROWS, MOST_EXTENTS = 200_000, 16_000_000
"""Where the conversations to be had end, if the seconds do not end before: a gigabyte."""


@dataclass(frozen=True, slots=True)
class _Play:
    """One play of a recorded conversation. rows: of the recording.  primers: rows whose prompts fill the cache before.

    offset: for each row that waits for none of the others, picoseconds from the beginning of the play, else 0.
    stamp: for each row its earliest arrival, counted from there.  least: picoseconds that the play takes at least.
    """

    rows: Rows
    primers: Rows
    offset: NDArray[np.int64]
    stamp: NDArray[np.int64]
    least: int
    whole: bool


def in_lanes(
    recorded: Workload,
    lanes: int,
    *,
    duration_s: float = DURATION_S,
    grace_s: float = GRACE_S,
    start: Sequence[float] = START,
    primers: bool = True,
    idle_cap_s: float = IDLE_S,
    tree_idle_cap_s: float = TREE_IDLE_S,
    gap_cap_s: float | None = None,
    max_context: int | None = None,
    seed: int = 0,
) -> Workload:
    """Return the conversations of `recorded` in `lanes` lanes for `duration_s`, in an order drawn from `seed`.

    start: the shares of its time between which the first conversation of each lane begins; (0, 0): its first request.
    primers: fill the cache before with the last prompt of each agent that the lanes begin behind, one output token
    each.  idle_cap_s, tree_idle_cap_s: the most seconds for which nothing at all, or nothing of a conversation, is
    under way.  gap_cap_s: cap each recorded gap between an answer and the next request, None for no cap.
    max_context: leave out conversations that exceed these tokens, prompt and output.
    No play of a conversation finds what an earlier play left; what different conversations share stays shared.
    """
    count("lanes", lanes)
    positive("duration_s", duration_s)
    positive("idle_cap_s", idle_cap_s)
    positive("tree_idle_cap_s", tree_idle_cap_s)
    low, high = _between(start)
    if recorded.after_offsets is None or recorded.session is None:
        raise ScenarioError(
            "lanes hold conversations, and the trace does not say which request follows which; give one of format weka "
            "or agent_sessions, or one with the columns session and after"
        )
    if gap_cap_s is not None:
        recorded = _capped(recorded, ps(positive("gap_cap_s", gap_cap_s)))
    corpus = _Corpus(recorded, ps(min(idle_cap_s, tree_idle_cap_s)))
    chosen = corpus.within(max_context)
    if not len(chosen):
        raise ScenarioError(f"max_context {max_context}: every conversation has more tokens; give a longer context")
    order = stream(seed, "order of conversations").permutation(chosen)
    shares = low + (high - low) * stream(seed, "start in conversations").random(lanes)
    plays, begins, ended = _scheduled(corpus, order, shares, primers, ps(duration_s))
    made, play, fills = _workload(corpus.recorded, plays, begins)
    made.lanes = Lanes(
        lanes, play, fills, np.array([each.whole for each in plays]),
        duration=ps(duration_s), grace=ps(grace_s), idle=ps(idle_cap_s), tree_idle=ps(tree_idle_cap_s),
    )  # fmt: skip
    facts: dict[str, Any] = {
        "lanes": lanes,
        "duration_s": duration_s,
        "plays": len(plays),
        "of": len(chosen),
        "seed": seed,
    }
    left_out = len(corpus.sessions) - len(chosen)
    facts |= {"left_out": left_out, "max_context": max_context} if left_out else {}
    made.source = {**recorded.source, "in_lanes": {**facts, "all": ended}}
    return made


def by_stamps(recorded: Workload) -> Workload:
    """Return the rows of `recorded` at their recorded stamps, whether those before them in their session ended or not.

    So the speed of the recorded server is part of the load, as in any open load.
    """
    source = {**recorded.source, "open_loop": True}
    return replace(recorded, after_offsets=None, after_ids=None, after_delay=None, delay=None, source=source)


def _between(start: Sequence[float]) -> tuple[float, float]:
    if len(start) != 2 or not 0 <= start[0] <= start[1] <= 1:
        raise ScenarioError(f"start is {list(start)}; give two shares from 0 to 1, the smaller one first")
    return float(start[0]), float(start[1])


def _capped(recorded: Workload, most: int) -> Workload:
    """The recording with no gap above `most` picoseconds."""
    assert recorded.delay is not None
    waits = recorded.after_delay
    return replace(
        recorded,
        delay=np.minimum(recorded.delay, most),
        after_delay=None if waits is None else np.minimum(waits, most),
        source=dict(recorded.source),
    )


class _Corpus:
    """Recorded conversations, to be played. idle: picoseconds that a gap can be shortened to."""

    def __init__(self, recorded: Workload, idle: int) -> None:
        self.recorded = recorded
        self._idle = idle
        self.sessions, number = np.unique(session_of(recorded), return_inverse=True)
        order = np.argsort(number, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(number))[:-1])
        self._agent = np.zeros(len(recorded), np.int32) if recorded.agent is None else recorded.agent

    def within(self, max_context: int | None) -> Rows:
        """The conversations of at most so many tokens."""
        tokens = self.recorded.prompt.astype(np.int64) + self.recorded.output
        peaks = np.array([tokens[rows].max() for rows in self._rows])
        return np.flatnonzero(peaks <= (np.inf if max_context is None else max_context))

    def play(self, conversation: int, share: float | None, primers: bool) -> _Play:
        """A conversation from its first request, or with a `share` from where that part of its time is over."""
        rows = self._rows[conversation]
        if share is None:
            return self._made(rows, rows[:0], 0, True)
        stamps = self.recorded.arrival[rows]
        since = int(stamps[0]) + round(share * int(stamps[-1] - stamps[0]))
        kept = stamps >= since
        kept[-1] = True
        past = rows[~kept]
        last = {int(self._agent[row]): int(row) for row in past.tolist()}
        alive = set(self._agent[rows[kept]].tolist())
        heads = [row for agent, row in last.items() if agent in alive or agent == 0]
        begun = np.array(sorted(heads) if primers else [], dtype=np.int64)
        return self._made(rows[kept], begun, since, not len(past))

    def _made(self, rows: Rows, primers: Rows, since: int, whole: bool) -> _Play:
        place = {row: at for at, row in enumerate(rows.tolist())}
        offset, stamp = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        begin = int(self.recorded.arrival[rows[0]]) if whole else since
        for at, row in enumerate(rows.tolist()):
            waits = [(place[before], wait) for before, wait in self._before(row) if before in place]
            if waits:
                stamp[at] = max(int(stamp[before]) + min(wait, self._idle) for before, wait in waits)
            else:
                offset[at] = max(int(self.recorded.arrival[row]) - begin, 0)
                stamp[at] = min(int(offset[at]), self._idle)
        return _Play(rows, primers, offset, stamp, int(stamp.max()), whole)

    def _before(self, row: int) -> list[tuple[int, int]]:
        """The rows that a row waits for, with the picoseconds from the end of each to its arrival at the earliest."""
        made = self.recorded
        assert made.after_offsets is not None and made.after_ids is not None and made.delay is not None
        span = slice(int(made.after_offsets[row]), int(made.after_offsets[row + 1]))
        waits = np.zeros(span.stop - span.start, np.int64) if made.after_delay is None else made.after_delay[span]
        return list(zip(made.after_ids[span].tolist(), (waits + made.delay[row]).tolist(), strict=True))


def _scheduled(
    corpus: _Corpus, order: Rows, shares: NDArray[np.float64], primers: bool, duration: int
) -> tuple[list[_Play], list[int], bool]:
    """The plays that may begin within `duration`, when each begins at the earliest, and whether those are all.

    No engine is faster than one that answers at once, on which a play takes its gaps alone, each cut to what the whole
    system may be idle; the next one begins in the lane that is free first. Slower answers only delay beginnings.
    """
    plays = [corpus.play(int(order[at % len(order)]), share, primers) for at, share in enumerate(shares.tolist())]
    begins = [0] * len(plays)
    free = [play.least for play in plays]
    heapify(free)
    extents = np.zeros(len(corpus.recorded), np.int64)
    if corpus.recorded.prefixes is not None:
        extents = corpus.recorded.prefixes.counts
    rows, held = sum(len(play.rows) for play in plays), sum(int(extents[play.rows].sum()) for play in plays)
    while free[0] < duration:
        if rows > MOST_ROWS or held > MOST_EXTENTS:
            return plays, begins, False
        play = corpus.play(int(order[len(plays) % len(order)]), None, primers)
        plays.append(play)
        begins.append(free[0])
        heapreplace(free, free[0] + play.least)
        rows, held = rows + len(play.rows), held + int(extents[play.rows].sum())
    return plays, begins, True


def _workload(
    recorded: Workload, plays: Sequence[_Play], begins: Sequence[int]
) -> tuple[Workload, NDArray[np.int32], NDArray[np.bool_]]:
    """All primers, then all plays, in the order of their earliest arrivals; the play of each row, and the primers."""
    primers = np.concatenate([play.primers for play in plays])
    rows = np.concatenate([primers, *(play.rows for play in plays)])
    fills = np.arange(len(rows)) < len(primers)
    owner = np.concatenate(
        [np.repeat(np.arange(len(plays)), [len(getattr(play, name)) for play in plays]) for name in ("primers", "rows")]
    )
    stamps = np.concatenate(
        [np.zeros(len(primers), np.int64), *(begin + play.stamp for play, begin in zip(plays, begins, strict=True))]
    )
    order = np.argsort(stamps, kind="stable")
    stands = np.empty(len(rows), np.int64)
    stands[order] = np.arange(len(rows))
    bare = replace(recorded, after_offsets=None, after_ids=None, after_delay=None)
    made = take(bare, rows[order])
    made.arrival, made.session = stamps[order], owner[order].astype(np.int32)
    made.output = np.where(fills[order], 1, made.output).astype(np.int32)
    made.delay = np.concatenate([np.zeros(len(primers), np.int64), *(play.offset for play in plays)])[order]
    _join(made, recorded, rows, fills, owner, order, stands)
    if made.prefixes is not None:
        made.prefixes = _own(made.prefixes, recorded, owner[order], fills[order])
    return made, owner[order].astype(np.int32), fills[order]


def _join(
    made: Workload, recorded: Workload, rows: Rows, fills: NDArray[np.bool_], owner: Rows, order: Rows, stands: Rows
) -> None:
    """Let each row wait for those of its play; and each primer for the one before it in its lane."""
    assert recorded.after_offsets is not None and recorded.after_ids is not None and recorded.delay is not None
    own = recorded.delay
    before: list[list[tuple[int, int]]] = [[] for _ in range(len(rows))]
    place: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}
    for at, (row, play, fill) in enumerate(zip(rows.tolist(), owner.tolist(), fills.tolist(), strict=True)):
        if fill:
            if play in last:
                before[at].append((last[play], 0))
            last[play] = at
            continue
        place[play, row] = at
        for item in range(int(recorded.after_offsets[row]), int(recorded.after_offsets[row + 1])):
            found = place.get((play, int(recorded.after_ids[item])))
            if found is not None:
                wait = 0 if recorded.after_delay is None else int(recorded.after_delay[item])
                before[at].append((found, wait + int(own[row])))
    joined = [before[at] for at in order.tolist()]
    made.after_offsets = np.cumsum([0, *map(len, joined)]).astype(np.int64)
    made.after_ids = np.array([stands[at] for each in joined for at, _ in each], dtype=np.int64)
    made.after_delay = np.array([wait for each in joined for _, wait in each], dtype=np.int64)


def _own(many: Prefixes, recorded: Workload, owner: Rows, fills: NDArray[np.bool_]) -> Prefixes:
    """Ids that one recorded conversation alone has become those of each of its plays; primers leave no answers."""
    assert recorded.prefixes is not None
    session = np.unique(session_of(recorded), return_inverse=True)[1]
    made = relabelled(many, recorded.prefixes, session, owner)
    if made.output is not None:
        made.output = np.where(fills, -1, made.output)
    return made
