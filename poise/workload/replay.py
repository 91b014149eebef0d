"""Recorded sessions under arrivals of one's own: each request of a workload becomes a whole recorded session."""

from __future__ import annotations

import numpy as np

from poise.core.errors import ScenarioError
from poise.core.units import NEVER
from poise.workload.draw import durations, stream
from poise.workload.lengths import Spec, length
from poise.workload.rows import Rows, by_arrival, later, spans, take
from poise.workload.scale import session_of
from poise.workload.table import Prefixes, Workload


def recorded_sessions(starts: Workload, recorded: Workload, *, think_s: Spec | None = None, seed: int = 0) -> Workload:
    """Return sessions of `recorded`, drawn with replacement, that begin when the rows of `starts` arrive.

    think_s: seconds between an answer and the next request of its session, a number or a distribution, in place of
    the recorded delays; needed where `recorded` joins no requests: those of a session then follow one another in the
    order of their stamps. Lengths are the recorded ones; priority, deadline and timeout are those of the start where
    the recording has none. What several recorded sessions share (a system prompt) all their repetitions share; the
    rest is each repetition's own.
    """
    if starts.endless is not None:
        return later(starts, lambda rows: recorded_sessions(rows, recorded, think_s=think_s, seed=seed))
    _refuse(starts, recorded, think_s)
    of, session = np.unique(session_of(recorded), return_inverse=True)
    order = np.argsort(session, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(session))]).astype(np.int64)
    drawn = (stream(seed, "recorded sessions").random(len(starts)) * len(of)).astype(np.int64)
    begins, items = spans(offsets, drawn)
    rows = order[items]
    owner = np.repeat(np.arange(len(starts)), np.diff(begins))
    many = take(recorded, rows)
    first = begins[:-1][owner]
    many.after_offsets, many.after_ids = _joins(recorded, rows, first)
    if think_s is not None:
        many.after_delay = None
        think = durations("think_s", length(think_s, "think_s").draw(stream(seed, "think_s"), len(rows)))
        many.delay = np.where(np.diff(many.after_offsets) > 0, think, 0).astype(np.int64)
    # Rows that wait keep their distance from the session's start, which only orders them.
    many.arrival = starts.arrival[owner] + many.arrival - many.arrival[first]
    if many.arrival.max() >= NEVER:
        raise ScenarioError("the sessions last longer than 53 days; shorten think_s or draw fewer")
    many.session = owner.astype(np.int32)
    if many.prefixes is not None and recorded.prefixes is not None:
        many.prefixes = relabelled(many.prefixes, recorded.prefixes, session, owner)
    for name in ("priority", "deadline", "timeout"):
        own = getattr(starts, name)
        if own is not None and getattr(many, name) is None:
            setattr(many, name, own[owner])
    many.retry = starts.retry or recorded.retry
    facts = {"sessions": len(starts), "requests": len(rows), "of": len(of), "seed": seed}
    many.source = {**starts.source, "recorded_sessions": {**recorded.source, **facts}}
    return by_arrival(many)


def _refuse(starts: Workload, recorded: Workload, think_s: Spec | None) -> None:
    if starts.concurrency or starts.after_offsets is not None or starts.session is not None or starts.prefixes:
        cure = "build them from poisson, gamma, diurnal, on_off, constant or all_at_once"
        raise ScenarioError(f"recorded sessions need open load without sessions or prefixes as their starts; {cure}")
    if starts.max_tokens is not None:
        raise ScenarioError("max_tokens is given, but recorded sessions keep their recorded lengths; leave it out")
    if recorded.session is None and recorded.after_offsets is None:
        raise ScenarioError("the recording has no sessions; give one with a column `session` or `after`")
    if recorded.after_offsets is None and think_s is None:
        raise ScenarioError("the recording does not say who waits for whom; give think_s, as in 5")


def _joins(recorded: Workload, rows: Rows, first: Rows) -> tuple[Rows, Rows]:
    """Dependencies within each repetition: as recorded, or where none are, one after another.

    rows: the recorded row of each.  first: the first row of its repetition.
    """
    if recorded.after_offsets is None or recorded.after_ids is None:
        follows = np.arange(len(rows)) > first
        return np.concatenate([[0], np.cumsum(follows)]).astype(np.int64), np.flatnonzero(follows) - 1
    # A row's place within its session is the same in every repetition.
    place = np.empty(len(recorded), dtype=np.int64)
    place[rows] = np.arange(len(rows)) - first
    offsets, items = spans(recorded.after_offsets, rows)
    waiting = np.repeat(np.arange(len(rows)), np.diff(offsets))
    return offsets, first[waiting] + place[recorded.after_ids[items]]


def relabelled(many: Prefixes, recorded: Prefixes, session: Rows, owner: Rows) -> Prefixes:
    """Identity in which ids that one recorded session alone has become each repetition's own.

    many: the recorded identity of the rows of all repetitions.  session: of each recorded row.  owner: the repetition
    of each row of `many`.
    """
    output = np.zeros(0, np.int64) if recorded.output is None else recorded.output
    named = np.flatnonzero(output >= 0)
    ids = np.concatenate([recorded.ids, output[named]])
    sessions = session[np.concatenate([recorded.rows, named])]
    known, number = np.unique(ids, return_inverse=True)
    low, high = np.full(len(known), len(session)), np.full(len(known), -1)
    np.minimum.at(low, number, sessions)
    np.maximum.at(high, number, sessions)

    def renamed(ids: Rows, copy: Rows) -> Rows:
        place = np.searchsorted(known, ids)
        return place + np.where(low == high, 1, 0)[place] * (copy + 1) * len(known)

    output_ids = many.output
    if output_ids is not None:
        output_ids = np.where(output_ids >= 0, renamed(np.maximum(output_ids, ids.min()), owner), -1)
    return Prefixes(many.offsets, renamed(many.ids, owner[many.rows]), many.ends, output_ids)
