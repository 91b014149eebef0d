"""FlowPrefill (arXiv 2602.16603): whole prompts, preempted between layers for a more urgent one.

The size of a chunk couples the delay of new arrivals to the efficiency of prompts. Here a pass computes whole prompts,
and is interrupted by an arrival (`Batch.leave`); interrupted work continues from its layer, with nothing recomputed.
The order is updated only on arrivals and ends: by slack = deadline − now − predicted time of what is left, the
least first among those that can still be in time (`rank: deadline`: earliest deadline first); all others behind them,
in order of arrival, or a huge late prompt would block the rest (`rank: edf`: strictly by deadline). Further
prompts join a pass while its predicted time is within what is left to each member that can be in time, and within the
token budget.

The paper interrupts at operators, this at layers: in its measurements blocking is then 3.5 to 4.2 times as long.
Passes with decodes (replicas that do both) are not interrupted. With `leave` off and `chunk` set this is chunked
prefill by deadlines, the paper's baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from poise.core.action import ALL, NONE, Batch, Entry
from poise.core.estimate import Chunk
from poise.core.fast_tuple import made
from poise.core.units import NEVER, ps
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import DECODES, PREEMPTED
from poise.policies.kit.deadline_queue import DeadlineQueue, Urgency
from poise.policies.kit.prefill_time import PrefillTime
from poise.policies.kit.prompts import Prompts, left_of
from poise.policies.kit.waiting_set import WaitingSet

Candidate = tuple[Urgency, SequenceView, bool, int]
"""Place, prompt, whether it waits, and remaining tokens."""


@dataclass(slots=True)
class FlowPrefill:
    """Compose passes by slack.

    ttft_s: seconds to the first token of requests that bring no deadline.  leave: interrupt passes between layers.
    chunk: most tokens of a prompt in a pass, 0 for all.  rank: `slack`, `deadline` or `edf`.
    sigma, constant_s: of the predictions (`poise.policies.kit.prefill_time`).
    """

    decodes_alone = True

    ttft_s: float = 1.0
    leave: bool = True
    chunk: int = 0
    rank: Literal["slack", "deadline", "edf"] = "slack"
    sigma: float = 0.0
    constant_s: float = 0.0
    _foresight: PrefillTime = field(init=False, repr=False, compare=False)
    _grace: int = field(default=0, init=False, repr=False, compare=False)
    _standing: WaitingSet = field(default_factory=WaitingSet, init=False, repr=False, compare=False)
    _turning: DeadlineQueue = field(default_factory=DeadlineQueue, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ttft_s <= 0 or self.chunk < 0 or self.rank not in ("slack", "deadline", "edf"):
            raise ValueError("ttft_s is above 0, chunk is 0 or more, and rank is slack, deadline or edf")
        self._foresight = PrefillTime(self.sigma, self.constant_s)
        self._grace = ps(self.ttft_s)

    def waits(self, sequence: SequenceView, place: Any) -> None:
        """A request begins to wait."""
        self._standing.waits(sequence)

    def waited(self, sequence: SequenceView) -> None:
        """A request waits no longer."""
        if self._standing.waited(sequence):
            self._turning.remove(sequence.id)

    def batch(self, lane: LaneView) -> Batch:
        """The most urgent prompt, with those that may join it."""
        waiting = lane.spec.prefill and lane.waiting and not lane.preempted
        if not lane.prefilling and not waiting:
            return PREEMPTED if lane.preempted else DECODES
        prompts = Prompts(lane, lane.engine.token_budget - lane.decoding)
        chunks: list[Chunk] = []
        patience = None
        seed: SequenceView | None = None
        for (late, _, _), sequence, waits, left in self._candidates(lane, prompts, bool(waiting)):
            if seed is not None and sequence.layer != seed.layer:
                continue  # a pass has one range of layers
            tokens, layer = self._tokens(sequence, left, prompts.budget), sequence.layer
            chunk = made(Chunk, (tokens, sequence.need - left, layer, lane.model_layers if layer else 0))
            within = patience if late else _least(patience, self._due(sequence) - lane.now)
            full = seed is not None and tokens and within is not None and self._time(lane, chunks, chunk) > within
            if full:
                break
            if not prompts.take(sequence, waits, tokens):
                continue
            if prompts.entries[-1].tokens:
                seed, patience = seed or sequence, within
                chunks.append(chunk)
            if prompts.budget < 1:
                break
        return self._batch(lane, prompts.entries)

    def _candidates(self, lane: LaneView, prompts: Prompts, waiting: bool) -> Iterable[Candidate]:
        """Prompts, the most urgent first; those that wait as long as any of them can be admitted."""
        running = sorted([self._candidate(lane, sequence, False) for sequence in lane.prefilling])
        if not waiting:
            return running
        standing = self._standing
        for sequence in standing.arrived(lane):
            self._turning.add(sequence.id, *self._keys(lane, sequence, sequence.need))
        fixed = map(self._fixed, self._turning.order(lane.now))
        return standing.in_order(
            lane, running, fixed, self._candidate, lambda least: prompts.passing or prompts.full(least)
        )

    def _fixed(self, place: Urgency) -> Candidate:
        sequence = self._standing.fixed[place.id]
        return place, sequence, True, sequence.need

    def _candidate(self, lane: LaneView, sequence: SequenceView, waits: bool) -> Candidate:
        left, due = left_of(lane, sequence, waits), self._due(sequence)
        if due < lane.now and self.rank != "edf":  # regardless of the remaining work
            return made(Urgency, (True, sequence.request.arrived_at, sequence.id)), sequence, waits, left
        key, until, late_key = self._keys(lane, sequence, left)
        late = until < lane.now
        return made(Urgency, (late, late_key if late else key, sequence.id)), sequence, waits, left

    def _keys(self, lane: LaneView, sequence: SequenceView, left: int) -> tuple[int, int, int]:
        """The key while it can be in time, the end of that time, and the key afterwards."""
        due = self._due(sequence)
        latest = due - self._foresight.left(lane, sequence, left)
        until = NEVER if self.rank == "edf" else latest
        return latest if self.rank == "slack" else due, until, sequence.request.arrived_at

    def _tokens(self, sequence: SequenceView, left: int, budget: int) -> int:
        """Tokens of the prompt's next chunk; one interrupted between layers continues unchanged."""
        if sequence.layer:
            return sequence.chunk if sequence.chunk <= budget else 0
        return min(left, budget, self.chunk or left)

    def _time(self, lane: LaneView, chunks: list[Chunk], chunk: Chunk) -> int:
        """Predicted picoseconds of a pass with one more chunk."""
        return lane.predict((*chunks, chunk), ALL if lane.decoding else NONE)

    def _batch(self, lane: LaneView, entries: list[Entry]) -> Batch:
        if not entries:
            return PREEMPTED if lane.preempted else DECODES  # until an arrival, which may fit
        leave = self.leave and not lane.decoding
        layers = lane.model_layers
        passing = [Entry(e.request, e.tokens, e.first_layer, layers) if e.first_layer else e for e in entries]
        return Batch(tuple(passing), NONE if leave else ALL, leave=leave)

    def _due(self, sequence: SequenceView) -> int:
        request = sequence.request
        return request.deadline_at or request.arrived_at + self._grace


def _least(patience: int | None, own: int) -> int:
    return own if patience is None else min(patience, own)
