"""Sessions: each turn waits for the one before and begins with all that was said."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import (
    Workload,
    all_at_once,
    closed,
    exponential,
    geometric,
    poisson,
    sessions,
    shared_prefixes,
    uniform,
)
from tests.workload.trees import extents, predecessors


def conversations(seed: int, shared: bool, max_context: int | None = None) -> tuple[Workload, Workload]:
    starts = poisson(3.0, requests=12, prompt_tokens=uniform(1, 30), output_tokens=uniform(1, 9), seed=seed)
    if shared:
        starts = shared_prefixes(starts, groups=3, prefix_tokens=40, depth=2, seed=seed)
    made = sessions(
        starts,
        turns=geometric(3),
        think_s=exponential(5),
        user_tokens=uniform(1, 7),
        max_context=max_context,
        seed=seed,
    )
    return starts, made.check()


def turns_of(made: Workload) -> list[list[int]]:
    assert made.session is not None
    return [np.flatnonzero(made.session == session).tolist() for session in range(int(made.session.max()) + 1)]


@given(st.integers(0, 200), st.booleans())
def test_a_turn_begins_with_its_whole_history(seed: int, shared: bool) -> None:
    starts, made = conversations(seed, shared)
    assert made.prefixes is not None and made.prefixes.output is not None and made.delay is not None
    for session, rows in enumerate(turns_of(made)):
        first = rows[0]
        assert predecessors(made, first) == [] and made.delay[first] == 0
        assert (made.arrival[first], made.prompt[first]) == (starts.arrival[session], starts.prompt[session])
        for earlier, later in pairwise(rows):
            assert predecessors(made, later) == [earlier]
            history = int(made.prompt[earlier]) + int(made.output[earlier])
            assert 1 <= made.prompt[later] - history <= 7
            heard = [*extents(made, earlier), (int(made.prefixes.output[earlier]), history)]
            assert extents(made, later)[: len(heard)] == heard
            assert made.arrival[later] == made.arrival[earlier] + made.delay[later]
        assert extents(made, rows[-1])[-1][1] == made.prompt[rows[-1]]


def test_shared_prefixes_stay_at_the_beginning() -> None:
    starts, made = conversations(5, shared=True)
    for session, rows in enumerate(turns_of(made)):
        assert all(extents(made, row)[:2] == extents(starts, session) for row in rows)


@given(st.integers(0, 100))
def test_a_session_ends_before_its_context_is_full(seed: int) -> None:
    _, free = conversations(seed, shared=False)
    _, bound = conversations(seed, shared=False, max_context=60)
    for whole, cut in zip(turns_of(free), turns_of(bound), strict=True):
        fitting = [row for row in whole if free.prompt[row] + free.output[row] <= 60] or whole[:1]
        assert free.prompt[fitting].tolist() == bound.prompt[cut].tolist()


def test_turns_and_think_times_have_their_means() -> None:
    made = sessions(poisson(10.0, requests=4000), turns=geometric(4), think_s=exponential(6))
    assert made.delay is not None and made.after_offsets is not None
    assert len(made) / 4000 == pytest.approx(4.0, rel=0.06)
    later = np.diff(made.after_offsets) > 0
    assert made.delay[later].mean() / SECOND == pytest.approx(6.0, rel=0.06)
    assert not made.delay[~later].any()


def test_answers_have_their_own_lengths_when_given() -> None:
    made = sessions(poisson(10.0, requests=20, output_tokens=5), turns=3, output_tokens=50)
    assert made.after_offsets is not None
    later = np.diff(made.after_offsets) > 0
    assert set(made.output[later].tolist()) == {50} and set(made.output[~later].tolist()) == {5}


def test_the_clients_limit_bounds_every_answer() -> None:
    made = sessions(poisson(10.0, requests=20, max_tokens=30), turns=3, output_tokens=50).check()
    assert made.output.max() == 30


def test_sessions_of_a_recorded_prompt_that_is_shared_to_its_end() -> None:
    starts = shared_prefixes(poisson(1.0, requests=3), groups=1, prefix_tokens=100)
    assert starts.prefixes is not None
    starts.prompt = starts.prefixes.ends.copy()
    sessions(starts, turns=2).check()


def test_many_users_at_once() -> None:
    made = sessions(all_at_once(5), turns=2, think_s=0).check()
    assert len(made) == 10 and not made.arrival.any()


def test_starts_must_be_independent() -> None:
    starts = poisson(1.0, requests=3)
    with pytest.raises(ScenarioError, match="open load without sessions"):
        sessions(closed(2, 3))
    with pytest.raises(ScenarioError, match="open load without sessions"):
        sessions(sessions(starts))
    with pytest.raises(ScenarioError, match="turns is -1"):
        sessions(starts, turns=-1)
    with pytest.raises(ScenarioError, match="think_s is 'long'"):
        sessions(starts, think_s="long")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="max_context is 0"):
        sessions(starts, max_context=0)
    with pytest.raises(ScenarioError, match="give max_context"):
        sessions(starts, turns=3, user_tokens=2_000_000_000)
