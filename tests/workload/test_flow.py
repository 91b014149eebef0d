"""Drafted graphs: measures by hand, makespans by critical path, and refinement that loses no subtask."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.workload.aov import CHOICES, aov
from poise.workload.flow import Draft, agreement, drafts, scores
from poise.workload.refined import WAYS, Way
from tests.workload.played import Played, played

DIAMOND = Draft(((), (0,), (0,), (1, 2)))
CHAIN = Draft(((), (0,), (1,), (2,)))


def run(way: Way, took: list[int], **given: float) -> Played:
    starts = ps.workload.all_at_once(requests=3, prompt_tokens=1, output_tokens=1)
    made = aov(starts, way, prompt_tokens=1, output_tokens=1, **given)  # type: ignore[arg-type]
    return played(made, [took[row % len(took)] * SECOND for row in range(len(made))])


def test_measures_are_those_of_the_paper() -> None:
    """Four subtasks on three levels, degrees 2, 2, 2, 2; a chain has four levels and degrees 1, 2, 2, 1."""
    assert DIAMOND.parallelism == 4 / 3 and DIAMOND.complexity == 0
    assert CHAIN.parallelism == 1 and CHAIN.complexity == 0.5
    assert scores([CHAIN, DIAMOND]).argmin() == 1


@given(st.integers(1, 9), st.integers(0, 99), st.integers(1, 4))
def test_makespan_lies_between_its_bounds(tasks: int, seed: int, workers: int) -> None:
    took = np.random.default_rng(seed).integers(1, 9, tasks).tolist()
    for draft in drafts(tasks, 3, seed):
        ends: list[float] = []
        for task, before in enumerate(draft.before):
            ends.append(took[task] + max((ends[each] for each in before), default=0))
        assert draft.makespan(took) == max(ends), "with workers enough, the longest way"
        some = draft.makespan(took, workers)
        assert max(max(ends), sum(took) / workers) <= some <= sum(took)


@given(
    st.sampled_from(WAYS),
    st.sampled_from(CHOICES),
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
    st.integers(0, 9),
)
@settings(max_examples=60)
def test_every_subtask_is_done_in_order(way: Way, choose: str, took: list[int], seed: int) -> None:
    done = run(way, took, choose=choose, failing=0.3, tasks=7, seed=seed)  # type: ignore[arg-type]
    counts, sent = done.director.counts(), len(done.arrived)
    assert sent == 3 * 7 + counts["run_again"] + counts["refinements"]
    assert sent + len([*done.director.spare()]) == 3 * (7 * 6 + 5), "what was not needed is spare"
    assert counts["refinements"] == 0 if way == "none" else counts["refinements"] >= 3


@given(st.integers(0, 30))
@settings(max_examples=20)
def test_without_failures_refinement_changes_no_result(seed: int) -> None:
    for way in WAYS:
        done = run(way, [1, 2, 3], failing=0, tasks=6, seed=seed)
        assert done.director.counts()["right"] == 3 and done.director.counts()["run_again"] == 0


def test_a_stop_waits_for_the_slowest_and_the_planner() -> None:
    """Six subtasks in a chain of 1 s, refinements of 1 s after three each: two of them, or beside the work."""
    assert max(run("none", [1], choose="chain", tasks=6).ended.values()) == 6 * SECOND  # type: ignore[arg-type]
    assert max(run("barrier", [1], choose="chain", tasks=6, failing=0).ended.values()) == 8 * SECOND  # type: ignore[arg-type]
    assert max(run("merge", [1], choose="chain", tasks=6, failing=0).ended.values()) == 7 * SECOND  # type: ignore[arg-type]


def test_the_score_goes_with_the_makespan() -> None:
    found = agreement(programs=20)
    assert found.best <= found.chosen <= found.mean and 0 < found.rank <= 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="way is 'stop'; give one of none"):
        run("stop", [1])  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"subtask 1 waits for \[1\]; name earlier ones"):
        Draft(((), (1,)))
    with pytest.raises(UserError, match="failing is 1"):
        run("none", [1], failing=1)
