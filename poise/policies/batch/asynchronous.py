"""Chunked prefill that is composed one step ahead: while a step runs, the next one is already chosen.

vLLM schedules so by default from v0.14 on (`--async-scheduling`, `EngineCore.step_with_batch_queue` with two batches
under way): the host's work is hidden, but a request that arrives while a step runs misses the one after it too. It
waits for the rest of the current step and the whole next one. An engine without work takes it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from poise.core.action import Batch
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, PREEMPTED, Chunked


@dataclass(slots=True)
class Asynchronous(Chunked):
    """Compose vLLM's batch under asynchronous scheduling; `tokens` and `long_prefill` as in `Chunked`."""

    _noted: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _blocked: set[int] = field(default_factory=set, init=False, repr=False, compare=False)

    def batch(self, lane: LaneView) -> Batch:
        """What `Chunked` composes of those requests that waited when the last batch was composed."""
        if not lane.waiting or not (lane.decoding or lane.prefilling):
            return Chunked.batch(self, lane)
        first = next(iter(lane.queue()), None)
        if first is None:  # all wait for a slot of their adapter
            return Chunked.batch(self, lane)
        head = first.id
        known = head in self._noted or head in self._blocked
        batch = Chunked.batch(self, lane)
        for entry in batch.entries:
            self._noted.discard(entry.request)
            self._blocked.discard(entry.request)
        if batch is not BLOCKED:
            return batch
        if known:
            self._blocked.add(head)
        return BLOCKED if known else PREEMPTED

    def _ready(self, lane: LaneView) -> Iterator[SequenceView]:
        """Waiting requests in order up to the first new one; it and those behind it are kept for the next batch.

        Behind a request without room none is new: the batch was held, and all have waited for longer than a step.
        """
        queue = iter(lane.queue())
        new = lane.decoding or lane.prefilling
        for place, sequence in enumerate(queue):
            if place == 0 and sequence.id in self._blocked:
                new = 0
            if new and sequence.id not in self._noted:
                self._noted.add(sequence.id)
                self._noted.update(each.id for each in islice(queue, lane.engine.max_sequences))
                return
            yield sequence
