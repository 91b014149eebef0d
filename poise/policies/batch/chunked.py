"""Chunked prefill as vLLM v1 does it: decodes first, then prompts under one token budget.

Sarathi-Serve (arXiv 2403.02310) introduced the stall-free batch; vLLM v1's scheduler made it the default: every decode
takes one token of the budget, running prompts continue, and waiting requests are admitted in order while budget,
sequences and KV blocks last. The first that does not fit stops the scan. A step that had to preempt admits no request.

`long_prefill` caps the tokens of one prompt per step (vLLM's `long_prefill_token_threshold`, 0: no cap but the budget
of its data rank).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from poise.core.action import ALL, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.view import LaneView, SequenceView

DECODES = Batch((), ALL, UNTIL_CHANGE)
BLOCKED = Batch((), ALL, UNTIL_HEAD)
PREEMPTED = Batch((), ALL, ONE_STEP)


@dataclass(slots=True)
class Chunked:
    """Compose vLLM v1's batch.

    tokens: the budget of a step, 0 for the engine's own.  long_prefill: most prompt tokens of one request in a step,
    0 for no cap.
    """

    decodes_alone: ClassVar[bool] = True
    budgeted: ClassVar[bool] = True

    tokens: int = 0
    long_prefill: int = 0

    def batch(self, lane: LaneView) -> Batch:
        """All decodes, running prompts, then waiting requests in order."""
        prefilling = lane.prefilling
        waiting = lane.waiting if lane.spec.prefill else 0
        if not prefilling and not waiting:
            return DECODES
        budget = (self.tokens or lane.engine.token_budget) - lane.decoding
        cap = self.long_prefill or lane.engine.rank_budget or budget
        entries: list[Entry] = []
        blocks = 0
        if prefilling:
            budget, blocks = self._go_on(lane, entries, budget, cap)
        if waiting and not lane.preempted:
            self._admit(lane, entries, budget, cap, blocks)
        if entries:
            return Batch(tuple(entries))
        return PREEMPTED if lane.preempted else BLOCKED

    def _ready(self, lane: LaneView) -> Iterator[SequenceView]:
        """The waiting requests that may be admitted now, in order."""
        return lane.queue()

    def _go_on(self, lane: LaneView, entries: list[Entry], budget: int, cap: int) -> tuple[int, int]:
        """Add the next chunks of running prompts; the budget that is left, and the blocks that they take."""
        blocks = 0
        for sequence in lane.prefilling:
            tokens = min(sequence.need - sequence.computed, budget, cap)
            if tokens > 0:
                entries.append(Entry(sequence.id, tokens))
                budget -= tokens
                blocks += lane.blocks_for(sequence, tokens)
        return budget, blocks

    def _admit(self, lane: LaneView, entries: list[Entry], budget: int, cap: int, blocks: int) -> None:
        """Add waiting requests in order until one does not fit; `blocks` are taken already."""
        engine = lane.engine
        running = lane.running
        for sequence in self._ready(lane):
            if budget <= 0 or running >= engine.max_sequences:
                return
            left = sequence.need - lane.cached(sequence)
            tokens = left if left <= budget else budget
            if tokens > cap:
                tokens = cap
            if sequence.swapped or sequence.source >= 0:
                tokens = 0  # its KV comes from elsewhere
            taken = lane.blocks_for(sequence, tokens)
            wanted = lane.blocks_for(sequence, left) if engine.reserve_prompt and left > tokens else taken
            if not lane.room(blocks + wanted):
                return
            blocks += taken
            entries.append(Entry(sequence.id, tokens))
            budget -= tokens
            running += 1
