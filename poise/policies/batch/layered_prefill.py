"""Layered prefill (arXiv 2510.08055): whole prompts pass one group of layers in each step, with all decodes.

Each chunk of a prompt streams the weights of a mixture of experts once more; a prompt that passes group after group of
layers, whole, streams them once, and no step is longer than one group makes it. Rules of the authors' scheduler
(`scale-snu/layered-prefill`): unfinished prompts first, then waiting ones in order up to the token budget and the free
KV blocks make a cohort; it passes N groups, N by its summed tokens: 1 up to 512, twice as many with twice the tokens,
and all `groups` above 4,096. Nothing joins before its last group. A prompt beyond the budget takes several cohorts.

Where a power of two does not divide `groups`, half of `groups` replaces it, as in the authors' ladder for 12 groups.
The authors' scheduler leaves decodes out of the token budget; here they count, as in every batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import Batch, Entry
from poise.core.fast_tuple import made
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, DECODES, PREEMPTED
from poise.policies.kit.prompts import Prompts, left_of

TOP = 16
"""The rung of the authors' ladders that means all groups."""

DECODES_ONLY = {True: PREEMPTED, False: BLOCKED}


@dataclass(slots=True)
class LayeredPrefill:
    """Compose cohorts by groups of layers.

    groups: most groups that the layers are cut into (at most as many as there are layers).  tokens: of one group's
    worth of work, by which their number is chosen.  budget: prompt tokens of a cohort, 0 for the engine's budget.
    """

    decodes_alone = True

    groups: int = 16
    tokens: int = 512
    budget: int = 0
    _cut: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.groups < 1 or self.tokens < 1 or self.budget < 0:
            raise ValueError("groups and tokens are 1 or more, and budget is 0 or more")

    def batch(self, lane: LaneView) -> Batch:
        """The next group of the cohort under way, or the first of a new one; decodes alone where there is none."""
        under_way = [sequence for sequence in lane.prefilling if sequence.layer]
        if under_way:
            return self._next_group(lane, under_way)
        waiting = lane.spec.prefill and lane.waiting and not lane.preempted
        if not lane.prefilling and not waiting:
            return PREEMPTED if lane.preempted else DECODES
        prompts = Prompts(lane, min(self.budget or lane.engine.token_budget, lane.engine.token_budget) - lane.decoding)
        for sequence in lane.prefilling:
            prompts.go_on(sequence, min(left_of(lane, sequence, False), prompts.budget))
        if waiting:
            for sequence in lane.queue():
                if not prompts.admit(sequence, min(left_of(lane, sequence, True), prompts.budget)):
                    break
        if not prompts.entries:
            return DECODES_ONLY[lane.preempted]
        cut = self._cut[lane.spec.name] = min(self.cut(prompts.tokens), lane.model_layers)
        first = lane.model_layers // cut
        return Batch(tuple([entry._replace(last_layer=first) if entry.tokens else entry for entry in prompts.entries]))

    def cut(self, tokens: int) -> int:
        """Number of groups that a cohort of `tokens` tokens passes."""
        groups = 1
        while groups < TOP and groups * self.tokens < tokens:
            groups *= 2
        if groups >= min(self.groups, TOP):
            return self.groups
        return groups if self.groups % groups == 0 else max(1, self.groups // 2)

    def _next_group(self, lane: LaneView, under_way: list[SequenceView]) -> Batch:
        """All of the cohort, through the next group."""
        layers, cut = lane.model_layers, self._cut[lane.spec.name]
        at = min(sequence.layer for sequence in under_way)
        last = next(bound for bound in (layers * group // cut for group in range(1, cut + 1)) if bound > at)
        entries = [made(Entry, (each.id, each.chunk, at, last)) for each in under_way if each.layer == at]
        return Batch(tuple(entries))
