"""`check_batcher` lets sound batchers pass and tells the author of an unsound one which rule it breaks, and when."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import pytest

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.view import LaneView
from poise.testing import RuleBroken, check_batcher
from tests.depth import examples

from .batchers import (
    DecodesAlone,
    Erratic,
    Layered,
    OneAtATime,
    PromptsFirst,
    SmallestFirst,
    TurnByTurn,
    admissions,
    chunks,
)


@pytest.mark.deep
@pytest.mark.parametrize(
    "batcher", [PromptsFirst, OneAtATime, SmallestFirst, Layered, TurnByTurn, Erratic, DecodesAlone]
)
def test_sound_batchers_pass(batcher: type) -> None:
    check_batcher(batcher, cases=examples(100))


def test_a_batcher_that_computes_prompts_whole_is_given_a_budget_for_them() -> None:
    class Whole(PromptsFirst):
        def batch(self, lane: LaneView) -> Batch:
            batch = super().batch(lane)
            needs = {each.id: each.need - each.computed for each in (*lane.prefilling, *lane.queue())}
            kept = [
                entry
                for entry in batch.entries
                if entry.tokens in (0, needs[entry.request]) or lane.engine.prefix_caching
            ]
            return batch._replace(entries=tuple(kept)) if kept or not batch.entries else Batch((), ALL)

    check_batcher(Whole, cases=40, chunks=False)
    with pytest.raises(RuleBroken, match=r"leaves Sequence.* for ever"):
        check_batcher(Whole, cases=40)


class NamesTwice(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch._replace(entries=batch.entries + batch.entries[:1])


class NamesAStranger(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        return Batch((Entry(999, 1),))


class OverBudget(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        entries = (*chunks(lane, 10**6), *admissions(lane, 10**6))
        return Batch(entries) if entries else Batch()


class OverSequences(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        if lane.waiting and lane.spec.prefill and not lane.preempted and not lane.prefilling and lane.room(200):
            return Batch(tuple(Entry(each.id, 1) for each in list(lane.queue())[: lane.engine.token_budget]), NONE)
        return super().batch(lane)


class OverBlocks(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        budget = lane.engine.token_budget - lane.decoding
        entries = chunks(lane, budget)
        if not entries and lane.spec.prefill and not lane.preempted and lane.running < lane.engine.max_sequences:
            entries = [Entry(each.id, 0 if each.swapped else budget) for each in list(lane.queue())[:1] if budget > 0]
        return Batch(tuple(entries))


class Idles(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        return Batch(decode=NONE)


class ForgetsPrompts(PromptsFirst):
    """Gives each prompt one chunk and then only decodes."""

    def batch(self, lane: LaneView) -> Batch:
        return Batch(tuple(admissions(lane, min(3, lane.engine.token_budget - lane.decoding))))


class ChangesTheQueue(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        for sequence in lane.queue():
            sequence.computed += 1
        return super().batch(lane)


class ChangesThePrompts(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        lane.prefilling.clear()  # type: ignore[attr-defined]
        return batch


class KeepsStateOutside(PromptsFirst):
    turns: ClassVar[Any] = itertools.count()

    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch._replace(share=0.5) if next(self.turns) % 2 else batch


class HoldsTooLong(TurnByTurn):
    """The decodes that take part change with every step, yet it holds."""

    def batch(self, lane: LaneView) -> Batch:
        return super().batch(lane)._replace(hold=UNTIL_CHANGE)


class HoldsPastWhoWouldFit(SmallestFirst):
    """It admits whoever fits, yet holds until another heads the queue: not until somebody small comes."""

    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch._replace(hold=UNTIL_HEAD) if batch.hold == UNTIL_CHANGE else batch


class ComputesNothing(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch._replace(entries=tuple(entry._replace(tokens=0) for entry in batch.entries))


class SetsUpForNothing(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        return Batch((), NONE, setup=5)


class SkipsLayers(Layered):
    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch._replace(entries=tuple(entry._replace(first_layer=2, last_layer=3) for entry in batch.entries))


class DecodesStrangers(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch if batch.entries else batch._replace(decode=(999,))


class AnswersAList(PromptsFirst):
    def batch(self, lane: LaneView) -> Any:
        return [1, 2]


class HoldsSomehow(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        return super().batch(lane)._replace(hold=7)


class SaysDecodesAlone(PromptsFirst):
    decodes_alone = True

    def batch(self, lane: LaneView) -> Batch:
        batch = super().batch(lane)
        return batch if batch.entries else batch._replace(hold=ONE_STEP)


class Raises(PromptsFirst):
    def batch(self, lane: LaneView) -> Batch:
        raise LookupError("no table for this lane")


class WantsArguments(PromptsFirst):
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("batcher", "rule"),
    [
        (NamesTwice, r"names request \d+ twice in one batch"),
        (NamesAStranger, "names request 999, neither waiting nor prefilled on lane"),
        (OverBudget, r"puts \d+ prompt tokens beside \d+ decodes, over the budget of \d+ tokens"),
        (OverSequences, r"admits \d+ requests to \d+ running ones, over the \d+ allowed"),
        (OverBlocks, r"admits requests \[\d+\] whose KV blocks are not free; ask `lane.room`"),
        (Idles, r"leaves Sequence\(.*\) for ever"),
        (ForgetsPrompts, r"leaves Sequence\(.*prefill, .*\) for ever|never lets a step begin"),
        (ChangesTheQueue, "changed the lane's queue from"),
        (ChangesThePrompts, "changed the lane's prefilling from"),
        (KeepsStateOutside, "its deep copy, asked the same.*keep no state outside the object"),
        (HoldsTooLong, "holds a batch longer than it would compose it: with holds .*, step by step .*hold ONE_STEP"),
        (HoldsPastWhoWouldFit, "holds a batch longer than it would compose it"),
        (ComputesNothing, "computes nothing; 0 tokens are for requests whose KV comes from elsewhere"),
        (SetsUpForNothing, "asks for a setup of 5 ps before a step of work; give 0, or work"),
        (SkipsLayers, "must start at layer 0, where Sequence"),
        (DecodesStrangers, r"`decode` names each decoding request at most once, and there are \["),
        (AnswersAList, r"composes \[1, 2\]; it must be a Batch, its entries Entry"),
        (HoldsSomehow, "hold=7.*`hold` is ONE_STEP, UNTIL_HEAD or UNTIL_CHANGE"),
        (SaysDecodesAlone, "where nothing but decodes is left; `decodes_alone` says Batch"),
        (Raises, "raised LookupError: no table for this lane; in case 0"),
        (WantsArguments, r"WantsArguments\(\) raised TypeError.*give a function that builds it"),
    ],
)
def test_unsound_batchers_are_reported_with_the_rule_and_the_case(batcher: type, rule: str) -> None:
    with pytest.raises(RuleBroken, match=rule) as raised:
        check_batcher(batcher)
    message = str(raised.value)
    assert message.startswith(batcher.__name__)
    if batcher is not WantsArguments:
        assert "in case " in message and "prompts [" in message
