"""Programs by three ways of orchestration: bounds that none beats, closed forms, and what an engine adds to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.workload.matrix import WAYS, Way, conversations, orchestrated
from poise.workload.rows import take
from tests.workload.played import played

CALLS = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=25)


def rows_of(calls: list[list[int]]) -> ps.Workload:
    """Programs of one call after another, all there at once."""
    starts = ps.workload.all_at_once(requests=len(calls), prompt_tokens=10, output_tokens=10)
    longest = ps.workload.sessions(starts, turns=max(map(len, calls)), think_s=0)
    turn = np.arange(len(longest)) // len(calls)
    assert longest.session is not None
    kept = [row for row, of in enumerate(longest.session.tolist()) if turn[row] < len(calls[of])]
    return take(longest, np.array(kept))


def seconds(calls: list[list[int]], way: Way, most: int, step_s: float) -> float:
    """Until the last call has ended, where call i of a row takes so many seconds."""
    many = rows_of(calls)
    seen = [0] * len(calls)
    took = []
    assert many.session is not None
    for of in many.session.tolist():
        took.append(calls[of][seen[of]] * SECOND)
        seen[of] += 1
    done = played(orchestrated(many, way, in_flight=most, step_s=step_s), took)
    assert len(done.ended) == len(many)
    return max(done.ended.values()) / SECOND


@given(CALLS, st.integers(1, 9))
@settings(max_examples=60)
def test_no_way_beats_the_bounds(calls: list[list[int]], most: int) -> None:
    work, longest = sum(map(sum, calls)), max(sum(row) + 0.5 * (len(row) - 1) for row in calls)
    by_way = {way: seconds(calls, way, most, 0.5) for way in WAYS}
    assert min(by_way.values()) >= max(longest, work / most) - 1e-9
    if most >= len(calls):
        assert by_way["central"] >= by_way["rows"] - 1e-9, "where all begin at once, the loop only adds waiting"


@given(CALLS)
@settings(max_examples=30)
def test_with_room_for_all_a_run_lasts_as_its_longest_row(calls: list[list[int]]) -> None:
    assert {seconds(calls, way, 100, 0) for way in WAYS} == {max(map(sum, calls))}


def test_a_batch_waits_for_its_slowest_row() -> None:
    calls = [[1], [9], [1], [1], [1], [9]]
    assert seconds(calls, "batch", 2, 0) == 9 + 1 + 9
    assert seconds(calls, "rows", 2, 0) == 4 + 9


def test_counts_end_when_the_last_row_begins() -> None:
    done = played(
        orchestrated(rows_of([[1], [9], [1], [1]]), "rows", in_flight=2, step_s=0), [SECOND, 9 * SECOND] + [SECOND] * 2
    )
    assert done.director.counts() == {"answers": 2, "tokens": 20, "seconds": 2.0}


def test_the_central_loop_takes_one_step_at_a_time() -> None:
    assert seconds([[1, 1]] * 100, "central", 100, 0.5) == 1 + 100 * 0.5 + 1
    assert seconds([[1, 1]] * 100, "rows", 100, 0.5) == 1 + 0.5 + 1


def test_no_more_rows_are_under_way_than_allowed() -> None:
    starts = ps.workload.all_at_once(requests=40, prompt_tokens=200, output_tokens={"exponential": 80})
    many = orchestrated(ps.workload.sessions(starts, turns=3, think_s=0.2), "rows", in_flight=8, step_s=0.01)
    run = ps.simulate(ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b"), many)
    records, of = run.run.records, np.array(many.session)
    came, gone = np.array(records.arrived_at), np.array(records.ended_at)
    spans = np.array([(came[of == each].min(), gone[of == each].max()) for each in range(40)])
    assert max(((spans[:, 0] <= at) & (spans[:, 1] > at)).sum() for at in spans[:, 0]) == 8
    for each in range(40):
        gaps = came[of == each][1:] - gone[of == each][:-1]
        assert (gaps == round(0.21 * SECOND)).all(), "a step, then the tool"


def test_what_cannot_be_is_refused() -> None:
    assert conversations(2, turns=2, call_s=1.0) == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(UserError, match="way is 'peer'; give one of central"):
        orchestrated(rows_of([[1]]), "peer")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the workload has none; give it workflows or sessions"):
        orchestrated(ps.workload.poisson(1, requests=3), "rows")
    with pytest.raises(UserError, match="cannot be scaled or cut"):
        orchestrated(rows_of([[1]]), "rows").head(1)
