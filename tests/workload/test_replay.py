"""Recorded sessions under other arrivals: each as it was recorded, each on its own but for what they share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import NEVER, SECOND
from poise.workload import (
    Workload,
    closed,
    poisson,
    read,
    recorded_sessions,
    sessions,
    shared_prefixes,
    uniform,
)
from tests.workload.files import put
from tests.workload.trees import extents, joined, predecessors

SEEDS = st.integers(0, 200)


def recording(seed: int = 0) -> Workload:
    starts = poisson(1.0, requests=5, prompt_tokens=uniform(20, 60), output_tokens=uniform(2, 9), seed=seed)
    rich = shared_prefixes(starts, groups=2, prefix_tokens=40, zipf=0.0, seed=seed)
    return sessions(rich, turns=uniform(1, 4), think_s=uniform(1, 9), seed=seed)


def shapes(made: Workload) -> Counter[tuple[object, ...]]:
    """What each session is, apart from names and stamps: rows with lengths, delays and predecessors."""
    assert made.session is not None and made.delay is not None
    found: dict[int, list[tuple[object, ...]]] = {}
    place: dict[int, int] = {}
    for row, session in enumerate(made.session.tolist()):
        mine = found.setdefault(session, [])
        place[row] = len(mine)
        before = tuple(sorted(place[each] for each in predecessors(made, row)))
        mine.append((int(made.prompt[row]), int(made.output[row]), int(made.delay[row]), before))
    return Counter(tuple(rows) for rows in found.values())


@given(SEEDS, st.integers(1, 12))
def test_every_session_is_a_recorded_one(seed: int, requests: int) -> None:
    recorded = recording(seed % 7)
    starts = poisson(2.0, requests=requests, seed=seed)
    made = recorded_sessions(starts, recorded, seed=seed).check()
    assert set(shapes(made)) <= set(shapes(recorded)) and shapes(made).total() == requests
    assert made.after_offsets is not None
    first = np.diff(made.after_offsets) == 0
    assert made.arrival[first].tolist() == starts.arrival.tolist()


@given(SEEDS)
def test_what_sessions_share_stays_shared_and_the_rest_is_their_own(seed: int) -> None:
    recorded = recording(seed % 7)
    made = recorded_sessions(poisson(2.0, requests=8, seed=seed), recorded, seed=seed)
    assert recorded.session is not None and made.session is not None and made.prefixes is not None

    def holders(workload: Workload) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for row, session in enumerate(workload.session.tolist()):  # type: ignore[union-attr]
            for extent, _ in extents(workload, row):
                found.setdefault(extent, set()).add(session)
        return found

    shared = sum(len(names) > 1 for names in holders(recorded).values())
    assert sum(len(names) > 1 for names in holders(made).values()) <= shared
    # Within a session a turn still begins with all that was said.
    for row in range(len(made)):
        for before in predecessors(made, row):
            heard = extents(made, before)
            assert extents(made, row)[: len(heard)] == heard
            assert made.prefixes.output is not None
            assert extents(made, row)[len(heard)][0] == made.prefixes.output[before]


@given(joined(), SEEDS)
def test_any_joins_are_kept(workload: Workload, seed: int) -> None:
    made = recorded_sessions(poisson(1.0, requests=6, seed=seed), workload, seed=seed).check()
    # Prompts are unique in the recording, so they name its rows.
    for row in range(len(made)):
        wanted = [int(workload.prompt[each]) for each in predecessors(workload, int(made.prompt[row]) - 1)]
        assert sorted(int(made.prompt[each]) for each in predecessors(made, row)) == sorted(wanted)


TEXT = "arrival_s,session,prompt_tokens,output_tokens\n0,a,10,1\n1,b,20,2\n2,a,11,3\n5,a,12,4\n6,b,21,5\n"


def test_without_joins_a_session_goes_on_in_order(tmp_path: Path) -> None:
    recorded = read(put(tmp_path, "t.csv", TEXT))
    made = recorded_sessions(poisson(1.0, requests=30), recorded, think_s=7.5, seed=1).check()
    assert set(shapes(made)) == {
        ((10, 1, 0, ()), (11, 3, 15 * SECOND // 2, (0,)), (12, 4, 15 * SECOND // 2, (1,))),
        ((20, 2, 0, ()), (21, 5, 15 * SECOND // 2, (0,))),
    }
    with pytest.raises(ScenarioError, match="does not say who waits for whom; give think_s"):
        recorded_sessions(poisson(1.0, requests=3), recorded)


def test_own_think_times_take_the_place_of_recorded_ones() -> None:
    made = recorded_sessions(poisson(1.0, requests=40), recording(), think_s={"exponential": 4}, seed=2)
    assert made.after_offsets is not None and made.delay is not None
    waits = np.diff(made.after_offsets) > 0
    assert made.delay[waits].mean() / SECOND == pytest.approx(4, rel=0.35) and not made.delay[~waits].any()


def test_clients_of_the_starts_stay() -> None:
    starts = poisson(1.0, requests=4, priority=-2, timeout_s=9, retry=3)
    made = recorded_sessions(starts, recording()).check()
    assert made.priority is not None and set(made.priority.tolist()) == {-2}
    assert made.timeout is not None and set(made.timeout.tolist()) == {9 * SECOND} and made.retry == 3


def test_arrivals_without_end() -> None:
    made = recorded_sessions(poisson(2.0), recording(), seed=4)
    assert made.endless is not None
    drawn = made.endless(20.0)
    again = recorded_sessions(poisson(2.0, duration_s=20), recording(), seed=4)
    assert drawn.arrival.tolist() == again.arrival.tolist()


def test_starts_and_recordings_must_fit() -> None:
    recorded, starts = recording(), poisson(1.0, requests=3)
    for wrong in (closed(2, 3), recorded, shared_prefixes(starts, groups=1, prefix_tokens=5)):
        with pytest.raises(ScenarioError, match="need open load"):
            recorded_sessions(wrong, recorded)
    with pytest.raises(ScenarioError, match="max_tokens is given"):
        recorded_sessions(poisson(1.0, requests=3, max_tokens=5), recorded)
    with pytest.raises(ScenarioError, match="the recording has no sessions"):
        recorded_sessions(starts, starts)
    starts.arrival = starts.arrival + NEVER - int(starts.arrival[-1]) - 1
    with pytest.raises(ScenarioError, match="longer than 53 days"):
        recorded_sessions(starts, recorded)
