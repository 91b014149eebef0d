"""A layout's step as a Program whose messages, sums and gathers share links, with the cost model's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from poise.core.collector import paused
from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.cost.training.columns import columns, even_split
from poise.cost.training.figures import Figures, figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.stages import stages_of
from poise.cost.training.step import Prediction, evaluate
from poise.cost.training.transfers import Transfers, transfers_of
from poise.pipeline import Costs, Schedule, make
from poise.pipeline.costs import Durations
from poise.pipeline.lower import program_of
from poise.pipeline.program_time import OPERATIONS, durations_of
from poise.program import Program, Task
from poise.program.passes import as_messages, gathered, optimized, reduced, replicated
from poise.program.passes.gradients import When
from poise.sim.program import Simulated, simulate
from poise.sim.program.share import SLOWDOWN
from poise.sim.step.edits import Edit, SideBySide, Wrapped
from poise.sim.step.layout import GRAIN, Draw, check_count, costs_of, options, with_parts
from poise.sim.step.parts import in_parts, shared_out
from poise.sim.step.weighed import Weighed

Unit = Literal["stages", "layers"]

PS = round(GRAIN * SECOND)
"""Picoseconds of one unit of a schedule's clock."""


@dataclass(frozen=True, slots=True)
class Linked:
    """How a step is made a Program.

    unit: gradients and weights go together by stage, or by layer.  edits: passes, in order.
    """

    unit: Unit = "stages"
    edits: tuple[Edit, ...] = ()


def linked(
    job: Job, found: Prediction, how: Linked, draws: Sequence[Draw] = (), costs: Costs | None = None,
    use: Figures | None = None,
) -> Prediction:  # fmt: skip
    """The prediction with its pipeline, sums, gathers and optimizer run as a Program on links.

    Without `draws` all replicas are alike, and one is run with its part of the links; with them each replica is.
    costs: of stages and messages, as of a recorded step, in units of `GRAIN`, in place of the cost model's.  messages:
    by how much the step is longer than without any transfer; gradients: by how much again with sums and gathers.
    ScenarioError for more than `MOST` operations, and for passes that the layout has nothing for.
    """
    use = use or figures(job.host)
    with paused():
        step = _Step(job, found.layout, how, draws, costs, use)
        optimizer = found.parts["optimizer"]
        free, sent, whole = (step.run(optimizer, *kinds) for kinds in ((False, False), (True, False), (True, True)))
    busy = max(busy_s(free))
    closed = evaluate(job, columns(job, [found.layout]), use, memory=False, gathers=False).parts
    work = closed["compute"] + closed["exposed_in_layers"]
    spans = free.makespan_s, max(free.makespan_s, sent.makespan_s), max(free.makespan_s, whole.makespan_s)
    parts = {
        **{name: float(busy * closed[name][0] / work[0]) for name in ("compute", "exposed_in_layers")},
        "bubble": max(0.0, spans[0] - busy - optimizer),
        "messages": spans[1] - spans[0],
        "gradients": max(0.0, spans[2] - spans[1]),
        "optimizer": optimizer,
        "fixed": found.parts["fixed"],
    }
    return with_parts(found, parts)


def busy_s(found: Simulated) -> list[float]:
    """Seconds in which each rank computes on any of its lanes, without updates."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, task in enumerate(found.index.tasks):
        if task.kind in OPERATIONS:
            spans.setdefault(task.rank, []).append((found.starts[number], found.ends[number]))
    return [_covered(sorted(each)) / SECOND for each in spans.values()]


def _covered(spans: list[tuple[int, int]]) -> int:
    total = last = 0
    for begin, end in spans:
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total


class _Step:
    """The Program of a step, and what its tasks take."""

    def __init__(
        self, job: Job, layout: Layout, how: Linked, draws: Sequence[Draw], costs: Costs | None, use: Figures
    ) -> None:  # fmt: skip
        stages = stages_of(job, layout, use, gathers=False)
        check(job, layout, how, len(draws))
        self.counts = _counts(stages.split, how)
        self.layout, self.how, self.draws = layout, how, draws
        microbatches = layout.microbatches(job)
        pairs = zip(stages.split, self.counts, strict=True)
        layers = [split / count for split, count in pairs for _ in range(count)]
        self.transfers = transfers_of(job, layout, layers, use)
        own = costs or costs_of(stages)
        schedule = make(layout.schedule, layout.pipeline, microbatches, costs=own, **options(layout))
        whole = own.at(layout.pipeline, schedule.stages, 1)
        head = (0.0, 0.0, 0.0) if costs else stages.head
        self.costs = self._costs(whole, [round(each / GRAIN) * PS for each in head])
        self.hops = _hops(whole) if costs else None
        self.program = self._program(in_parts(schedule, self.counts))
        self.durations = durations_of(self.program, self._drawn())

    def run(self, optimizer: float, messages: bool, collectives: bool) -> Simulated:
        """The Program with these kinds of transfers, and no others."""
        weigh = Weighed(self.transfers, self.layout.pipeline, optimizer, self.hops)
        program = weigh.program(self.program, messages=messages, collectives=collectives)
        clock = weigh.clock(program, self.durations, messages=messages, collectives=collectives)
        slowdown = next((each.slowdown for each in self.how.edits if isinstance(each, SideBySide)), SLOWDOWN)
        return simulate(program, clock, weigh.wiring(max(1, len(self.draws))), slowdown=slowdown)

    def _costs(self, whole: Durations, head: Sequence[int]) -> Costs:
        """Picoseconds of each part."""
        rows = []
        for row, own in zip(whole.work, head, strict=True):
            each = [int(stage * PS / whole.scale) for stage in row]
            rows.append(shared_out(each, self.counts, min(own, each[-1]) if self.counts[-1] > 1 else 0))
        return Costs.of(*rows)

    def _drawn(self) -> Costs:
        if not self.draws:
            return self.costs
        rank, batch = (
            tuple(chain.from_iterable(getattr(draw, name) for draw in self.draws)) for name in ("rank", "microbatch")
        )
        return replace(self.costs, rank=rank, microbatch=batch)

    def _program(self, schedule: Schedule) -> Program:
        program = laid(as_messages(program_of(schedule)), self.layout, self.transfers)
        durations = durations_of(program, self.costs)
        weigh = Weighed(self.transfers, self.layout.pipeline, 0.0)

        def seconds(task: Task) -> float:
            if task.kind in OPERATIONS:
                stage, sample = task.arg
                ticks = durations.of(OPERATIONS[task.kind], stage, sample, task.rank)
                return ticks / durations.scale / SECOND
            return weigh.seconds(task) if task.group else 0.0

        for edit in self.how.edits:
            program = edit.edit(program, seconds)
        if self.how.edits:
            program.prove()
        return replicated(program, len(self.draws)) if self.draws else program


def laid(program: Program, layout: Layout, transfers: Transfers) -> Program:
    """The Program with the sums and gathers of the layout's ZeRO, whose bytes are those of gradients and weights.

    ZeRO-1 and 2 gather new weights ahead of the first forward of the next step, which is like this one.
    """
    gathers = [each.bytes for each in transfers.gathers]
    if gathers:
        program = gathered(program, gathers, gathers, once=layout.zero < 3)
    if transfers.gradients:
        kind = "all_reduce" if layout.zero == 0 else "reduce_scatter"
        when: When = "run" if layout.zero >= 2 else "end"
        program = reduced(program, [each.bytes for each in transfers.gradients], when, kind)
    return optimized(program)


def _counts(split: Sequence[int], how: Linked) -> list[int]:
    """Parts of each stage."""
    return [max(1, each) if how.unit == "layers" else 1 for each in split]


def _hops(whole: Durations) -> Durations:
    """Durations whose messages are in picoseconds."""
    links = tuple(tuple(each * PS for each in row) for row in whole.links)
    return replace(whole, comm=tuple(each * PS for each in whole.comm), links=links)


def check(job: Job, layout: Layout, how: Linked, draws: int = 0) -> None:
    """ScenarioError for more than `MOST` operations, and for passes that the layout has nothing for."""
    split = layout.split or even_split(job.model.layers, layout.stages)
    cure = "fewer microbatches, or links: none"
    cure = f"links: stages, {cure}" if how.unit == "layers" else cure
    check_count("links", job, layout, sum(_counts(split, how)) * max(1, draws), cure)
    if any(isinstance(each, Wrapped) for each in how.edits) and layout.zero < 3:
        raise ScenarioError(f"wrapped merges gathers of sharded weights, and zero is {layout.zero}; give zero: 3")
    if any(isinstance(each, SideBySide) for each in how.edits) and how.unit == "layers":
        raise ScenarioError("side_by_side pairs passes of whole stages; give links: stages")
