"""Prompts before decodes: a step computes prompts alone as long as any can be admitted, and decodes wait meanwhile.

Orca (OSDI 2022) and vLLM before chunked prefill batch so, and SGLang still does unless mixed chunks are enabled
(`--enable-mixed-chunk`): `get_next_batch_to_run` takes a prefill batch first. First tokens come sooner, decodes stall;
equal requests that start together stay together to their end. A prompt is admitted when its KV fits together with one
more block for each decode; SGLang reserves a share of the outputs to come instead (`new_token_ratio`), vLLM a
watermark.

A running prompt with one token left is one whose KV came from another replica. SGLang's decode workers compute nothing
for those but the next token of each, with their decodes (`process_prebuilt`, `disaggregation/decode.py`).

`recv_interval` is SGLang's `--scheduler-recv-interval`: the scheduler reads new arrivals once in that many decode
steps, and at once after a step with prompts or with nothing to decode (`scheduler_recv_skipper.py`). A request that was
read but has no room waits for the next read here; SGLang tries it at each step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import ALL, NONE, ONE_STEP, Batch, Entry
from poise.core.view import LaneView
from poise.policies.batch.chunked import BLOCKED, DECODES, PREEMPTED, Chunked

UNREAD = Batch((), hold=ONE_STEP)


@dataclass(slots=True)
class PrefillFirst(Chunked):
    """Compose SGLang's batch; `tokens` and `long_prefill` as in `Chunked`.

    recv_interval: decode steps between two reads of the queue.
    """

    recv_interval: int = 1
    _read_at: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.recv_interval < 1:
            raise ValueError(f"recv_interval {self.recv_interval} is below 1; 1 reads at every step")

    def batch(self, lane: LaneView) -> Batch:
        """Running prompts and waiting requests in order, without decodes; all decodes where none computes a prompt."""
        waiting = lane.waiting if lane.spec.prefill else 0
        if waiting and not self._reads(lane):
            waiting = 0
            if not lane.prefilling:
                return UNREAD
        if not lane.prefilling and not waiting:
            return DECODES
        budget = self.tokens or lane.engine.token_budget
        cap = self.long_prefill or lane.engine.rank_budget or budget
        entries: list[Entry] = []
        budget, blocks = self._go_on(lane, entries, budget, cap)
        running, handed_over = len(entries), all(entry.tokens == 1 for entry in entries)
        if lane.decoding and not lane.room(blocks):
            return PREEMPTED  # decodes continue until one ends, or prompts would evict one another forever
        if waiting and not lane.preempted:
            self._admit(lane, entries, budget, cap, blocks + lane.decoding)  # or a preempted one would return at once
        if entries:
            beside = handed_over and not any(entry.tokens for entry in entries[running:])
            return Batch(tuple(entries), ALL if beside else NONE)
        return PREEMPTED if lane.preempted else BLOCKED

    def _reads(self, lane: LaneView) -> bool:
        """Whether to read the queue now; steps with prompts do not count, so it is read after each of them."""
        if self.recv_interval > 1 and lane.decoding:
            if (lane.decode_steps - self._read_at) % self.recv_interval:
                return False
            self._read_at = lane.decode_steps
        return True
