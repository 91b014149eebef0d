"""Medha (arXiv 2409.17264, first as Mnemosyne): chunks as large as a token's time allows, by relative slack.

A step takes every decode and then prompts, each the largest chunk with which the predicted step stays within `tbt_s`:
large while little KV is there, small late in a long prompt. The order is by length-aware relative slack:
(deadline − now − time left) / time of the whole prompt, the least first, so that a long prompt is neither starved by
short ones nor, once it is late, run to its end before them. `rank` takes the paper's baselines too: `edf` (deadline),
`lrs` (slack as it is), `fcfs`.

At most one prompt of `long_tokens` or more is in a batch; while shorter ones are there it leaves them the part of the
step that its relative slack allows, at most `most_yield` of it (the cap is ours; the paper names none).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from poise.core.action import Batch
from poise.core.estimate import Chunk
from poise.core.fast_tuple import made
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import DECODES, PREEMPTED
from poise.policies.kit.kinetic_heap import KineticHeap
from poise.policies.kit.prefill_time import PrefillTime
from poise.policies.kit.prompts import Prompts, left_of
from poise.policies.kit.waiting_set import WaitingSet

RANKS = ("lars", "lrs", "edf", "fcfs")


class Ranked(NamedTuple):
    """A prompt and its place: whether it waits, and the tokens left."""

    place: float
    id: int
    sequence: SequenceView
    waits: bool
    left: int


@dataclass(slots=True)
class Medha:
    """Compose adaptive chunks.

    tbt_s: seconds that a step may take.  ttft_s, stretch: a request without a deadline is due `ttft_s` after it came,
    or `stretch` times its predicted time, whichever is later.  long_tokens: the least tokens of a long prompt (0:
    none).
    least: tokens of a chunk where none keeps `tbt_s`.  sigma, constant_s: of the predictions.
    """

    decodes_alone = True

    tbt_s: float = 0.02
    ttft_s: float = 1.0
    stretch: float = 0.0
    rank: Literal["lars", "lrs", "edf", "fcfs"] = "lars"
    long_tokens: int = 8192
    most_yield: float = 0.5
    least: int = 32
    sigma: float = 0.0
    constant_s: float = 0.0
    _foresight: PrefillTime = field(init=False, repr=False, compare=False)
    _standing: WaitingSet = field(default_factory=WaitingSet, init=False, repr=False, compare=False)
    _falling: KineticHeap = field(default_factory=KineticHeap, init=False, repr=False, compare=False)
    _grace: int = field(default=0, init=False, repr=False, compare=False)
    _short: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tbt_s <= 0 or self.ttft_s <= 0 or self.stretch < 0 or self.least < 1 or self.long_tokens < 0:
            raise ValueError("tbt_s and ttft_s are above 0, least is 1 or more, stretch and long_tokens are 0 or more")
        if not 0 <= self.most_yield < 1 or self.rank not in RANKS:
            raise ValueError(f"most_yield lies in [0, 1), and rank is one of {', '.join(RANKS)}")
        self._foresight = PrefillTime(self.sigma, self.constant_s)
        self._grace = ps(self.ttft_s)

    def waits(self, sequence: SequenceView, place: Any) -> None:
        """A request begins to wait."""
        self._standing.waits(sequence)
        self._short += not self._long(sequence)

    def waited(self, sequence: SequenceView) -> None:
        """A request waits no longer."""
        if self._standing.waited(sequence):
            self._falling.remove(sequence.id)
        self._short -= not self._long(sequence)

    def batch(self, lane: LaneView) -> Batch:
        """All decodes, then prompts by rank until the step is full."""
        waiting = bool(lane.spec.prefill and lane.waiting and not lane.preempted)
        if not lane.prefilling and not waiting:
            return PREEMPTED if lane.preempted else DECODES
        prompts = Prompts(lane, lane.engine.token_budget - lane.decoding)
        target, base = ps(self.tbt_s), lane.predict(())
        chunks: list[Chunk] = []
        time, one_long = base, False
        for each in self._ranked(lane, prompts, waiting):
            limit, long = target, self._long(each.sequence)
            if long:
                if one_long:
                    continue
                limit -= round((target - base) * self._yielded(lane, each, waiting))
            tokens, longer = self._fitting(lane, chunks, time, each, min(each.left, prompts.budget), limit)
            if not tokens and chunks and not long:
                break  # the step is full
            if not tokens and not chunks:
                tokens = min(each.left, self.least, prompts.budget)
                longer = lane.predict((Chunk(tokens, each.sequence.need - each.left),))
            if not prompts.take(each.sequence, each.waits, tokens):
                continue
            if prompts.entries[-1].tokens:
                chunks.append(Chunk(tokens, each.sequence.need - each.left))
                time, one_long = longer, one_long or long
            if tokens < each.left and not long:
                break  # the step is full
        if not prompts.entries:
            # until an arrival, which may fit; parts of prompts may also fit once decodes take longer
            whole = lane.engine.reserve_prompt and not lane.prefilling
            return DECODES if whole and not lane.preempted else PREEMPTED
        return Batch(tuple(prompts.entries))

    def _ranked(self, lane: LaneView, prompts: Prompts, waiting: bool) -> Iterable[Ranked]:
        """Prompts in order, those that wait as long as any of them can be admitted."""
        running = sorted([self._place(lane, sequence, False) for sequence in lane.prefilling])
        if not waiting:
            return running
        standing = self._standing
        for sequence in standing.arrived(lane):
            self._falling.add(sequence.id, *self._line(lane, sequence, sequence.need))
        fixed = map(self._standing_at, self._falling.order(lane.now))
        return standing.in_order(lane, running, fixed, self._place, prompts.full)

    def _standing_at(self, found: tuple[float, int]) -> Ranked:
        place, id = found
        sequence = self._standing.fixed[id]
        return made(Ranked, (place, id, sequence, True, sequence.need))

    def _place(self, lane: LaneView, sequence: SequenceView, waits: bool) -> Ranked:
        left = left_of(lane, sequence, waits)
        at, pace = self._line(lane, sequence, left)
        return made(Ranked, ((at - lane.now) / pace, sequence.id, sequence, waits, left))

    def _line(self, lane: LaneView, sequence: SequenceView, left: int) -> tuple[int, int]:
        """The time at which its slack is 0, and the picoseconds in which it falls by one."""
        if self.rank == "fcfs":
            return sequence.request.arrived_at, 1
        at, whole = self._latest(lane, sequence, left)
        if self.rank == "edf":
            return at + self._foresight.left(lane, sequence, left), 1
        return at, whole if self.rank == "lars" else 1

    def _latest(self, lane: LaneView, sequence: SequenceView, left: int) -> tuple[int, int]:
        """The latest start of the remaining work for its deadline, and the time of the whole prompt, at least 1."""
        request = sequence.request
        whole = self._foresight.whole(lane, sequence)
        due = request.deadline_at or request.arrived_at + max(self._grace, round(self.stretch * whole))
        return due - self._foresight.left(lane, sequence, left), whole or 1

    def _long(self, sequence: SequenceView) -> bool:
        return 0 < self.long_tokens <= sequence.request.prompt_tokens

    def _yielded(self, lane: LaneView, each: Ranked, waiting: bool) -> float:
        """The part of a step that a long prompt leaves to shorter ones, where there are any."""
        looked = self._standing.looked_at(lane) if waiting else ()
        if not (waiting and self._short) and all(map(self._long, (*lane.prefilling, *looked))):
            return 0.0
        at, whole = self._latest(lane, each.sequence, each.left)
        return min(max((at - lane.now) / whole, 0.0), self.most_yield)

    def _fitting(
        self, lane: LaneView, chunks: list[Chunk], under: int, each: Ranked, most: int, limit: int
    ) -> tuple[int, int]:
        """The largest chunk of at most `most` tokens with which the step stays within `limit`, and the step's time.

        0 tokens for none. Searched between two bounds by their times, which are nearly on a line, to `least` tokens;
        `under` is the time of the step without it.
        """
        done, least = each.sequence.need - each.left, self.least
        if most < 1 or under >= limit:
            return 0, under
        low, high, over = 0, most, lane.predict((*chunks, made(Chunk, (most, done, 0, 0))))
        if over <= limit:
            return most, over
        while high - low > least and under < limit:
            guess = low + (high - low) * (limit - under) // (over - under)
            guess = min(max(guess, low + least // 2 + 1), high - least // 2 - 1)
            time = lane.predict((*chunks, made(Chunk, (guess, done, 0, 0))))
            if time <= limit:
                low, under = guess, time
            else:
                high, over = guess, time
        return low, under
