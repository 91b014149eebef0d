"""Prompts gathered for one step: what they take of tokens, sequences and KV blocks."""

from __future__ import annotations

from poise.core.action import Entry
from poise.core.fast_tuple import made
from poise.core.view import LaneView, SequenceView


def left_of(lane: LaneView, sequence: SequenceView, waiting: bool) -> int:
    """Prompt tokens that are still to be computed."""
    return sequence.need - (lane.cached(sequence) if waiting else sequence.computed)


class Prompts:
    """The entries of a step to be.

    budget: tokens left.  entries: so far, those of running prompts and of admitted ones.
    """

    __slots__ = ("_blocks", "_lane", "_refused", "_running", "budget", "entries")

    def __init__(self, lane: LaneView, budget: int) -> None:
        self._lane = lane
        self._running = lane.running
        self._blocks = 0
        self._refused = False
        self.budget = budget
        self.entries: list[Entry] = []

    @property
    def tokens(self) -> int:
        """Prompt tokens so far."""
        return sum([entry.tokens for entry in self.entries])

    @property
    def passing(self) -> bool:
        """Whether the step continues between two layers, so that no waiting request can join it."""
        return bool(self.entries) and self.entries[-1].first_layer > 0

    def go_on(self, sequence: SequenceView, tokens: int) -> bool:
        """Add a chunk of a running prompt, or the rest of one interrupted between layers (`tokens` is its chunk).

        False where it would take the blocks of one admitted before it: without those, the engine preempts for it. That
        is mostly the one admitted last, so the last one waits for room as long as others run: preempting itself
        and being admitted first again would make no progress.
        """
        if tokens < 1:
            return False
        lane = self._lane
        blocks = 0 if sequence.layer else lane.blocks_for(sequence, tokens)
        waits = self._running > lane.running or (lane.running > 1 and sequence.id == lane.prefilling[-1].id)
        if waits and not lane.room(self._blocks + blocks):
            return False
        self._blocks += blocks
        self.entries.append(made(Entry, (sequence.id, tokens, sequence.layer, 0)))
        self.budget -= tokens
        return True

    def full(self, blocks: int) -> bool:
        """Whether a waiting request was refused, and so will all others, which take at least `blocks` KV blocks."""
        if not self._refused:
            return False
        lane = self._lane
        return self.budget < 1 or self._running >= lane.engine.max_sequences or not lane.room(self._blocks + blocks)

    def take(self, sequence: SequenceView, waits: bool, tokens: int) -> bool:
        """Add a chunk of a prompt that waits or runs, if there is room for it."""
        return self.admit(sequence, tokens) if waits else self.go_on(sequence, tokens)

    def admit(self, sequence: SequenceView, tokens: int) -> bool:
        """Add a chunk of a waiting prompt; False where the step has no room for it.

        Its whole prompt must fit where the engine reserves (`reserve_prompt`). One whose KV comes from elsewhere is
        admitted with no tokens.
        """
        lane, engine = self._lane, self._lane.engine
        left = left_of(lane, sequence, True)
        if sequence.swapped or sequence.source >= 0:
            tokens = 0
        elif tokens < 1:
            return False
        self._refused = True
        if self._running >= engine.max_sequences or self.budget < 1:
            return False
        taken = lane.blocks_for(sequence, tokens)
        wanted = lane.blocks_for(sequence, left) if engine.reserve_prompt and left > tokens else taken
        if not lane.room(self._blocks + wanted):
            return False
        self._refused = False
        self._blocks += taken
        self._running += 1
        self.entries.append(made(Entry, (sequence.id, tokens, 0, 0)))
        self.budget -= tokens
        return True
