"""PipeDream and pipelined backpropagation: versions, staleness, and what makes up for delays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, check, make, time
from poise.pipeline.delay import delay, predicted, small_batch, spike

few = settings(max_examples=60, deadline=None)
ranks = st.integers(1, 8)


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


def radius(momentum: float, late: int, rate: float, compensate: bool, horizon: float) -> float:
    """Spectral radius of training on g = w, a linear map of the weights and velocities of the last updates."""
    count = late + 1
    step = spike(momentum, late) if compensate else (1.0, 0.0)

    def update(state: np.ndarray) -> np.ndarray:
        weights, velocities = state[:count], state[count:]
        gradient = predicted(float(weights[late]), float(velocities[late]), rate, horizon)
        velocity = momentum * velocities[0] + gradient
        weight = weights[0] - rate * (step[0] * velocity + step[1] * gradient)
        return np.concatenate([[weight], weights[:-1], [velocity], velocities[:-1]])

    matrix = np.array([update(unit) for unit in np.eye(2 * count)]).T
    return float(max(abs(np.linalg.eigvals(matrix))))


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


@pytest.mark.parametrize(("replicas", "said"), [((2, 1), "have 3 ranks of 4"), ((4, 0), "of 1 or more"), ((), "ranks")])
def test_replicas_use_all_ranks(replicas: tuple[int, ...], said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        make("pipedream", 4, 8, replicas=replicas)
