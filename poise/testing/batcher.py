"""`check_batcher`: the contract of batchers as one function, for any batcher."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, Batch, Entry
from poise.core.engine.lane import ALL_DECODES, LaneState
from poise.core.engine.replica import Replica
from poise.core.estimate import Estimator
from poise.core.policy import Batcher, Victim
from poise.core.request import Phase, RequestView, Sequence
from poise.core.view import LaneView
from poise.testing.builders import a_bundle
from poise.testing.engine import picture, unchanged
from poise.testing.invariants import check_replica
from poise.testing.rule import RuleBroken, calling
from poise.testing.solo import Log, drive
from poise.testing.workloads import Case, a_case


def check_batcher(make: Callable[[], Batcher], *, seed: int = 0, cases: int = 100, chunks: bool = True) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Batcher` that the batchers which `make()` builds do not keep.

    The rules, on `cases` random small workloads, each run to its end on a real replica whose own sums are checked: no
    request is named twice; only requests of the lane or its queue are; no step has more tokens than the budget, more
    sequences than allowed, or an admission for which there are no KV blocks; the view stays untouched; an equal copy
    composes the same; every request ends; a batch held over many steps gives the same as single steps; and a batcher
    that declares `decodes_alone` answers accordingly.
    chunks: whether it can split a prompt over steps; with False every prompt fits the budget of one step.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "a batcher is built without arguments here; give a function that builds it"):
        who = type(make()).__name__
    for number in range(cases):
        case = a_case(seed * 10_007 + number, chunks)
        where = f"in case {number} of seed {seed}: {case}"
        with calling(who, where):
            held, held_stats = _run(make(), case, one_step=False)
            single, single_stats = _run(make(), case, one_step=True)
        if held != single:
            at = next((pair for pair in zip(held, single, strict=False) if pair[0] != pair[1]), (held[-1], single[-1]))
            raise RuleBroken(
                f"{who} holds a batch longer than it would compose it: with holds {at[0]!r}, step by step {at[1]!r} "
                f"(instant in ps, outcome, request); hold ONE_STEP unless the batch stays the same; {where}"
            )
        if held_stats != single_stats:
            raise RuleBroken(
                f"{who} makes (steps, prompt tokens, decode tokens) {held_stats} with holds, {single_stats} without; "
                f"hold ONE_STEP unless the batch stays the same; {where}"
            )


def _run(batcher: Batcher, case: Case, one_step: bool) -> tuple[Log, tuple[int, int, int]]:
    """Run a case on a replica that watches its batcher."""
    watched = _Watched(batcher, case.swap, spared=not one_step)
    replica = Replica(
        case.engine,
        cast("Estimator", case.cost),
        case.blocks,
        a_bundle(batcher=watched, preempt=watched),
        layers=case.layers,
        one_step=one_step,
    )

    def after(now: int, passed: bool) -> None:
        watched.admitted = ()
        check_replica(replica, now, passed)

    log = drive(replica, case.clients, after, most_turns=20_000)
    stats = replica.stats
    return log, (stats.steps, stats.prompt_tokens, stats.decode_tokens)


class _Watched:
    """A batcher whose every batch is checked, and a preemption rule that knows what the current batch admitted.

    spared: whether a batcher that declares `decodes_alone` is not called where its answer follows from that.
    """

    def __init__(self, batcher: Batcher, swap: bool, spared: bool) -> None:
        self.batcher = batcher
        self.swap = swap
        self.promised: bool = getattr(batcher, "decodes_alone", False)
        self.decodes_alone = self.promised and spared
        self.served: Callable[[RequestView, int, int], None] | None = getattr(batcher, "served", None)
        self.waits: Callable[[Sequence, Any], None] | None = getattr(batcher, "waits", None)
        self.waited: Callable[[Sequence], None] | None = getattr(batcher, "waited", None)
        self.lane: LaneView | None = None
        self.admitted: tuple[Sequence, ...] = ()

    def batch(self, lane: LaneView) -> Batch:
        assert isinstance(lane, LaneState)
        before = picture(lane)
        here = {id(sequence): sequence for sequence in lane.replica.sequences.values()}  # the lane's, not the batcher's
        twin = copy.deepcopy(self.batcher, here)
        batch = self.batcher.batch(lane)
        unchanged(lane, before)
        again = twin.batch(lane)
        if batch != again:
            raise RuleBroken(
                f"composes {batch!r} but its deep copy, asked the same, {again!r}; keep no state outside the object"
            )
        _check_batch(lane, batch)
        if (
            self.promised
            and not (lane.prefilling or lane.waiting or lane.paused or lane.preempted)
            and batch != ALL_DECODES
        ):
            raise RuleBroken(
                f"composes {batch!r} where nothing but decodes is left; `decodes_alone` says {ALL_DECODES!r}"
            )
        waiting = {sequence.id: sequence for sequence in lane.queue()}
        self.lane = lane
        self.admitted = tuple(waiting[entry.request] for entry in batch.entries if entry.request in waiting)
        return batch

    def preempt(self, lane: LaneView) -> Victim:
        admitted = [sequence.id for sequence in self.admitted if sequence.phase == Phase.PREFILL]
        if admitted and lane is self.lane and not lane.preempted:
            raise RuleBroken(
                f"admits requests {admitted} whose KV blocks are not free; ask `lane.room` for all blocks together"
            )
        return Victim(lane.prefilling[-1].id if lane.prefilling else lane.newest().id, self.swap)


def _check_batch(lane: LaneState, batch: Any) -> None:
    """Check one batch against the lane for which it was composed."""
    if type(batch) is not Batch or any(type(entry) is not Entry for entry in batch.entries):
        raise RuleBroken(f"composes {batch!r}; it must be a Batch, its entries Entry")
    if not ONE_STEP <= batch.hold <= UNTIL_CHANGE or not 0 <= batch.share <= 1:
        raise RuleBroken(
            f"composes {batch!r}; `hold` is ONE_STEP, UNTIL_HEAD or UNTIL_CHANGE and `share` lies in [0, 1]"
        )
    if batch.wake_at and batch.wake_at <= lane.now:
        raise RuleBroken(f"wants to be asked again at {batch.wake_at} ps, and it is {lane.now} ps: {batch!r}")
    if batch.setup < 0 or (batch.setup and not (batch.entries or (lane.decoding and batch.decode))):
        raise RuleBroken(f"asks for a setup of {batch.setup} ps before a step of work; give 0, or work: {batch!r}")
    named = [entry.request for entry in batch.entries]
    twice = [request for request in named if named.count(request) > 1]
    if twice:
        raise RuleBroken(f"names request {twice[0]} twice in one batch: {batch!r}")
    decodes = _decodes(lane, batch)
    if batch.leave and decodes:
        raise RuleBroken(f"lets {decodes} decodes take part in a step that may be left between layers: {batch!r}")
    tokens, admitted = _entries(lane, batch)
    budget, most = lane.engine.token_budget, lane.engine.max_sequences
    if batch.entries and tokens + decodes > budget:
        raise RuleBroken(
            f"puts {tokens} prompt tokens beside {decodes} decodes, over the budget of {budget} tokens: {batch!r}"
        )
    if admitted and lane.running + admitted > most:
        raise RuleBroken(
            f"admits {admitted} requests to {lane.running} running ones, over the {most} allowed: {batch!r}"
        )


def _decodes(lane: LaneState, batch: Batch) -> int:
    """The number of decodes in a batch."""
    if isinstance(batch.decode, int):
        if batch.decode not in (ALL, NONE):
            raise RuleBroken(f"composes {batch!r}; `decode` is ALL, NONE or a tuple of ids")
        return lane.decoding if batch.decode == ALL else 0
    known = {sequence.id for sequence in lane.decodes()}
    wrong = [request for request in batch.decode if request not in known]
    if wrong or len(set(batch.decode)) != len(batch.decode):
        raise RuleBroken(
            f"composes {batch!r}; `decode` names each decoding request at most once, and there are {sorted(known)}"
        )
    return len(batch.decode)


def _entries(lane: LaneState, batch: Batch) -> tuple[int, int]:
    """Prompt tokens of the entries (a pass through some layers counts its share) and how many they admit."""
    running = {sequence.id: sequence for sequence in lane.prefilling}
    waiting = {sequence.id: sequence for sequence in lane.queue()} if lane.spec.prefill else {}
    layer_tokens = admitted = 0
    for entry in batch.entries:
        sequence = running.get(entry.request) or waiting.get(entry.request)
        if sequence is None:
            raise RuleBroken(
                f"names request {entry.request}, neither waiting nor prefilled on lane {lane.spec.name!r}: {entry!r}"
            )
        first, last = entry.first_layer, entry.last_layer or lane.model_layers
        if first != sequence.layer or not first < last <= lane.model_layers:
            raise RuleBroken(
                f"{entry!r} must start at layer {sequence.layer}, where {sequence!r} is, and end behind it"
            )
        elsewhere = sequence.phase == Phase.WAITING and (sequence.swapped or sequence.source >= 0)
        if entry.tokens < 1 and not elsewhere:
            raise RuleBroken(f"{entry!r} computes nothing; 0 tokens are for requests whose KV comes from elsewhere")
        admitted += sequence.phase == Phase.WAITING
        layer_tokens += 0 if elsewhere else min(entry.tokens, sequence.need - sequence.computed) * (last - first)
    return layer_tokens // lane.model_layers, admitted
