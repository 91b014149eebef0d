"""A batcher that composes what vLLM never would, so that what it asks is seen to be done."""

from __future__ import annotations

from poise.core.action import Batch, Entry
from poise.core.view import LaneView


class Behind:
    """Only the decodes with the least output, and one prompt at a time by 8 tokens."""

    def batch(self, lane: LaneView) -> Batch:
        least = min((each.produced for each in lane.decodes()), default=0)
        decodes = tuple(each.id for each in lane.decodes() if each.produced == least)
        for each in lane.prefilling:
            return Batch((Entry(each.id, min(8, each.need - each.computed)),), decodes)
        if lane.preempted or lane.running >= lane.engine.max_sequences:
            return Batch((), decodes)
        heads = [Entry(each.id, 8) for each in lane.queue() if lane.room(lane.blocks_for(each, 8))]
        return Batch(tuple(heads[-1:]), decodes)
