"""Prompts before decodes: a step computes prompts alone as long as any can be admitted, and decodes wait meanwhile.

Orca (OSDI 2022) and vLLM before chunked prefill batch so, and SGLang still does where mixed chunks are not asked for
(`--enable-mixed-chunk`): `get_next_batch_to_run` takes a prefill batch first. First tokens come sooner, decodes stall;
equal requests that start together stay together to their end. A prompt is admitted when its KV fits beside one more
block for each decode; SGLang reserves a share of the outputs to come instead (`new_token_ratio`), vLLM a watermark.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.action import NONE, Batch, Entry
from poise.core.view import LaneView
from poise.policies.batch.chunked import BLOCKED, DECODES, PREEMPTED, Chunked


@dataclass(slots=True)
class PrefillFirst(Chunked):
    """Compose SGLang's batch; `tokens` and `long_prefill` as in `Chunked`."""

    def compose(self, lane: LaneView) -> Batch:
        """Running prompts and waiting requests in order, without decodes; all decodes where there is neither."""
        waiting = lane.waiting if lane.spec.prefill else 0
        if not lane.prefilling and not waiting:
            return DECODES
        budget = self.tokens or lane.engine.token_budget
        cap = self.long_prefill or budget
        entries: list[Entry] = []
        budget, blocks = self._go_on(lane, entries, budget, cap)
        if lane.decoding and not lane.room(blocks):
            return PREEMPTED  # decodes go on until one ends, or prompts would evict one another for ever
        if waiting and not lane.preempted:
            self._admit(lane, entries, budget, cap, blocks + lane.decoding)  # or a preempted one comes back at once
        if any(entry.tokens for entry in entries):
            return Batch(tuple(entries), NONE)
        if entries:
            return Batch(tuple(entries))
        return PREEMPTED if lane.preempted else BLOCKED
