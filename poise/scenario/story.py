"""`poise story`: simulates a run again with a log of one request, so that the first run costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.experiment.progress import Bars
from poise.scenario.diff import REQUESTS, RESOLVED, YAML, named, once, read_requests

if TYPE_CHECKING:
    from polars import DataFrame

    from poise.core.records.records import Run
    from poise.core.records.request_log import RequestLog
    from poise.experiment.progress import Meter
    from poise.policies import Policies
    from poise.report.story import Story
    from poise.scenario.build import Problem
    from poise.workload import Workload

MOST = 50_000
"""Requests of a run beyond which it is not simulated again for its stories."""


def show_story(run: Path, request: int, router: str | None, sets: list[str], json: str | None) -> None:
    """Tell the life of a request; print it, or write it as JSON."""
    from poise.report.story import show_lines
    from poise.scenario.write import check_json, put_json

    check_json(json)
    with Bars() as bars:
        story = tell(run, request, router, sets, bars)
    put_json({"run": named(run, sets), **story.as_dict()}, json)
    if json != "-":
        show_lines(story, f"Request {request} of {named(run, sets)}")


def tell(
    path: Path, request: int, router: str | None = None, sets: Sequence[str] = (), progress: Meter | None = None
) -> Story:
    """The story of one request of a result folder or a scenario, at its first seed.

    router: which one, where the run compares several.  sets: changes of a scenario.
    UserError where there is no such run, router or request, and where a run does not come out again as it was saved.
    """
    from poise.core.records.request_log import RequestLog
    from poise.report.requests import requests_frame
    from poise.scenario.build import build
    from poise.scenario.load import load

    file = _scenario(path)
    if sets and path.is_dir():
        raise UserError(f"--set changes a scenario, and {path} is a result; give the scenario, as in {file}")
    problem = build(load(file, sets))
    bundle = _bundle(problem, path, router)
    workload = problem.traffic.make(problem.seeds[0])
    if not 0 <= request < len(workload):
        raise _unknown(path, request, len(workload))
    diary = RequestLog(request)
    run = once(problem, bundle, workload, progress, diary=diary)
    frame = requests_frame(run, workload)
    row = _row(frame, request)
    if row is None:
        raise UserError(
            f"{path}: request {request} never arrived: the run takes no arrivals that late; give one of the "
            f"{len(frame):,} that did, the last of which is {frame['request'][-1]}"
        )
    if path.is_dir():
        _compare(row, path / REQUESTS, request)
    return story_of(diary, run, row, problem.warmup_s)


def story_of(diary: RequestLog, run: Run, row: dict[str, Any], warmup_s: float) -> Story:
    """The story of a request from its log and its `row` in the table of requests."""
    from poise.core.records.blame import PARTS
    from poise.core.units import seconds
    from poise.report.blame import STRETCHES, means
    from poise.report.latency import finished
    from poise.report.story import Story, story_lines

    typical = means(run, warmup_s) or {stretch: dict.fromkeys(PARTS, 0.0) for stretch in STRETCHES}
    return Story(
        list(story_lines(diary.happenings, row, seconds(run.ended_at))),
        row,
        {part: sum(row[f"{stretch}_{part}_s"] for stretch in STRETCHES) for part in PARTS},
        {part: sum(typical[stretch][part] for stretch in STRETCHES) for part in PARTS},
        int(finished(run, warmup_s).sum()),
    )


def stories(
    problem: Problem, policies: Policies, workload: Workload, run: Run, progress: Callable[[int, int], None]
) -> dict[int, Story]:
    """The stories of the slowest requests of `run`, that of the first seed, by number.

    None of a run of more than `MOST` requests, nor when the user stops it meanwhile.
    """
    from poise.core.records.request_log import RequestLogs
    from poise.report.requests import requests_frame
    from poise.report.worst import as_rows, worst
    from poise.scenario.run import first_seed

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


def _scenario(path: Path) -> Path:
    """The scenario file at `path`, or in the folder `path`."""
    if path.suffix.lower() in YAML:
        return path
    cure = "give a folder that `poise simulate --out DIR` wrote, or a scenario"
    if not path.is_dir():
        raise UserError(f"{path}: {'is not a folder' if path.exists() else 'no such folder'}; {cure}")
    if not (path / RESOLVED).is_file():
        raise UserError(f"{path}: has no {RESOLVED}, which a story is simulated again from; {cure}")
    return path / RESOLVED


def _bundle(problem: Problem, path: Path, router: str | None) -> tuple[str, Policies]:
    """The router's label and its policies."""
    labels = [label for label, _ in problem.bundles]
    if router is None and len(labels) == 1:
        return problem.bundles[0]
    if router in labels:
        return problem.bundles[labels.index(router)]
    text = f"has no router {router}" if router is not None else "lists several policies"
    raise UserError(f"{path}: {text}; name one with --router: {', '.join(labels)}")


def _unknown(path: Path, request: int, rows: int) -> UserError:
    return UserError(f"{path}: has no request {request}; its requests are 0 to {rows - 1}: give one of them")


def _row(frame: DataFrame, request: int) -> dict[str, Any] | None:
    found = frame.filter(frame["request"] == request)
    return found.row(0, named=True) if len(found) else None


def _compare(row: dict[str, Any], file: Path, request: int) -> None:
    """Check that the story is of the saved run: the request's row in its table must be reproduced."""
    if not file.is_file():
        return
    saved = _row(read_requests(file), request)
    wrong = [name for name in row if name in saved and saved[name] != row[name]] if saved else ["request"]
    if wrong:
        was = "nothing" if saved is None else saved[wrong[0]]
        raise UserError(
            f"{file}: has {was} as {wrong[0]} of request {request}, and the scenario beside it now gives "
            f"{row[wrong[0]]}: the run was interrupted, or is of another version of Poise; give the scenario instead"
        )
