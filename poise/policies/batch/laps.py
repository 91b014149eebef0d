"""LAPS (arXiv 2601.11589, MLSys 2026): short prompts and long ones in batches of their own, by turns.

A turn of a chat mostly adds few tokens: such a prompt is bound by memory, a long one by arithmetic, and a batch of both
makes the short wait for the long. The boundary is where the two times cross; here it is the longest prompt, a power of
two, twice which takes less than `knee` times as long by the cost model (the paper fits both lines online), or
`short_tokens`. Short prompts are gathered until `depth` of them wait or the first has waited `window_s`, and go at once
where one would else miss its deadline by `margin_s`; long ones go in order, one at a time. Where both are ready the two
take turns, so that a short prompt waits for one long prompt at most.

The paper pads short batches to captured graphs, and adapts window and depth; the first is a matter of the cost model
here, the second is left out: the window is the one that it found best, 6 to 8 ms. Of its pool controller, which
gives instances to either class, there is nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import ALL, NONE, UNTIL_CHANGE, Batch
from poise.core.estimate import Chunk
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, DECODES, PREEMPTED
from poise.policies.prompts import Prompts, left_of

LONGEST = 1 << 14
"""The boundary is looked for up to so many tokens."""


@dataclass(slots=True)
class Laps:
    """Compose batches of one class.

    short_tokens: up to which a prompt is short, 0 to find it by `knee`.  window_s, depth: how long short prompts are
    gathered.  ttft_s, margin_s: a prompt without a deadline is due so long after it came; none is gathered later than
    `margin_s` before.
    """

    decodes_alone = True

    short_tokens: int = 0
    knee: float = 1.5
    window_s: float = 0.007
    depth: int = 16
    ttft_s: float = 0.4
    margin_s: float = 0.1
    _boundary: int = field(default=0, init=False, repr=False, compare=False)
    _long_next: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.short_tokens < 0 or not 1 < self.knee <= 2 or self.depth < 1:
            raise ValueError("short_tokens is 0 or more, knee lies in (1, 2], and depth is 1 or more")
        if self.window_s < 0 or self.ttft_s <= 0 or self.margin_s < 0:
            raise ValueError("window_s and margin_s are 0 or more, and ttft_s is above 0")

    def compose(self, lane: LaneView) -> Batch:
        """Prompts under way first, then the class whose turn it is."""
        waiting = lane.spec.prefill and lane.waiting and not lane.preempted
        if not lane.prefilling and not waiting:
            return PREEMPTED if lane.preempted else DECODES
        prompts = Prompts(lane, lane.engine.token_budget - lane.decoding)
        for sequence in lane.prefilling:
            prompts.go_on(sequence, min(left_of(lane, sequence, False), prompts.budget))
        if prompts.entries:
            return Batch(tuple(prompts.entries))
        if not waiting:
            return PREEMPTED if lane.preempted else BLOCKED
        return self._one_class(lane, prompts)

    def boundary(self, lane: LaneView) -> int:
        """Tokens up to which a prompt is short."""
        if not self._boundary:
            tokens = self.short_tokens or 1
            while not self.short_tokens and tokens < LONGEST:
                once, twice = (lane.predict((Chunk(many, 0),), NONE) for many in (tokens, 2 * tokens))
                if twice >= self.knee * once:
                    break
                tokens *= 2
            self._boundary = tokens
        return self._boundary

    def _one_class(self, lane: LaneView, prompts: Prompts) -> Batch:
        """Short prompts if enough are gathered, a long one, or nothing until the window ends."""
        boundary = self.boundary(lane)
        short: list[SequenceView] = []
        long: list[SequenceView] = []
        for sequence in lane.queue():
            (short if left_of(lane, sequence, True) <= boundary else long).append(sequence)
        wake_at = self._wake_at(short)
        ready = bool(short) and (len(short) >= self.depth or wake_at <= lane.now)
        if long and (self._long_next or not ready):
            self._long_next = False
            if self._admit(lane, prompts, long[:1]):
                return Batch(tuple(prompts.entries))
        if ready:
            self._long_next = True
            if self._admit(lane, prompts, short):
                return Batch(tuple(prompts.entries))
        return Batch((), ALL, UNTIL_CHANGE, wake_at=0 if ready or not short else wake_at)

    def _wake_at(self, short: list[SequenceView]) -> int:
        """When the short prompts go at the latest."""
        limits = [
            min(
                each.request.arrived_at + ps(self.window_s),
                (each.request.deadline_at or each.request.arrived_at + ps(self.ttft_s)) - ps(self.margin_s),
            )
            for each in short
        ]
        return min(limits, default=0)

    def _admit(self, lane: LaneView, prompts: Prompts, some: list[SequenceView]) -> bool:
        for sequence in some:
            if not prompts.admit(sequence, min(left_of(lane, sequence, True), prompts.budget)):
                break
        return bool(prompts.entries)
