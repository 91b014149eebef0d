"""Block ids of prompts as a few extents: neighbouring blocks that no prompt tells apart are one.

A prompt of 100,000 tokens has 1,600 ids of 64 tokens. Two prompts can differ only where one of them ends or where they
part, so the blocks between two such places are one extent, and the prompts of a conversation of n turns have n or so
each. No hit, eviction or admission depends on it (`core/engine/extents.py` counts blocks within extents).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poise.workload.readers.weka import SUBAGENT, Conversation

Ids = NDArray[np.int64]

_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""The constants of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""


@dataclass(frozen=True, slots=True)
class Extents:
    """The identity of one prompt: an id for each extent, which names the whole prefix up to its end in tokens."""

    ids: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(slots=True)
class Chains:
    """The block ids of conversations, compressed conversation by conversation where they are local to each."""

    _done: list[list[Extents]] = field(default_factory=list)
    _shared: dict[int, list[Ids]] = field(default_factory=dict)
    _block: list[int] = field(default_factory=list)
    _next: int = 0

    def add(self, conversation: Conversation) -> None:
        """Take the ids of a conversation's requests, in the order of `entries`, and forget them there.

        Whole blocks alone: what is behind the last of them is a prompt's own.
        """
        block, taken = conversation.block_size, []
        for entry in conversation.entries:
            if entry.type != SUBAGENT:
                taken.append(_column(entry.hash_ids[: entry.prompt // block]))
            entry.hash_ids = []
        self._block.append(block)
        if conversation.hash_id_scope == "global":
            self._shared[len(self._done)] = taken
            self._done.append([])
        else:
            self._done.append(self._numbered(taken, [block] * len(taken)))

    def extents(self) -> Iterator[list[Extents]]:
        """The extents of each conversation's requests, in the order in which they were added."""
        if self._shared:
            flat = [each for taken in self._shared.values() for each in taken]
            blocks = [self._block[number] for number, taken in self._shared.items() for _ in taken]
            found = iter(self._numbered(flat, blocks))
            for number, taken in self._shared.items():
                self._done[number] = [next(found) for _ in taken]
        yield from self._done

    def _numbered(self, taken: Sequence[Ids], block_tokens: Sequence[int]) -> list[Extents]:
        """Extents with ids that no other conversation has."""
        made = compressed(taken, block_tokens, self._next)
        self._next = max([self._next, *(1 + int(each.ids.max()) for each in made if len(each.ids))])
        return made


def _column(ids: Sequence[int]) -> Ids:
    try:
        return np.array(ids, dtype=np.int64)
    except OverflowError:  # hashes of 64 bits
        return np.array([each & (1 << 64) - 1 for each in ids], dtype=np.uint64).view(np.int64)


def compressed(lists: Sequence[Ids], block_tokens: Sequence[int], first: int = 0) -> list[Extents]:
    """The block ids of some prompts as extents, whose ids count from `first`."""
    sizes = np.array([len(each) for each in lists], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    flat = np.concatenate([*lists, np.zeros(0, np.int64)])
    number, names = _prefixes(flat, offsets)
    following = np.full(len(flat), -1, dtype=np.int64)
    following[:-1] = number[1:]
    following[offsets[1:][sizes > 0] - 1] = -1
    usual = np.full(names, -1, dtype=np.int64)
    usual[number] = following
    apart = np.zeros(names, dtype=bool)
    apart[number[(following != usual[number]) | (following < 0)]] = True
    kept = np.flatnonzero(apart[number])
    bounds = np.searchsorted(kept, offsets)
    place = np.cumsum(apart) - 1
    made = []
    for row, block in enumerate(block_tokens):
        mine = kept[bounds[row] : bounds[row + 1]]
        made.append(Extents(first + place[number[mine]], (mine - offsets[row] + 1) * block))
    return made


def chained(tokens: Ids, block_tokens: int) -> Ids:
    """An id for each full block of a prompt's tokens, which names the whole prefix up to its end."""
    whole = len(tokens) // block_tokens * block_tokens
    steps = _mixed(tokens[:whole].view(np.uint64) ^ _mixed(np.arange(whole, dtype=np.uint64)))
    total = np.cumsum(steps, dtype=np.uint64)[block_tokens - 1 :: block_tokens]
    return (total >> np.uint64(1)).astype(np.int64)


def _prefixes(flat: Ids, offsets: Ids) -> tuple[Ids, int]:
    """A number below the second result for each block, equal for two blocks where the prompts up to them are."""
    begins = np.zeros(len(flat), dtype=bool)
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    if len(flat) and int(flat.min()) >= 0 and int(flat.max()) < 8 * len(flat) + 1024:
        before = np.where(begins, -1, np.concatenate([[-1], flat[:-1]]))
        known = np.full(int(flat.max()) + 1, -2, dtype=np.int64)
        known[flat] = before
        if (known[flat] == before).all():  # each id stands behind one other alone, so it names its whole prefix
            return flat, len(known)
    steps = _mixed(flat.view(np.uint64) ^ _mixed((np.arange(len(flat)) - _starts(offsets)).view(np.uint64)))
    total = np.cumsum(steps, dtype=np.uint64)
    earlier = np.concatenate([np.zeros(1, np.uint64), total])[_starts(offsets)]
    names, number = np.unique(total - earlier, return_inverse=True)
    return number.astype(np.int64), len(names)


def _starts(offsets: Ids) -> Ids:
    """For each block where its prompt begins."""
    return np.repeat(offsets[:-1], np.diff(offsets))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function, on whole columns: sums of it are equal for equal prefixes, and else by a chance of
    1 in 2^64.
    """
    first, second, third = (np.uint64(each) for each in _MIX)
    values = values + first
    values = (values ^ values >> np.uint64(30)) * second
    values = (values ^ values >> np.uint64(27)) * third
    return values ^ values >> np.uint64(31)
