"""LAPS (arXiv 2601.11589, MLSys 2026): short and long prompts in separate batches, alternating.

A turn of a chat mostly adds few tokens: such a prompt is bound by memory, a long one by arithmetic, and a batch of both
makes the short wait for the long. The boundary is where the two times cross; here it is the longest prompt, a power of
two, twice which takes less than `knee` times as long by the cost model (the paper fits both lines online), or
`short_tokens`. Short prompts are gathered until `depth` of them wait or the first has waited `window_s`, and go at once
where one would else miss its deadline by `margin_s`; long ones go in order, one at a time. Where both are ready they
alternate, so that a short prompt waits for one long prompt at most.

Window and depth follow how many short prompts came in how long (`adapts`), up to `window_s`, of which the paper found 6
to 8 ms the best, and `depth`. Graphs of short batches are a matter of the cost model (the term `prompt_graphs`); pools
of instances for either class are those of the router `laps`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, Batch
from poise.core.estimate import Chunk
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, DECODES, PREEMPTED
from poise.policies.kit.fill_window import FillWindow
from poise.policies.kit.prompts import Prompts, left_of
from poise.policies.kit.waiting_set import WaitingSet

Waiting = tuple[Any, SequenceView]
"""A request that waits and its place in the queue."""

LONGEST = 1 << 14
"""The largest boundary that is tried, in tokens."""


@dataclass(slots=True)
class Laps:
    """Compose batches of one class.

    short_tokens: up to which a prompt is short, 0 to find it by `knee`.  window_s, depth: how long short prompts are
    gathered, at most with `adapts`.  ttft_s, margin_s: a prompt without a deadline is due that long after its arrival;
    none is gathered later than `margin_s` before.
    """

    decodes_alone = True

    short_tokens: int = 0
    knee: float = 1.5
    window_s: float = 0.007
    depth: int = 16
    ttft_s: float = 0.4
    margin_s: float = 0.1
    adapts: bool = True
    _fill: FillWindow = field(init=False, repr=False, compare=False)
    _boundary: int = field(default=0, init=False, repr=False, compare=False)
    _long_next: bool = field(default=False, init=False, repr=False, compare=False)

    _standing: WaitingSet = field(default_factory=WaitingSet, init=False, repr=False, compare=False)
    _places: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _kept: tuple[list[Waiting], list[Waiting]] = field(
        default_factory=lambda: ([], []), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.short_tokens < 0 or not 1 < self.knee <= 2 or self.depth < 1:
            raise ValueError("short_tokens is 0 or more, knee lies in (1, 2], and depth is 1 or more")
        if self.window_s < 0 or self.ttft_s <= 0 or self.margin_s < 0:
            raise ValueError("window_s and margin_s are 0 or more, and ttft_s is above 0")
        self._fill = FillWindow(ps(self.window_s), self.depth)

    def waits(self, sequence: SequenceView, place: Any) -> None:
        """A request begins to wait."""
        if place is not None:
            self._places[sequence.id] = place
            self._standing.waits(sequence)

    def waited(self, sequence: SequenceView) -> None:
        """A request waits no longer."""
        place = self._places.pop(sequence.id, None)
        if place is not None and self._standing.waited(sequence):
            kept = self._kept[sequence.need > self._boundary]
            del kept[bisect_left(kept, (place,))]

    def batch(self, lane: LaneView) -> Batch:
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
        """Short prompts if enough are gathered, a long one, or nothing until the window ends.

        Only a batch passes the turn on: a step that admits no request changes nothing, and can be held. One that
        is short by what the prefix cache has of it turns long as decodes push that out, so then nothing is held.
        """
        short, long = self._classes(lane)
        wake_at = self._wake_at(short) if len(short) < self._fill.depth else 0
        ready = bool(short) and wake_at <= lane.now
        if long and (self._long_next or not ready) and self._admit(lane, prompts, long[:1]):
            self._long_next = False
            return Batch(tuple(prompts.entries))
        if ready and self._admit(lane, prompts, short):
            self._long_next = True
            if self.adapts:
                self._fill.went(len(prompts.entries), lane.now - short[0][1].request.arrived_at)
            return Batch(tuple(prompts.entries))
        hold = ONE_STEP if any(each.need > self._boundary for _, each in short) else UNTIL_CHANGE
        return Batch((), ALL, hold, wake_at=0 if ready or not short else wake_at)

    def _classes(self, lane: LaneView) -> tuple[list[Waiting], list[Waiting]]:
        """Waiting requests with short and with long prompts, both in queue order."""
        boundary, standing = self.boundary(lane), self._standing
        for sequence in standing.arrived(lane):
            insort(self._kept[sequence.need > boundary], (self._places[sequence.id], sequence))
        if standing.reported and not standing.moving:
            return self._kept
        short: list[Waiting] = []
        long: list[Waiting] = []
        for number, sequence in enumerate(lane.queue()):
            (short if left_of(lane, sequence, True) <= boundary else long).append((number, sequence))
        return short, long

    def _wake_at(self, short: list[Waiting]) -> int:
        """The latest time at which the short prompts start."""
        limits = [
            min(
                each.request.arrived_at + self._fill.window,
                (each.request.deadline_at or each.request.arrived_at + ps(self.ttft_s)) - ps(self.margin_s),
            )
            for _, each in short
        ]
        return min(limits, default=0)

    def _admit(self, lane: LaneView, prompts: Prompts, some: list[Waiting]) -> bool:
        for _, sequence in some:
            if not prompts.admit(sequence, min(left_of(lane, sequence, True), prompts.budget)):
                break
        return bool(prompts.entries)
