"""Sarathi-Serve (OSDI 2024, arXiv 2403.02310): stall-free batches under the largest budget that keeps a token's time.

Batches are those of `chunked`: every decode, then prompts under way, then waiting ones, within a token budget. The
budget is found once, as the paper profiles it (section 4.3): the largest multiple of `tile` with which a step with
`decodes` decodes of `context` tokens each stays within `tbt_s`. A limit that even one tile breaks leaves one tile.

`mixed` False leaves decodes out of steps with prompts, and `chunks` False leaves prompts whole: the paper's ablations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import ALL, NONE, Batch
from poise.core.estimate import Chunk
from poise.core.units import ps
from poise.core.view import LaneView
from poise.policies.batch.chunked import Chunked


@dataclass(slots=True)
class Sarathi(Chunked):
    """Compose stall-free batches; `tokens` sets the budget itself, `long_prefill` as in `Chunked`.

    tbt_s: seconds that a step may take.  decodes, context: of the step that is profiled.  tile: tokens.
    mixed: whether prompts share steps with decodes; else they alternate.
    """

    decodes_alone: ClassVar[bool] = True

    tbt_s: float = 0.1
    decodes: int = 32
    context: int = 4096
    tile: int = 128
    mixed: bool = True
    _found: int = field(default=0, init=False, repr=False, compare=False)
    _prompted: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tbt_s <= 0 or self.decodes < 0 or self.context < 1 or self.tile < 1:
            raise ValueError("tbt_s is above 0, context and tile are 1 or more, and decodes is 0 or more")

    def batch(self, lane: LaneView) -> Batch:
        """As `Chunked`, within the budget found."""
        if not self.tokens and not self._found:
            self._found = self.profiled(lane)
            self.tokens = self._found
        if not self.mixed and lane.decoding and self._prompted:
            self._prompted = False
            return Batch((), ALL)
        batch = Chunked.batch(self, lane)
        if self.mixed or not batch.entries or not lane.decoding:
            return batch
        self._prompted = True
        computes = any(entry.tokens for entry in batch.entries)
        return batch._replace(decode=NONE if computes else ALL)

    def profiled(self, lane: LaneView) -> int:
        """The largest multiple of `tile` whose step stays within `tbt_s`, not above the engine's own budget."""
        limit, most = ps(self.tbt_s), lane.engine.token_budget
        low, high = 1, max(1, most // self.tile)
        while low < high:
            middle = (low + high + 1) // 2
            chunk = Chunk(max(1, middle * self.tile - self.decodes), 0)
            if lane.predict((chunk,), self.decodes, self.decodes * self.context) <= limit:
                low = middle
            else:
                high = middle - 1
        return min(low * self.tile, most)
