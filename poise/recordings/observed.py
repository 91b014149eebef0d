"""A gateway's estimate of the parts of a latency: steps, tokens, pairs, decodes and KV tokens, roughly.

It knows when each request was sent, had its first token and ended, so how many decoded meanwhile and which prompts
were computed in between, but not the steps. So what is fitted to these sums is somewhat off, in a recording and in a
simulation of it alike, which is how `calibrate` removes the bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poise.core.control.prefix_index import PrefixIndex, SentPrefixes
from poise.core.records.records import Run
from poise.workload.table import Workload

Floats = NDArray[np.float64]


def seen(workload: Workload, run: Run, cached: Floats, token_budget: int) -> tuple[Floats, Floats]:
    """The parts of the time to first token (from dispatch on) and of the time after it: [rows, coefficients] each.

    run: the outcome of each row of the workload, all of them finished.  cached: prompt tokens that were not computed.
    """
    records = run.records
    replica = np.asarray(records.replica)
    sent, first, ended = (
        np.asarray(each, dtype=np.float64) for each in (records.dispatched_at, records.first_token_at, records.ended_at)
    )
    prompt, output = workload.prompt.astype(np.float64), workload.output.astype(np.float64)
    tokens = prompt - cached
    pairs = tokens * cached + tokens * (tokens + 1) / 2
    to_first, behind = np.zeros((len(replica), 5)), np.zeros((len(replica), 5))
    for number in np.unique(replica):
        rows = np.flatnonzero(replica == number)
        a, b, c = sent[rows], first[rows], ended[rows]
        crowd = _Crowd(b, c, np.ones(len(rows)))
        kept = _Crowd(b, c, prompt[rows] + output[rows] / 2)
        for column, work in ((1, tokens[rows]), (2, pairs[rows])):
            arrived, done = _Count(a, work), _Count(b, work)
            to_first[rows, column] = np.maximum(arrived.until(a) - done.until(a), work)
            behind[rows, column] = done.until(c) - done.until(b)
        busy = crowd.at(a) > 0
        steps = np.ceil(to_first[rows, 1] / token_budget) + 0.5 * busy
        to_first[rows, 0], behind[rows, 0] = steps, output[rows] - 1
        for sums, begin, end in ((to_first, a, b), (behind, b, c)):
            for column, beside in ((3, crowd), (4, kept)):
                sums[rows, column] = sums[rows, 0] * beside.mean(begin, end)
    return to_first, behind


def guessed_hits(workload: Workload, replica: Sequence[int], room: Sequence[int]) -> Floats:
    """Prompt tokens of each row that its replica may have had in its cache, from what was sent there before.

    workload: in order of dispatch.  replica: of each row.  room: tokens that the cache of each replica holds.
    """
    hits = np.zeros(len(workload))
    prefixes = workload.prefixes
    if prefixes is None:
        return hits
    index = PrefixIndex(len(room))
    caches = SentPrefixes(index, room)
    ids, ends, offsets = prefixes.ids.tolist(), prefixes.ends.tolist(), prefixes.offsets.tolist()
    for row, place in enumerate(replica):
        own = slice(offsets[row], offsets[row + 1])
        hits[row] = min(index.match(ids[own], ends[own])[place], workload.prompt[row] - 1)
        caches.send(place, ids[own], ends[own])
    return hits


class _Count:
    """The total that arrived until an instant, its own included."""

    def __init__(self, at: Floats, amount: Floats) -> None:
        order = np.argsort(at, kind="stable")
        self._at, self._sum = at[order], np.concatenate([[0.0], np.cumsum(amount[order])])

    def until(self, at: Floats) -> Floats:
        """The sum up to each instant."""
        return np.asarray(self._sum[np.searchsorted(self._at, at, side="right")])


class _Crowd:
    """The number present at an instant, given the arrival and the departure of each."""

    def __init__(self, come: Floats, go: Floats, amount: Floats) -> None:
        at, change = np.concatenate([come, go]), np.concatenate([amount, -amount])
        order = np.argsort(at, kind="stable")
        self._at, self._level = at[order], np.cumsum(change[order])
        self._area = np.concatenate([[0.0], np.cumsum(np.diff(self._at) * self._level[:-1])])

    def at(self, at: Floats) -> Floats:
        """The number present at each instant."""
        place = np.searchsorted(self._at, at, side="right") - 1
        return np.where(place >= 0, self._level[place], 0.0)

    def mean(self, begin: Floats, end: Floats) -> Floats:
        """The mean over each span of time."""
        area = np.interp(end, self._at, self._area) - np.interp(begin, self._at, self._area)
        return np.where(end > begin, area / np.maximum(end - begin, 1.0), self.at(begin))
