"""The stories of the slowest requests of a run: it is simulated once more, with their logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poise.core.records.request_log import RequestLogs
from poise.report.requests import requests_frame
from poise.report.worst import as_rows, worst
from poise.scenario.run import first_seed
from poise.scenario.story import story_of

if TYPE_CHECKING:
    from poise.core.records.records import Run
    from poise.policies import Policies
    from poise.report.story import Story
    from poise.scenario.build import Problem
    from poise.workload import Workload

MOST = 50_000
"""Requests of a run beyond which it is not simulated again for its stories."""


def stories(
    problem: Problem, policies: Policies, workload: Workload, run: Run, progress: Callable[[int, int], None]
) -> dict[int, Story]:
    """The stories of the slowest requests of `run`, that of the first seed, by number.

    None of a run of more than `MOST` requests, nor when the user stops it meanwhile.
    """
    rows = {int(row["request"] or 0) for each in worst(run, problem.warmup_s).values() for row in as_rows(each)}
    if not rows or len(workload) > MOST:
        return {}
    diaries = RequestLogs(sorted(rows))
    again = first_seed(problem, policies, workload, diary=diaries, progress=progress)
    if again.interrupted:
        return {}
    frame = requests_frame(again, workload)
    chosen = frame.filter(frame["request"].is_in(list(diaries.logs)))
    return {
        row["request"]: story_of(diaries.logs[row["request"]], again, row, problem.warmup_s)
        for row in chosen.iter_rows(named=True)
    }
