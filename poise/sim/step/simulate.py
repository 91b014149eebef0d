"""A training step as a Program with all its transfers, and the clock for it."""

from __future__ import annotations

from poise.core.collector import paused
from poise.core.errors import ScheduleError
from poise.core.units import SECOND, ps
from poise.pipeline.costs import Costs
from poise.pipeline.graph import graph_of
from poise.pipeline.lower import program_of
from poise.pipeline.op import Kind
from poise.pipeline.program_time import ticks_of
from poise.pipeline.schedule import Schedule
from poise.program import Program
from poise.program.passes import as_messages, gathered, optimized, reduced, sized
from poise.program.passes.gather import LANE as GATHER
from poise.program.passes.gradients import LANE as SYNC
from poise.sim.links import Wiring
from poise.sim.program import Clock, simulate
from poise.sim.step.read import read
from poise.sim.step.result import Step
from poise.sim.step.traffic import Traffic, spread


def simulate_step(schedule: Schedule, costs: Costs, traffic: Traffic, wiring: Wiring) -> Step:
    """Run `schedule` once, with `costs` in seconds; ScheduleError where it cannot finish or numbers do not fit.

    The step is a Program (`step_program`), run by `sim.program`. A rank computes one operation at a time, in order. Its
    messages to one other rank follow each other; so do its gradient reductions, its gathers, and its copies to and from
    the host. All transfers between ranks share links max-min fairly and none takes compute time. Copies of a stage on
    several ranks sum their gradients and so update together. Without bytes and latencies this is `pipeline.time`; the
    `comm` of the costs is not used.
    """
    if len(wiring.node) != len(schedule.ranks):
        raise ScheduleError(f"wiring: {len(wiring.node)} ranks for a schedule of {len(schedule.ranks)}; give as many")
    with paused():
        program = step_program(schedule, traffic, shared_copy=costs.shared_copy)
        clock = step_clock(program, schedule, costs, traffic, wiring)
        return read(simulate(program, clock, wiring), graph_of(schedule), wiring)


def step_program(schedule: Schedule, traffic: Traffic, *, shared_copy: bool = False) -> Program:
    """The Program of one step: `program_of` with sizes of messages, reductions, gathers and the optimizer.

    ScheduleError for reductions, gathers and an optimizer of a schedule whose weights change behind every backward.
    """
    ranks, stages = len(schedule.ranks), schedule.stages
    message = spread("message_bytes", traffic.message_bytes, stages)
    sync = spread("sync_bytes", traffic.sync_bytes, stages)
    gather = spread("gather_bytes", traffic.gather_bytes, stages)
    update = spread("update_bytes", traffic.update_bytes, stages)
    optimizer = spread("optimizer_s", traffic.optimizer_s, ranks, "ranks")
    program = program_of(schedule, shared_copy=shared_copy, message_bytes=message)
    if schedule.barriers:  # the broadcasts to the shards of the output layer, which have no bytes yet
        program = sized(as_messages(program), message)
    if schedule.updates != "flush":
        if any([*sync, *gather, *update, *optimizer]):
            raise ScheduleError(
                f"updates {schedule.updates}: weights change behind every backward, and traffic has reductions, "
                "gathers or an optimizer for the end of a step; leave these 0, or take a schedule that updates once"
            )
        return program
    if any(gather):
        program = gathered(program, gather)
    if any(sync):
        program = reduced(program, sync, traffic.sync)
    stages_of = ({op.stage for op in row if op.kind is Kind.F} for row in schedule.ranks)
    return optimized(program, [sum(update[stage] for stage in own) for own in stages_of])


def step_clock(program: Program, schedule: Schedule, costs: Costs, traffic: Traffic, wiring: Wiring) -> Clock:
    """Picoseconds of its tasks. A rank's first update takes the time of the whole optimizer.

    The barriers of vocabulary passes are latencies: they hold no lane.
    """
    tasks = program.index.tasks
    ticks, _, scale = ticks_of(program, schedule, costs)
    took = [each * SECOND // scale for each in ticks]
    lags = [0] * len(tasks)
    late = ps(traffic.sync_latency_s)
    optimizer = [ps(each) for each in spread("optimizer_s", traffic.optimizer_s, len(schedule.ranks), "ranks")]
    for number, task in enumerate(tasks):
        if task.kind == "recv":
            lags[number] = ps(wiring.latency(*task.group))
        elif task.kind == "update":
            took[number], optimizer[task.rank] = optimizer[task.rank], 0
        elif task.lane in (SYNC, GATHER):
            lags[number] = late
        elif task.kind == "all_reduce":
            took[number], lags[number] = 0, took[number]
    return Clock(took, lags)
