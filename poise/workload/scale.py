"""More or less of a workload without changing what it is: thin, superpose, squeeze."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload.draw import count, positive, stream
from poise.workload.rows import Rows, by_arrival, later, repeat, take
from poise.workload.table import Prefixes, Workload


def _refuse_closed(workload: Workload) -> None:
    if workload.lanes is not None:
        raise ScenarioError("conversations in lanes have no rate to scale and no part to take; change their number")
    if workload.directed is not None:
        raise ScenarioError(
            "load that is decided as it runs cannot be scaled or cut; scale what its programs begin with"
        )


def head(workload: Workload, rows: int) -> Workload:
    """Return the first `rows` requests (at least 1; all of them where there are fewer)."""
    _refuse_closed(workload)
    if workload.endless is not None:
        return later(workload, lambda drawn: head(drawn, rows))
    kept = min(count("rows", rows), len(workload))
    return _note(take(workload, np.arange(kept)), head=kept)


def thin(workload: Workload, fraction: float, seed: int = 0) -> Workload:
    """Return whole sessions, in a seeded order, until the share `fraction` of the requests (in (0, 1]) is reached.

    Sessions are those of `session_of`; where there are none each request is a session by itself. With equal seeds a
    smaller fraction is a subset of a larger one. At least one session stays; stamps are not changed.
    """
    _refuse_closed(workload)
    if positive("fraction", fraction) > 1:
        raise ScenarioError(f"fraction is {fraction!r}; it must be in (0, 1]; use superpose for more load")
    if workload.endless is not None:
        return later(workload, lambda drawn: thin(drawn, fraction, seed))
    kept, sessions = _some(workload, fraction, seed, "thin")
    thinned = take(workload, np.flatnonzero(kept))
    return _note(thinned, thin=fraction, share=len(thinned) / len(workload), sessions=sessions, seed=seed)


def superpose(workload: Workload, copies: int, seed: int = 0, *, within_s: float | None = None) -> Workload:
    """Return `copies` superposed copies of the workload, as if from that many independent sets of clients.

    The first copy stays; every other one is moved by its own seeded shift, uniform over the length of the workload, and
    what passes its end comes in again at its start. `within_s` bounds the shift in seconds, which keeps the shape of a
    day. Sessions with joins move as one; recorded sessions are cut where they pass the end, as the recording itself cut
    those that were under way. Sessions, joins and prefix ids of the copies are relabelled, so that copies share nothing
    and the reachable hit rate stays what it was; tenants, models and adapters are shared. Closed load: `concurrency` is
    multiplied.
    """
    _refuse_closed(workload)
    copies = count("copies", copies)
    if workload.endless is not None:
        return later(workload, lambda drawn: superpose(drawn, copies, seed, within_s=within_s))
    many = _copies(workload, copies, seed, within_s)
    many.concurrency = workload.concurrency * copies
    return _note(by_arrival(many), superpose=copies, seed=seed, within_s=within_s)


def scaled(workload: Workload, factor: float, squeeze: bool = False, seed: int = 0) -> Workload:
    """Return the workload at `factor` times its rate.

    Below 1 it is thinned; above 1 it is superposed, the last copy thinned where the factor is not whole. So with equal
    seeds a smaller load is part of every larger one. With `squeeze` the same requests come in 1/`factor` of the time
    instead: think times stay, but the stamps of recorded sessions are squeezed too, which no real crowd would do;
    `source` records it.
    """
    _refuse_closed(workload)
    positive("factor", factor)
    if workload.concurrency:
        raise ScenarioError(
            f"factor is {factor}, but a closed load has no rate to scale; change its concurrency instead"
        )
    if factor == 1:
        return workload
    if workload.endless is not None:
        return later(workload, lambda drawn: scaled(drawn, factor, squeeze, seed))
    if squeeze:
        stamps = np.rint(workload.arrival / factor).astype(np.int64)
        return _note(replace(workload, arrival=stamps, source=dict(workload.source)), squeeze=factor)
    if factor < 1:
        return thin(workload, factor, seed)
    whole = int(factor)
    if whole == factor:
        return superpose(workload, whole, seed)
    kept = np.ones((whole + 1, len(workload)), dtype=bool)
    kept[whole], sessions = _some(workload, factor - whole, seed, f"thin copy {whole}")
    some = take(_copies(workload, whole + 1, seed), np.flatnonzero(kept.ravel()))
    facts = {"copies": whole + 1, "sessions_of_the_last": sessions, "share": len(some) / len(workload)}
    return _note(by_arrival(some), scale=factor, **facts, seed=seed)


def at_rate(workload: Workload, rate: float, squeeze: bool = False, seed: int = 0) -> Workload:
    """Return the workload scaled to `rate` requests per second; of joined requests only the first of each counts."""
    _refuse_closed(workload)
    positive("rate", rate)
    if workload.concurrency:
        raise ScenarioError(f"rate is {rate}, but a closed load has none; change its concurrency instead")
    if workload.endless is not None:
        return later(workload, lambda drawn: at_rate(drawn, rate, squeeze, seed))
    own = workload.rate
    if own is None:
        raise ScenarioError(
            f"rate is {rate}, but the requests all begin at one instant, so they have none; give a factor instead"
        )
    return scaled(workload, rate / own, squeeze, seed)


def _some(workload: Workload, fraction: float, seed: int, purpose: str) -> tuple[NDArray[np.bool_], int]:
    """The rows of whole sessions that make up `fraction` of all, and how many sessions that are."""
    names, session = np.unique(session_of(workload), return_inverse=True)
    sizes = np.bincount(session)
    order = stream(seed, purpose).permutation(len(names))
    reached = np.cumsum(sizes[order])
    # The nearest number of whole sessions, so that the realised share errs by half a session at most.
    before = reached - sizes[order]
    chosen = np.zeros(len(names), dtype=bool)
    chosen[order[(reached + before) / 2 < fraction * len(workload)]] = True
    chosen[order[0]] |= not chosen.any()
    return chosen[session], int(chosen.sum())


def _copies(workload: Workload, copies: int, seed: int, within_s: float | None = None) -> Workload:
    """Concatenated copies, each shifted in time, not yet sorted; fewer are a prefix of more."""
    rows = len(workload)
    many = repeat(workload, copies)
    first = np.arange(rows) if workload.after_offsets is None else session_of(workload)
    begin = np.tile(workload.arrival[first] - workload.arrival[0], copies)
    span = _period(workload)
    reach = span if within_s is None else min(span, round(positive("within_s", within_s) * SECOND))
    shifts = np.rint(stream(seed, "superpose").random(copies) * reach).astype(np.int64)
    shifts[0] = 0
    moved = begin + np.repeat(shifts, rows)
    many.arrival = many.arrival + np.where(moved >= span, moved - span, moved) - begin
    return many


def session_of(workload: Workload) -> Rows:
    """Return for each row the first row of its session.

    Sessions are what must not be torn apart: rows of one `session`, rows joined by `after` and, where no sessions are
    given, rows that share prefix. An id that more than √rows rows have (a system prompt) joins none: enough of its
    users stay when others go. Identity is chained, so rows that share any rarer id share the shallowest rarer id of
    their prompts.
    """
    rows = len(workload)
    first = np.arange(rows)
    if workload.session is not None:
        known = np.flatnonzero(workload.session >= 0)
        _, at, inverse = np.unique(workload.session[known], return_index=True, return_inverse=True)
        first[known] = known[at][inverse]
    elif workload.prefixes is not None:
        first = _sharing(workload.prefixes, rows)
    if workload.after_offsets is None or workload.after_ids is None:
        return first
    successor = np.repeat(np.arange(rows), np.diff(workload.after_offsets))
    return _joined(first, successor, workload.after_ids)


def _sharing(prefixes: Prefixes, rows: int) -> Rows:
    first = np.arange(rows)
    _, inverse, counts = np.unique(prefixes.ids, return_inverse=True, return_counts=True)
    owners = prefixes.rows
    rare = np.flatnonzero(counts[inverse] <= math.sqrt(rows))
    shallowest = rare[np.unique(owners[rare], return_index=True)[1]]
    _, at, group = np.unique(prefixes.ids[shallowest], return_index=True, return_inverse=True)
    first[owners[shallowest]] = owners[shallowest][at][group]
    return first


def _joined(first: Rows, one: NDArray[Any], other: NDArray[Any]) -> Rows:
    """Merge groups, each named by a row in `first`, along the edges (one, other); the least name stays."""
    while True:
        least = np.minimum(first[one], first[other])
        merged = first.copy()
        np.minimum.at(merged, first[one], least)
        np.minimum.at(merged, first[other], least)
        merged = merged[merged][first]
        if np.array_equal(merged, first):
            return first
        first = merged


def _period(workload: Workload) -> int:
    """Picoseconds after which the workload may come again: its span and one mean gap."""
    span = int(workload.arrival[-1] - workload.arrival[0])
    return span + span // max(1, len(workload) - 1)


def _note(workload: Workload, **done: Any) -> Workload:
    workload.source = {**workload.source, "changes": [*workload.source.get("changes", ()), done]}
    return workload
