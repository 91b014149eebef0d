"""A long run of one placement: chosen on a short run, then made as long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice

from poise.pipeline.candidate import Candidate, Value, true
from poise.pipeline.constraint_graph import Rows, rows_of
from poise.pipeline.greedy import greedy
from poise.pipeline.modulo import steady
from poise.pipeline.schedules.v_auto import blocks
from poise.pipeline.scheduling_problem import SchedulingProblem
from poise.pipeline.search import Effort, Seed, floor, full, hope, improve, lines, reduced

LISTED = "list scheduling"

AMPLE = 2
"""Full-stage activations by rank, of which ranks that may hold as many have enough for list scheduling."""

PART = 16
"""Improving a short run may take one part in so many of the effort."""

BLOCKS = STATES = 2
"""Of a V that many building blocks are tried, and of any placement steady states of modulo scheduling."""


class LongRun:
    """Schedules of a short run of the problem `whole`, to be made long; `seeds` are published ones of any length.

    List scheduling at the true times takes part (greedy.py): with ample memory it is hard to beat, and takes the time
    of one step of improving. Where memory is ample, or it is the best on the short run, nothing is improved.
    """

    def __init__(self, whole: SchedulingProblem, least: Value, by: str, seeds: dict[str, Seed]) -> None:
        self.whole, self.least, self.by = whole, least, by
        self.small = reduced(whole)
        self.seeds = {**seeds, LISTED: self._listed}
        self.ample = min(whole.room) >= AMPLE * whole.ranks * whole.unit

    @cached_property
    def begun(self) -> list[Candidate]:
        """Schedules of the short run, the best first."""
        under = floor(self.small, self.by)
        found = lines(self.small, self.seeds.values(), self.by, under)
        if self.ample or (found and found[0].name == LISTED):
            return found
        more: Iterable[Seed] = steady(self.small, STATES)
        if self.whole.stages == 2 * self.whole.ranks and self.whole.placement == "wave":
            more = chain(blocks(self.small, self.by, BLOCKS), more)
        return sorted([*found, *lines(self.small, more, self.by, under)], key=lambda line: line.value)

    @property
    def hope(self) -> Fraction | float:
        """What the best would take at full length; infinite where there is none."""
        return hope(self.begun[0], self.whole) if self.begun else float("inf")

    def best(self, effort: Effort, known: Candidate | None = None) -> Candidate | None:
        """The best of all that is made long; None where there is none, or where what is `known` is out of reach."""
        if not self.begun or (known is not None and self.hope >= true(known)[0]):
            return None
        found: list[Candidate] = []
        if not self.ample and self.begun[0].name != LISTED:
            tried = improve(self.begun, floor(self.small, self.by), effort, PART, few=True)
            longer = (line for each in tried if each.name != LISTED and (line := full(each, self.whole)))
            found = list(islice(longer, 1))
        first = next((line.name for line in self.begun if line.name in self.seeds), None)
        names = {each for each in (LISTED if self.ample else None, first) if each}
        if min((line.value[0] for line in found), default=self.least[0] + 1) > self.least[0]:
            found += lines(self.whole, [self.seeds[name] for name in sorted(names)], self.by, self.least)
        return min(found, key=lambda line: line.value, default=None)

    def _listed(self, microbatches: int) -> Rows:
        """List scheduling: what is nearest to its end first, backwards before forwards before weight gradients."""
        whole = self.whole
        durations = replace(whole.durations, microbatch=whole.durations.microbatch[:microbatches])
        most = min(min(whole.room) // whole.size, microbatches * whole.stages)
        routes = [whole.route] * microbatches
        return rows_of(greedy(routes, durations, ranks=whole.ranks, split=True, most=most, name=LISTED))
