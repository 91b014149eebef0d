"""Nexus (arXiv 2507.06608): prompts and decodes on two lanes of one device, whose SM shares follow predicted times.

Each lane composes as `chunked` does. When prompts are about to be computed, the cost model says how long their chunk
and the decodes' step take under a share; without delay and without a fit. While more than `kv_low` of the KV
blocks are free, prompts come first: they get the largest share with which decodes take at most `decode_slowdown`
times as long as on the whole device. With less, decodes come first: prompts get the smallest share with which they take
at most `prompt_slowdown` times as long. Shares are searched from the present one in steps, and change only where they
would by `buffer` or more. Its prompts go shortest first: set `policies.queue: shortest_prompt`.

The bounds, the threshold and the step are ours; the paper's notes name no figures. Decodes are counted with their
prompts' tokens, without their output so far. A step beside which the other lane has nothing to compute gets all SMs.
Predicted is each lane alone with its share: the contention for memory, which the paper predicts too, is met only as the
step runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import NONE, ONE_STEP, Batch
from poise.core.estimate import Chunk
from poise.core.view import LaneView
from poise.policies.batch.chunked import Chunked


@dataclass(slots=True)
class Nexus(Chunked):
    """Compose on two lanes and set their shares; `tokens` and `long_prefill` as in `Chunked`.

    share: of prompts at the start.  decode_slowdown, prompt_slowdown: bounds.  kv_low: part of the blocks.
    step, buffer, least: of shares.
    """

    decodes_alone: ClassVar[bool] = False
    lanes: ClassVar[bool] = True

    share: float = 0.5
    decode_slowdown: float = 1.5
    prompt_slowdown: float = 1.5
    kv_low: float = 0.2
    step: float = 0.05
    buffer: float = 0.1
    least: float = 0.1
    _decodes: tuple[int, int] = field(default=(0, 0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.decode_slowdown < 1 or self.prompt_slowdown < 1 or not 0 <= self.kv_low <= 1:
            raise ValueError("decode_slowdown and prompt_slowdown are 1 or more, and kv_low lies in [0, 1]")
        if not 0 < self.least <= 0.5 or not self.least <= self.share <= 1 - self.least or self.step <= 0:
            raise ValueError("least lies in (0, 0.5], share in [least, 1 - least], and step is above 0")

    def batch(self, lane: LaneView) -> Batch:
        """As `Chunked`, on the predicted best share."""
        batch = Chunked.batch(self, lane)
        if lane.spec.prefill and lane.spec.decode:
            return batch
        if lane.spec.decode:
            self._decodes = lane.decoding, lane.decoding_prompts
            prompts = lane.waiting or lane.running > lane.decoding
            share = round(1 - self.share, 6) if prompts else 1.0
            return Batch(batch.entries, batch.decode, ONE_STEP if prompts else batch.hold, share)
        chunks = self._chunks(lane, batch)
        if chunks:
            if lane.running <= len(lane.prefilling):
                return Batch(batch.entries, batch.decode, batch.hold, 1.0)
            share = self._search(lane, chunks)
            if abs(share - self.share) >= self.buffer - 1e-9:
                self.share = share
        return Batch(batch.entries, batch.decode, batch.hold, self.share)

    def _chunks(self, lane: LaneView, batch: Batch) -> tuple[Chunk, ...]:
        """The batch's work as arguments of the cost model."""
        done = {sequence.id: sequence.computed for sequence in lane.prefilling}
        return tuple([Chunk(entry.tokens, done.get(entry.request, 0)) for entry in batch.entries if entry.tokens])

    def _search(self, lane: LaneView, chunks: tuple[Chunk, ...]) -> float:
        """The share of prompts."""
        decodes, context = self._decodes
        if lane.free_blocks > self.kv_low * lane.total_blocks:
            most = self.decode_slowdown * lane.predict((), decodes, context, 1.0)
            return self._extreme(self.step, lambda share: lane.predict((), decodes, context, 1 - share) <= most)
        most = self.prompt_slowdown * lane.predict(chunks, NONE, share=1.0)
        return self._extreme(-self.step, lambda share: lane.predict(chunks, NONE, share=share) <= most)

    def _extreme(self, step: float, keeps: Callable[[float], bool]) -> float:
        """The last share in the direction of `step` that keeps its bound, from the present one; else the nearest."""
        share, forward = self.share, keeps(self.share)
        while True:
            following = round(share + (step if forward else -step), 6)
            if not self.least <= following <= 1 - self.least:
                return share
            if keeps(following) != forward:
                return share if forward else following
            share = following
