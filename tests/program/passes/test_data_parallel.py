"""Replicas and buckets: every update gets every sample of all replicas, once; what overlaps is the closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import Schedule, make, names
from poise.pipeline.lower import program_of
from poise.program import Lane, Program
from poise.program.passes import bucketed, data_parallel, gathered, reduced, replicated
from poise.sim.links import Wiring
from poise.sim.program import Clock, simulate
from tests.program.passes.layers import BACKWARD_S, FORWARD_S, layers, seconds

FLUSH = [name for name in names() if make(name, 4, 8).updates == "flush"]


def shards(schedule: Schedule) -> dict[str, float]:
    return {f"out{rank}": 3.0 for rank in range(4)} if schedule.barriers else {}


@pytest.mark.parametrize("name", FLUSH)
@pytest.mark.parametrize("accumulate", [True, False])
def test_every_schedule_in_three_replicas_is_proven(name: str, accumulate: bool) -> None:
    schedule = make(name, 4, 8)
    program, bytes = program_of(schedule), [1.0] * schedule.stages
    found = data_parallel(program, 3, bytes, others=shards(schedule), cap=2, first=1, accumulate=accumulate)
    found.prove()
    assert found.ranks == 12 and len(found.paths) == 24
    assert all(len(demand) == 3 * len(program.demands[name]) for name, demand in found.demands.items())
    assert all(sum(demand.values()) == sum(program.demands[name].values()) for name, demand in found.demands.items())


@pytest.mark.parametrize("name", FLUSH)
def test_every_schedule_with_sharded_weights_is_proven(name: str) -> None:
    """Each replica has a part of the weights, gathers it for every run, and gets that part of the gradients."""
    schedule = make(name, 4, 8)
    each = [1.0] * schedule.stages
    program = reduced(gathered(program_of(schedule), each), each, "run", "reduce_scatter")
    program = reduced(program, [0.0] * schedule.stages, others=shards(schedule))
    found = replicated(program, 2)
    found.prove()
    assert {part for content in found.given.values() for part in [content.part]} == {(0, 1), (0, 2), (1, 2)}


def without(program: Program, rank: int, slot: int) -> Program:
    """Without one reduction: what read its result reads the sum before it."""
    lane = Lane(rank, "sync")
    gone = program.rows[lane][slot]
    names = dict(zip(gone.writes, gone.reads, strict=True))
    rows = {
        each: [task._replace(reads=tuple(names.get(name, name) for name in task.reads)) for task in row if task != gone]
        for each, row in program.rows.items()
    }
    return program.with_rows(rows)


def test_a_gradient_that_is_not_summed_over_replicas_is_refused() -> None:
    program = program_of(make("one_f_one_b", 2, 4))
    with pytest.raises(ProgramError, match=r"gradient of w\d by stage \d of sample \d is missing"):
        replicated(program, 2).prove()
    found = data_parallel(program, 2, [1.0, 1.0])
    with pytest.raises(ProgramError, match=r"has no part on rank 0; all of \[0, 2\] must take part"):
        without(found, 0, 0).prove()
    with pytest.raises(ProgramError, match=r"gradient of w1 by stage 1 of sample \d is missing"):
        without(without(found, 1, 0), 3, 0).prove()


def test_replicas_that_reduce_in_unlike_order_are_refused() -> None:
    found = data_parallel(layers(2), 2, [1.0, 1.0], cap=0, first=0)
    lane = Lane(1, "sync")
    rows = {**found.rows, lane: found.rows[lane][::-1]}
    with pytest.raises(ProgramError, match="collectives of a group match in order"):
        replace(found, rows=rows).prove()


def test_buckets_are_in_reverse_order_and_closed_by_the_gradient_that_fills_them() -> None:
    program = bucketed(reduced(layers(6), [4.0, 1.0, 1.0, 9.0, 1.0, 1.0]), cap=3, first=1)
    assert [(task.arg, task.work) for task in program.rows[Lane(0, "sync")]] == [
        (5, 1.0), ((4, 3), 10.0), ((2, 1, 0), 6.0)
    ]  # fmt: skip
    program.prove()


def test_accumulating_sums_once_a_step_and_else_behind_every_backward() -> None:
    works = []
    for accumulate in (True, False):
        found = data_parallel(layers(3, 4), 2, [8.0] * 3, accumulate=accumulate)
        found.prove()
        works.append(sum(task.work for task in found.rows[Lane(0, "sync")]))
    assert works == [24.0, 4 * 24.0]


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("bytes_per_s", [2.0, 50.0])
def test_simulated_overlap_is_the_closed_form(replicas: int, size: int, bytes_per_s: float) -> None:
    """12 equal layers in buckets of `size`: each goes behind its last backward, and behind the bucket before."""
    count, gradient = 12, 8.0
    found = data_parallel(layers(count), replicas, [gradient] * count, cap=size * gradient, first=size * gradient)
    found.prove()
    wiring = Wiring.nodes(replicas, scaleup_bw=1.0, scaleout_bw=bytes_per_s)
    step = simulate(found, Clock.of(found, wiring, seconds), wiring)
    sent = 2 * (replicas - 1) / replicas * size * gradient / bytes_per_s
    buckets = count // size
    alone = count * FORWARD_S + size * BACKWARD_S
    assert step.makespan_s == pytest.approx(alone + (buckets - 1) * max(size * BACKWARD_S, sent) + sent)


def test_one_replica_is_the_program_itself() -> None:
    program = program_of(make("zb_v", 4, 8))
    assert replicated(program, 1) == program
    assert data_parallel(program, 1, [1.0] * 8) == program


def test_what_cannot_be() -> None:
    with pytest.raises(ProgramError, match="replicas would drift apart; take a schedule that updates once a step"):
        replicated(program_of(make("pipedream", 2, 4)), 2)
    with pytest.raises(ProgramError, match="data_parallel: 0 replicas; give 1 or more"):
        data_parallel(layers(2), 0, [1.0, 1.0])
    with pytest.raises(ProgramError, match="bucketed: cap is -1 bytes; give 0"):
        bucketed(layers(2), cap=-1)
