"""SGLang's admission of prompts to one step, within budgets of prompt tokens and of KV tokens.

Code: SGLang 0.5.23, `PrefillAdder` in `managers/schedule_policy.py` and `mem_cache/prefill_budget.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum, auto
from typing import Final

from poise.core.action import Entry
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView
from poise.policies.kit.new_tokens import CLIP, limit, most_new

RESERVED: Final = 1
"""IGNORE_EOS_RESERVE_TOKENS: KV tokens of each request that stay free."""


class Verdict(Enum):
    """After a request: try the next one, stop for lack of KV, or stop for another reason."""

    CONTINUE = auto()
    NO_TOKEN = auto()
    OTHER = auto()


class PrefillAdder:
    """One step's prompts.

    free: KV tokens that are free or evictable.  offset: of them, those kept for running requests.
    chunk: prompt tokens of a step at which a prompt is cut, 0 for none.  most: prompt tokens after which no further
    request is tried.  mixed: decodes that take part.  whole: whether requests make all tokens that they may.
    prefills: most requests in the step, 0 for no limit.  cut: whether the last entry is not the end of its prompt.
    pages: KV pages that the entries take.
    """

    __slots__ = (
        "_current", "_held", "_most", "_offset", "_page", "_prefills", "_rest", "_states", "_whole", "chunk",
        "cut", "entries", "free", "lane", "pages",
    )  # fmt: skip

    def __init__(
        self, lane: LaneView, free: int, offset: float, chunk: int, most: int, mixed: int, whole: bool, prefills: int
    ) -> None:
        self.lane = lane
        self.free = free
        self._offset = mixed + offset
        self._current = mixed
        self.chunk = chunk
        self._rest = chunk - mixed
        self._most = most - mixed
        self._whole = whole
        self._prefills = prefills
        self._page = lane.engine.block_tokens
        self._states: list[tuple[float, int]] | None = None
        self.entries: list[Entry] = []
        self.cut = False
        self.pages = 0
        self._held: list[tuple[RequestView, int, int]] = []

    def go_on(self, sequence: SequenceView) -> bool:
        """Add the next chunk of the prompt that is under way; False where KV lacks and decodes may free some.

        SGLang stops with an error there.
        """
        rest = self._rest if self.chunk else sequence.need
        room = int(min(rest, self.free - self._offset))
        left, tokens = sequence.need - sequence.computed, room if room > 0 else rest
        self.cut = left > tokens
        if self.lane.decoding and self.lane.blocks_for(sequence, min(left, tokens)) * self._page > self.free:
            return False
        if tokens > 0:
            self._take(sequence, min(left, tokens), 0 if self.cut else self._new(sequence))
        return True

    def spent(self) -> bool:
        """Whether the step has no prompt tokens left for a further request."""
        return self._has_kv() and self._verdict() is Verdict.OTHER

    def add(self, sequence: SequenceView) -> Verdict:
        """Add a waiting request, if there is room for it."""
        if self._prefills and len(self.entries) >= self._prefills:
            return Verdict.OTHER
        if self._whole and not self.lane.engine.prefix_caching:
            return self._add_whole(sequence)
        found = self.lane.cached(sequence)
        left, idle = sequence.need - found, self._idle(sequence, found)
        if left + max(most_new(sequence, self.lane), 0) + self._page >= self.free - idle - self._offset:
            return Verdict.NO_TOKEN
        if not self.chunk and self.entries and self._paged(left) >= self._most:
            return Verdict.OTHER
        tokens = left
        if self.chunk and self._paged(left) > self._rest:
            tokens = self._rest // self._page * self._page if self.chunk >= self._page else self._rest
            if tokens <= 0:
                return Verdict.OTHER
            self.cut = True
        self.free -= idle
        if idle:
            self._held.append((sequence.request, found - idle, found))
        self._take(sequence, tokens, 0 if tokens < left else self._new(sequence))
        return self._verdict()

    def add_alone(self, sequence: SequenceView) -> None:
        """Add the first chunk of a request that nothing runs beside, if KV on its way elsewhere leaves room for it."""
        left = sequence.need - self.lane.cached(sequence)
        tokens = min(left, self._rest) if self.chunk else left
        if self.lane.room(self.lane.blocks_for(sequence, tokens)):
            self.cut = tokens < left
            self._take(sequence, tokens, 0)

    def _idle(self, sequence: SequenceView, found: int) -> int:
        """Evictable KV tokens of its prefix, without those that a request added before it holds now."""
        idle = self.lane.blocks_for(sequence, 0) * self._page
        if not idle:
            return 0
        return idle - max((self._both(sequence.request, found - idle, found, *held) for held in self._held), default=0)

    def _both(self, mine: RequestView, start: int, end: int, other: RequestView, first: int, last: int) -> int:
        """Tokens from `start` to `end` of one prompt that are those from `first` to `last` of the other."""
        common = 0
        for mine_id, other_id, upto in zip(mine.ids, other.ids, mine.ends, strict=False):
            if mine_id != other_id or upto > end:
                break
            common = upto
        return max(0, min(common, end, last) - max(start, first))

    def _add_whole(self, sequence: SequenceView) -> Verdict:
        """Add a request that makes all its tokens, if at no end of a running one too much is in use."""
        left = sequence.need
        paged = self._paged(left) + self._page
        if paged > min(self.free - self._current, self.free - self._offset) or not self._lasts(sequence, paged):
            return Verdict.NO_TOKEN
        tokens = left
        if self.chunk and left > self._rest:
            if self._rest <= 0:
                return Verdict.OTHER
            tokens, self.cut = self._rest, True
        self._take(sequence, tokens, 0 if tokens < left else self._new(sequence))
        return self._verdict()

    def _lasts(self, sequence: SequenceView, paged: int) -> bool:
        """Whether KV lasts until each of the requests has ended in turn, this one beside them."""
        if self._states is None:
            states = [self._state(sequence), *map(self._state, self.lane.decodes())]
            admitted = {entry.request for entry in self.entries}
            for each in (*self.lane.prefilling, *self.lane.queue()):
                if each.id in admitted:
                    states.append(self._state(each))
            self._states = sorted((each for each in states if each[0] > 0), key=lambda state: state[0])
        elif self._state(sequence)[0] > 0:
            ends = [state[0] for state in self._states]
            place = bisect_left(ends, self._state(sequence)[0])
            self._states.insert(min(place, max(len(ends) - 1, 0)), self._state(sequence))
        room = self.free - self._current - paged
        freed = 0
        for place, (more, occupied) in enumerate(self._states):
            count = len(self._states) - place
            if room + freed - more * count <= RESERVED * count:
                return False
            freed += occupied
        return True

    def _take(self, sequence: SequenceView, tokens: int, new: int) -> None:
        paged = self._paged(tokens)
        self._offset += paged + self._page + new
        self._current += paged + self._page
        self._rest -= paged
        self._most -= paged
        self.pages += self.lane.blocks_for(sequence, tokens)
        self.entries.append(Entry(sequence.id, tokens))

    def _has_kv(self) -> bool:
        return self.free - self._offset > 0 and self.free - self._current > 0

    def _verdict(self) -> Verdict:
        if not self._has_kv():
            return Verdict.NO_TOKEN
        return Verdict.OTHER if self._most <= 0 or (self.chunk and self._rest <= 0) else Verdict.CONTINUE

    def _new(self, sequence: SequenceView) -> int:
        return min(limit(sequence, self.lane), CLIP)

    def _state(self, sequence: SequenceView) -> tuple[float, int]:
        """Tokens that a request makes yet, and those that it frees at its end."""
        return limit(sequence, self.lane) - sequence.produced, sequence.need

    def _paged(self, tokens: int) -> int:
        return -(-tokens // self._page) * self._page
