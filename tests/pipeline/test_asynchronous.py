"""PipeDream and pipelined backpropagation: partitions, versions, staleness, and what makes up for delays."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, check, make, time
from poise.pipeline.delay import delay, small_batch, spike
from poise.pipeline.late_steps import largest_step, radius
from poise.pipeline.partition import Layer, Level, Partition, Stage, partition

few = settings(max_examples=60, deadline=None)
ranks = st.integers(1, 8)
numbers = st.integers(0, 9).map(Fraction)


def every(count: int, devices: int) -> Iterator[list[tuple[int, int, int]]]:
    """All ways to cut `count` layers into stages of consecutive layers with replicas that use all devices."""

    def ways(first: int, left: int) -> Iterator[list[tuple[int, int, int]]]:
        for last in range(first, count):
            if last == count - 1 and left:
                yield [(first, last, left)]
            for used in range(1, left):
                yield from ([(first, last, used), *rest] for rest in ways(last + 1, left - used))

    return ways(0, devices)


def cost(layers: list[Layer], bandwidth: Fraction, stages: list[tuple[int, int, int]]) -> Fraction:
    """Time per input of one level, by the paper's words."""
    found = Fraction(0)
    for first, last, count in stages:
        own = layers[first : last + 1]
        sync = Fraction(2 * (count - 1), count) * sum(each.weights for each in own) / bandwidth
        found = max(found, max(sum((each.time for each in own), Fraction(0)), sync) / count)
        if last + 1 < len(layers):
            found = max(found, 2 * layers[last].output / bandwidth)
    return found


layer = st.builds(Layer, st.integers(1, 9).map(Fraction), numbers, numbers)


@few
@given(st.lists(layer, min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 6))
def test_the_partition_is_that_of_exhaustive_search(layers: list[Layer], devices: int, bandwidth: int) -> None:
    found = partition(layers, [Level(devices, Fraction(bandwidth))])
    best = min(cost(layers, Fraction(bandwidth), stages) for stages in every(len(layers), devices))
    as_list = [(each.first, each.last, each.replicas) for each in found.stages]
    assert found.time == best == cost(layers, Fraction(bandwidth), as_list)
    assert sum(each.replicas for each in found.stages) == devices


@few
@given(st.lists(layer, min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 2), st.integers(1, 6))
def test_two_levels_by_exhaustive_search(layers: list[Layer], hosts: int, devices: int, bandwidth: int) -> None:
    """A host is a pipeline of its devices; the outer level sees only how long that takes."""
    outer, inner = Fraction(bandwidth), Fraction(2 * bandwidth)
    found = partition(layers, [Level(devices, inner), Level(hosts, outer)])

    def host(first: int, last: int) -> Fraction:
        own = layers[first : last + 1]
        return min(cost(own, inner, stages) for stages in every(len(own), devices))

    best = None
    for stages in every(len(layers), hosts):
        took = Fraction(0)
        for first, last, count in stages:
            weights = sum((each.weights for each in layers[first : last + 1]), Fraction(0))
            took = max(took, max(host(first, last), Fraction(2 * (count - 1), count) * weights / outer) / count)
            if last + 1 < len(layers):
                took = max(took, 2 * layers[last].output / outer)
        best = took if best is None else min(best, took)
    assert found.time == best
    assert sum(each.replicas for each in found.stages) == hosts * devices


def test_a_partition_becomes_a_schedule() -> None:
    layers = [Layer(Fraction(6), Fraction(1), Fraction(0)), Layer(Fraction(3), Fraction(1), Fraction(900))]
    found = partition(layers, [Level(3, Fraction(100))])
    assert found == Partition(Fraction(3), (Stage(0, 0, 2), Stage(1, 1, 1)))
    schedule = make("pipedream", 3, 60, replicas=[each.replicas for each in found.stages])
    took = time(schedule, Costs.of(f=[2, 1], b=[2, 1], w=[2, 1])).makespan
    assert took / 60 < Fraction(found.time) + Fraction(1, 4)


@few
@given(ranks, st.integers(1, 12))
def test_pipedream_keeps_the_weights_of_the_forward(p: int, more: int) -> None:
    m = 2 * p + more
    schedule = make("pipedream", p, m)
    held = [0] * p
    for (stage, batch), version in schedule.versions.items():
        assert version.forward == version.backward == max(0, batch - (p - 1 - stage))
        held[stage] = max(held[stage], version.newest - version.backward + 1)
    assert held == [p - stage for stage in range(p)]
    assert list(check(schedule).peak_memory) == [p - stage for stage in range(p)]
    timing = time(schedule)
    assert timing.makespan == 3 * (m + p - 1)


@few
@given(ranks, st.integers(1, 12))
def test_with_vertical_sync_every_stage_uses_the_first_ones_version(p: int, m: int) -> None:
    schedule = make("pipedream", p, m, vertical=True)
    for (_, batch), version in schedule.versions.items():
        assert version.forward == version.backward == max(0, batch - (p - 1))


@few
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(1, 20))
def test_replicas_take_turns(replicas: list[int], m: int) -> None:
    schedule = make("pipedream", sum(replicas), m, replicas=replicas)
    check(schedule)
    first = [sum(replicas[:stage]) for stage in range(len(replicas))]
    for rank, row in enumerate(schedule.ranks):
        for op in row:
            assert op.microbatch is not None and rank == first[op.stage] + op.microbatch % replicas[op.stage]
    ahead = min(len(range(0, m, replicas[0])), -(-sum(replicas) // replicas[0]))
    assert [op.kind.name for op in schedule.ranks[0]].index("B") == ahead


@few
@given(ranks, st.integers(1, 30))
def test_pipelined_backpropagation_is_late_by_its_delay(p: int, m: int) -> None:
    schedule = make("pipelined_backprop", p, m)
    for (stage, batch), version in schedule.versions.items():
        assert version.backward == version.newest == batch
        assert version.newest - version.forward == min(batch, delay(p, stage))
    assert list(check(schedule).peak_memory) == [min(m, 2 * (p - stage) - 1) for stage in range(p)]


def test_pipelined_backpropagation_is_always_busy() -> None:
    for p in (1, 4, 8):
        for work in (Costs.of(2, 1, 1), Costs.of()):
            long, short = (time(make("pipelined_backprop", p, m), work).makespan for m in (200, 100))
            assert long - short == 100 * (4 if work != Costs.of() else 3)


@pytest.mark.parametrize(
    ("late", "compensate", "predict", "largest"),
    [
        (4, False, False, 0.026), (4, True, False, 0.048), (4, False, True, 0.050), (4, True, True, 0.040),
        (16, False, False, 0.0074), (16, True, False, 0.0095), (16, False, True, 0.0076), (16, True, True, 0.0060),
    ],
)  # fmt: skip
def test_the_largest_stable_step_on_a_quadratic(late: int, compensate: bool, predict: bool, largest: float) -> None:
    """At m = 0.9, to two digits: each method helps alone, both together no more than one."""
    horizon = late if predict else 0
    assert radius(0.9, late, 0.96 * largest, compensate, horizon) < 1
    assert radius(0.9, late, 1.05 * largest, compensate, horizon) > 1
    found = largest_step(0.9, late, compensate, predict)
    assert radius(0.9, late, found, compensate, horizon) < 1 < radius(0.9, late, 1.001 * found, compensate, horizon)


@pytest.mark.parametrize(
    ("compensate", "predict", "least"),
    [(False, False, 3e-2), (True, False, 8e-4), (False, True, 8e-4), (True, True, 2e-3)],
)
def test_the_least_error_at_condition_number_100(compensate: bool, predict: bool, least: float) -> None:
    """Delay 4, m = 0.9, after 1500 steps at the best step size: the published digit, which hangs on its grid."""
    curve, rates, late = np.array([[1.0], [0.01]]), np.geomspace(0.01, 0.1, 200), 4
    step = spike(0.9, late) if compensate else (1.0, 0.0)
    weights, velocities = [np.ones((2, 200))] * (late + 1), [np.zeros((2, 200))] * (late + 1)
    with np.errstate(all="ignore"):
        for _ in range(1500):
            gradient = curve * (weights[-1] - (late if predict else 0) * rates * velocities[-1])
            velocity = 0.9 * velocities[0] + gradient
            weight = weights[0] - rates * (step[0] * velocity + step[1] * gradient)
            weights, velocities = [weight, *weights[:-1]], [velocity, *velocities[:-1]]
        error = np.nan_to_num(np.linalg.norm(weights[0], axis=0), nan=np.inf).min()
    assert least / 1.5 < error < least * 1.5


def test_without_momentum_compensation_is_the_plain_step_and_prediction_does_harm() -> None:
    assert spike(0, 4) == (0, 1) and spike(0.9, 0) == (1, 0)
    rate = 0.17
    assert radius(0, 4, rate, True, 0) == pytest.approx(radius(0, 4, rate, False, 0))
    assert radius(0, 4, rate, False, 4) > radius(0, 4, rate, False, 0)


def test_momentum_and_step_of_small_batches() -> None:
    momentum, rate = small_batch(0.9, 0.1, 1 / 32)
    assert momentum**32 == pytest.approx(0.9)
    assert rate / (1 - momentum) == pytest.approx(0.1 / 32 / (1 - 0.9))
    assert small_batch(0.9, 0.1, 1) == (0.9, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("replicas", "message"), [((2, 1), "have 3 ranks of 4"), ((4, 0), "of 1 or more"), ((), "ranks")]
)
def test_replicas_use_all_ranks(replicas: tuple[int, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        make("pipedream", 4, 8, replicas=replicas)
