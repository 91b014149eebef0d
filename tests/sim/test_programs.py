"""What policies are told of a session's program: turn, stage, when it began, and at its end which tool comes."""

from __future__ import annotations

import numpy as np

from poise.core.request import NO_TOOL, UNKNOWN_TOOL
from poise.sim.arrivals import Arrivals, turns
from poise.workload.table import Workload


def _workload(**columns: object) -> Workload:
    rows = np.full(4, 10, dtype=np.int32)
    return Workload(np.arange(4) * 100, rows, rows, **columns)  # type: ignore[arg-type]


def test_turns_count_the_earlier_rows_of_a_session() -> None:
    assert turns(np.array([3, -1, 3, 0, -1, 3])).tolist() == [0, 0, 1, 0, 0, 2]


def test_a_session_begins_with_its_first_arrival() -> None:
    arrivals = Arrivals(_workload(session=np.array([0, 1, 0, -1], dtype=np.int32)))
    views = [arrivals.view(row, at) for row, at in ((0, 5), (1, 100), (2, 900), (3, 950))]
    assert [view.begun_at for view in views] == [5, 100, 5, 950]
    assert [view.turn for view in views] == [0, 0, 1, 0]
    assert arrivals.view(0, 7).begun_at == 5, "one that comes again began when it first came"


def test_without_sessions_each_request_is_its_own_program() -> None:
    view = Arrivals(_workload()).view(2, 300)
    assert (view.turn, view.stage, view.begun_at) == (0, -1, 300)


def test_stage_and_tool_are_indices_of_names() -> None:
    stage, tool = np.array([1, 0, -1, 1], dtype=np.int16), np.array([0, -1, 0, -1], dtype=np.int16)
    workload = _workload(stage=stage, stages=("plan", "code"), tool=tool, tools=("bash",)).check()
    arrivals = Arrivals(workload)
    assert [arrivals.view(row, 0).stage for row in range(4)] == [1, 0, -1, 1]
    assert [arrivals.running(arrivals.view(row, 0), 9).tool for row in range(4)] == [0, NO_TOOL, 0, NO_TOOL]
    plain = Arrivals(_workload())
    assert plain.running(plain.view(0, 0), 9).tool == UNKNOWN_TOOL
