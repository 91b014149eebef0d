"""Batchers for tests: sound ones that use what `Chunked` does not, each of few lines."""

from __future__ import annotations

import random
from collections.abc import Iterable

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.view import LaneView, SequenceView


def left_of(lane: LaneView, sequence: SequenceView) -> int:
    """Prompt tokens still to compute."""
    waiting = sequence in list(lane.queue())
    return sequence.need - (lane.cached(sequence) if waiting else sequence.computed)


def admissions(lane: LaneView, budget: int, blocks: int = 0, most: int = 1000) -> Iterable[Entry]:
    """Waiting requests in order, as long as tokens, sequences and blocks for their whole prompts last."""
    if lane.preempted or not lane.spec.prefill:
        return
    running = lane.running
    for sequence in lane.queue():
        left = left_of(lane, sequence)
        tokens = 0 if sequence.swapped else min(left, budget)
        blocks += lane.blocks_for(sequence, left)
        if running >= lane.engine.max_sequences or not lane.room(blocks) or budget < 1 or not most:
            return
        running, budget, most = running + 1, budget - tokens, most - 1
        yield Entry(sequence.id, tokens)


def chunks(lane: LaneView, budget: int) -> list[Entry]:
    """Running prompts, within the budget."""
    entries = []
    for sequence in lane.prefilling:
        tokens = min(left_of(lane, sequence), budget)
        if tokens:
            entries.append(Entry(sequence.id, tokens))
            budget -= tokens
    return entries


class PromptsFirst:
    """Prompts alone while there are any, then all decodes: vLLM before chunked prefill, but for splitting prompts."""

    def batch(self, lane: LaneView) -> Batch:
        budget = lane.engine.token_budget
        entries = chunks(lane, budget)
        if not entries:
            entries = list(admissions(lane, budget))
        if entries:
            return Batch(tuple(entries), decode=NONE)
        return Batch((), ALL, ONE_STEP if lane.preempted else UNTIL_HEAD)


class OneAtATime:
    """A single request in the engine; the others wait."""

    def batch(self, lane: LaneView) -> Batch:
        entries = chunks(lane, lane.engine.token_budget)
        if not entries and not lane.running:
            entries = list(admissions(lane, lane.engine.token_budget, most=1))
        return Batch(tuple(entries)) if entries else Batch((), ALL, ONE_STEP if lane.preempted else UNTIL_HEAD)


class SmallestFirst:
    """The smallest waiting prompt that fits, whoever heads the queue."""

    def batch(self, lane: LaneView) -> Batch:
        budget = lane.engine.token_budget - lane.decoding
        entries = chunks(lane, budget)
        fits = lane.spec.prefill and not lane.preempted and lane.running < lane.engine.max_sequences and budget > 0
        if not entries and fits:
            for sequence in sorted(lane.queue(), key=lambda each: (each.request.prompt_tokens, each.id)):
                left = left_of(lane, sequence)
                if lane.room(lane.blocks_for(sequence, left)):
                    return Batch((Entry(sequence.id, 0 if sequence.swapped else min(left, budget)),))
        return Batch(tuple(entries)) if entries else Batch((), ALL, ONE_STEP if lane.preempted else UNTIL_CHANGE)


class Layered:
    """Each chunk passes the layers one by one beside all decodes."""

    def batch(self, lane: LaneView) -> Batch:
        budget = lane.engine.token_budget - lane.decoding
        under_way = [each for each in lane.prefilling if each.layer]
        if under_way:
            sequence = under_way[0]
            return Batch((Entry(sequence.id, sequence.chunk, sequence.layer, sequence.layer + 1),))
        entries = [*chunks(lane, budget)[:1], *admissions(lane, budget, most=1)][:1]
        if not entries:
            return Batch((), ALL, ONE_STEP if lane.preempted else UNTIL_HEAD)
        entry = entries[0]
        return Batch((entry._replace(last_layer=1) if entry.tokens else entry,))


class TurnByTurn:
    """Two decodes take part in each step, all of them in turn: the others pause."""

    def __init__(self) -> None:
        self.turn = 0

    def batch(self, lane: LaneView) -> Batch:
        self.turn += 1
        ids = sorted(sequence.id for sequence in lane.decodes())
        first = self.turn % len(ids) if ids else 0
        chosen = tuple((ids[first:] + ids[:first])[:2])
        blocks = sum(lane.blocks_for(sequence, 1) for sequence in lane.decodes())
        entries = chunks(lane, lane.engine.token_budget - lane.decoding)
        blocks += sum(lane.blocks_for(sequence, sequence.need - sequence.computed) for sequence in lane.prefilling)
        budget = lane.engine.token_budget - lane.decoding - sum(entry.tokens for entry in entries)
        return Batch((*entries, *admissions(lane, budget, blocks)), chosen or NONE)


class Erratic:
    """Anything that is allowed, drawn from how the lane looks: pieces of prompts, some decodes, part of the SMs."""

    def batch(self, lane: LaneView) -> Batch:
        seen = (lane.running, lane.waiting, [(each.id, each.computed, each.layer) for each in lane.prefilling])
        rng = random.Random(repr((seen, [each.id for each in lane.decodes()])))
        ids = [each.id for each in lane.decodes()]
        decode: int | tuple[int, ...] = ALL
        if ids and rng.random() < 0.4:
            decode = tuple(rng.sample(ids, rng.randint(1, len(ids))))
        budget = lane.engine.token_budget - len(ids)
        entries, blocks = [], sum(lane.blocks_for(each, 1) for each in lane.decodes())
        for sequence in sorted(lane.prefilling, key=lambda each: -each.layer):
            if sequence.layer:
                last = rng.randint(sequence.layer + 1, lane.model_layers)
                entries.append(Entry(sequence.id, sequence.chunk, sequence.layer, last))
                budget -= sequence.chunk
            elif budget > 0:
                tokens = rng.randint(1, min(left_of(lane, sequence), budget))
                entries.append(Entry(sequence.id, tokens, 0, rng.choice((0, rng.randint(1, lane.model_layers)))))
                budget -= tokens
                blocks += lane.blocks_for(sequence, tokens)
        entries += admissions(lane, budget, blocks, rng.randint(0, 3) if lane.running else 3)
        if entries and rng.random() < 0.2:
            decode = NONE
        return Batch(tuple(entries), decode, share=rng.choice((0.0, 0.5)))


class DecodesAlone(PromptsFirst):
    """`PromptsFirst` that is not asked where it would hold all decodes."""

    decodes_alone = True

    def batch(self, lane: LaneView) -> Batch:
        if lane.prefilling or lane.waiting or lane.preempted:
            return super().batch(lane)
        return Batch((), ALL, UNTIL_CHANGE)
