"""Medha (arXiv 2409.17264, first as Mnemosyne): chunks as large as a token's time allows, by relative slack.

A step takes every decode and then prompts, each the largest chunk with which the predicted step stays within `tbt_s`:
large while little KV is there, small late in a long prompt. Who goes first is told by length-aware relative slack:
(deadline − now − time left) / time of the whole prompt, the least first, so that a long prompt is neither starved by
short ones nor, once it is late, run to its end before them. `rank` takes the paper's baselines too: `edf` (deadline),
`lrs` (slack as it is), `fcfs`.

At most one prompt of `long_tokens` or more is in a batch; while shorter ones are there it leaves them the part of the
step that its relative slack allows, at most `most_yield` of it (the cap is ours; the paper names none).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from poise.core.action import Batch
from poise.core.estimate import Chunk
from poise.core.made import made
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import DECODES, PREEMPTED
from poise.policies.foresight import Foresight
from poise.policies.prompts import Prompts

RANKS = ("lars", "lrs", "edf", "fcfs")


class Ranked(NamedTuple):
    """A prompt and its place: whether it waits, the tokens left, its relative slack."""

    place: float
    id: int
    sequence: SequenceView
    waits: bool
    left: int
    slack: float


@dataclass(slots=True)
class Medha:
    """Compose adaptive chunks.

    tbt_s: seconds that a step may take.  ttft_s, stretch: a request without a deadline is due `ttft_s` after it came,
    or `stretch` times its predicted time, whichever is later.  long_tokens: from where a prompt is long (0: none is).
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
    _foresight: Foresight = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tbt_s <= 0 or self.ttft_s <= 0 or self.stretch < 0 or self.least < 1 or self.long_tokens < 0:
            raise ValueError("tbt_s and ttft_s are above 0, least is 1 or more, stretch and long_tokens are 0 or more")
        if not 0 <= self.most_yield < 1 or self.rank not in RANKS:
            raise ValueError(f"most_yield lies in [0, 1), and rank is one of {', '.join(RANKS)}")
        self._foresight = Foresight(self.sigma, self.constant_s)

    def compose(self, lane: LaneView) -> Batch:
        """All decodes, then prompts by rank until the step is full."""
        waiting = bool(lane.spec.prefill and lane.waiting and not lane.preempted)
        if not lane.prefilling and not waiting:
            return PREEMPTED if lane.preempted else DECODES
        prompts = Prompts(lane, lane.engine.token_budget - lane.decoding)
        ranked = sorted(self._ranked(lane, waiting))
        some_short = any(not self._long(each.sequence) for each in ranked)
        target, base = ps(self.tbt_s), lane.predict(())
        chunks: list[Chunk] = []
        time, one_long = base, False
        for each in ranked:
            limit, long = target, self._long(each.sequence)
            if long:
                if one_long:
                    continue
                limit -= round((target - base) * self._yielded(each.slack)) if some_short else 0
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
            # until somebody comes, who may fit; parts of prompts may also fit once decodes take longer
            whole = lane.engine.reserve_prompt and not lane.prefilling
            return DECODES if whole and not lane.preempted else PREEMPTED
        return Batch(tuple(prompts.entries))

    def _ranked(self, lane: LaneView, waiting: bool) -> list[Ranked]:
        now, ttft = lane.now, ps(self.ttft_s)
        found = [self._place(lane, sequence, False, now, ttft) for sequence in lane.prefilling]
        return found + [self._place(lane, each, True, now, ttft) for each in lane.queue()] if waiting else found

    def _place(self, lane: LaneView, sequence: SequenceView, waits: bool, now: int, ttft: int) -> Ranked:
        request, need = sequence.request, sequence.need
        left = need - (lane.cached(sequence) if waits else sequence.computed)
        whole = time = self._foresight.whole(lane, sequence)
        if left < need:
            time = self._foresight.left(lane, sequence, left)
        whole = whole or 1
        if self.stretch:
            ttft = max(ttft, round(self.stretch * whole))
        due = request.deadline_at or request.arrived_at + ttft
        slack = due - now - time
        relative = slack / whole
        rank = self.rank
        place = relative if rank == "lars" else slack if rank == "lrs" else due if rank == "edf" else request.arrived_at
        return made(Ranked, (place, request.id, sequence, waits, left, relative))

    def _long(self, sequence: SequenceView) -> bool:
        return 0 < self.long_tokens <= sequence.request.prompt_tokens

    def _yielded(self, slack: float) -> float:
        """The part of a step that a long prompt leaves to others."""
        return min(max(slack, 0.0), self.most_yield)

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
        low, high, over = 0, most, lane.predict((*chunks, Chunk(most, done)))
        if over <= limit:
            return most, over
        while high - low > least and under < limit:
            guess = low + (high - low) * (limit - under) // (over - under)
            guess = min(max(guess, low + least // 2 + 1), high - least // 2 - 1)
            time = lane.predict((*chunks, Chunk(guess, done)))
            if time <= limit:
                low, under = guess, time
            else:
                high, over = guess, time
        return low, under
