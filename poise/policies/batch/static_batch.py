"""Static batching: `size` requests start together, and none joins before the last of them has ended.

FasterTransformer and servers built on it batch this way; it is the baseline of iteration-level batching (Orca, OSDI
2022) and of Flover (arXiv 2305.13484), which merge new requests at each token. The prompts of a batch are computed
first, without decodes. Here each request is answered at its own last token; a server that answers all when the batch
ends is later still.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import ALL, NONE, UNTIL_CHANGE, Batch
from poise.core.view import LaneView
from poise.policies.batch.chunked import PREEMPTED
from poise.policies.kit.prompts import Prompts, left_of

RUNNING = Batch((), ALL, UNTIL_CHANGE)


@dataclass(slots=True)
class StaticBatch:
    """Compose whole batches of the requests waiting at their start. size: most requests of one."""

    size: int = 32
    _left: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size {self.size} is no batch; give 1 or more")

    def batch(self, lane: LaneView) -> Batch:
        """The prompts of the batch under way, its decodes, or a new batch."""
        decoding = lane.decoding
        prompts = Prompts(lane, lane.engine.token_budget - decoding)
        for sequence in lane.prefilling:
            prompts.go_on(sequence, min(left_of(lane, sequence, False), prompts.budget))
        starting = not decoding and not lane.prefilling and lane.running == 0
        if starting:
            self._left = self.size
        if lane.spec.prefill and not lane.preempted and (starting or (self._left and lane.prefilling)):
            self._admit(lane, prompts)
        if prompts.entries:
            computes = any(entry.tokens for entry in prompts.entries)
            return Batch(tuple(prompts.entries), NONE if computes else ALL)
        self._left = 0
        return PREEMPTED if lane.preempted else RUNNING

    def _admit(self, lane: LaneView, prompts: Prompts) -> None:
        """Waiting requests in order, as many as the batch has left."""
        for sequence in lane.queue():
            if not self._left or not prompts.admit(sequence, min(left_of(lane, sequence, True), prompts.budget)):
                return
            self._left -= 1
