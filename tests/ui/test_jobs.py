"""Runs: their files, their order, how they fail, how they are cancelled, and what is known of them another day."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from poise.core.errors import UserError
from poise.ui.beside import beside
from poise.ui.folder import Folder
from poise.ui.form import Form
from poise.ui.jobs import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Jobs, Meter, Progress
from tests.patience import turns, until
from tests.ui.house import LONG, SMALL


def form(given: dict[str, Any], **changes: Any) -> Form:
    return msgspec.convert({**given, **changes}, Form)


def gone(group: int) -> bool:
    """Whether no process of a group is left; the system takes a moment to collect the last ones."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


async def ended(jobs: Jobs, *names: str) -> None:
    await until(lambda: all(jobs.runs[name].state not in (QUEUED, RUNNING) for name in names))


def test_a_run_leaves_its_files_and_can_be_put_beside_another(tmp_path: Path) -> None:
    async def main() -> None:
        folder = Folder(tmp_path)
        jobs = Jobs(folder)
        first, second = jobs.start(form(SMALL)), jobs.start(form(SMALL, replicas=1))
        assert (first, second) == ("compare", "compare-2")
        assert jobs.runs[second].state == QUEUED
        await ended(jobs, first, second)
        assert [run.state for run in jobs.runs.values()] == [DONE, DONE]
        expected = {"report.html", "result.json", "scenario.yaml", "command.txt", "run.json", "log.txt"}
        assert expected <= set(jobs.runs[first].files)
        assert (tmp_path / "runs/compare/command.txt").read_text() == (
            "poise compare runs/compare/scenario.yaml --out runs/compare\n"
        )
        table = beside({name: folder.run(name) for name in (first, second)})
        titles = {each["title"] for each in table["groups"]}
        assert titles == {"round_robin, load 1", "least_requests, load 1"}
        results = [json.loads((folder.run(name) / "result.json").read_text()) for name in (first, second)]
        for group in table["groups"]:
            policy = group["title"].partition(",")[0]
            rows = {row["label"]: row["cells"] for row in group["rows"]}
            counts = [each["loads"][0]["policies"][policy]["finished"] for each in results]
            assert [cell["text"] for cell in rows["Finished"]] == [f"{count:.0f}" for count in counts]
            assert rows["Requests"][1]["difference"] == "the same"
        story = await jobs.answer(["poise", "story", "runs/compare", "3", "--router=round_robin", "--json", "-"])
        assert story["request"]["request"] == 3
        with pytest.raises(UserError, match="has no request 99"):
            await jobs.answer(["poise", "story", "runs/compare", "99", "--router=round_robin", "--json", "-"])
        again = Jobs(folder)
        assert again.runs == jobs.runs

    asyncio.run(main())


def test_a_run_that_fails_says_why_as_its_command_does(tmp_path: Path) -> None:
    async def main() -> None:
        jobs = Jobs(Folder(tmp_path))
        name = jobs.start(form(SMALL, device="L4", model="llama-3.1-405b"))
        await ended(jobs, name)
        assert jobs.runs[name].state == FAILED
        assert "does not fit L4" in jobs.runs[name].error
        assert not jobs.runs[name].error.startswith("poise")
        assert jobs.runs[name].error in (tmp_path / "runs" / name / "log.txt").read_text()

    asyncio.run(main())


def test_a_run_is_cancelled_with_its_processes_and_the_next_one_begins(tmp_path: Path) -> None:
    async def main() -> None:
        jobs = Jobs(Folder(tmp_path))
        long, queued, last = jobs.start(form(LONG)), jobs.start(form(LONG)), jobs.start(form(LONG))
        await until(lambda: jobs.runs[long].state == RUNNING and jobs._processes)
        [process] = jobs._processes
        jobs.cancel(queued)
        jobs.cancel(long)
        await ended(jobs, long, queued)
        assert [jobs.runs[name].state for name in (long, queued)] == [CANCELLED, CANCELLED]
        await until(lambda: gone(process.pid))
        with pytest.raises(UserError, match="is not under way"):
            jobs.cancel(long)
        await until(lambda: jobs.runs[last].state == RUNNING and jobs._processes)
        [process] = jobs._processes
        await jobs.stop()
        assert jobs.runs[last].state == CANCELLED
        await until(lambda: gone(process.pid))

    asyncio.run(main())


def test_a_run_that_is_cancelled_while_its_process_starts_ends(tmp_path: Path) -> None:
    """asyncio waits for ever for a process whose start was cancelled before its pipes were connected."""

    async def main() -> None:
        jobs = Jobs(Folder(tmp_path))
        for looks in range(20):
            name = jobs.start(form(LONG))
            await turns(looks)
            jobs.cancel(name)
            await ended(jobs, name)
            assert jobs.runs[name].state == CANCELLED and not jobs._processes

    asyncio.run(main())


def test_a_run_that_was_under_way_when_the_page_ended_is_cancelled(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (folder.runs / "a").mkdir()
    record = {"name": "a", "what": "plan", "command": ["poise", "plan"], "began": "2026-11-24T10:00:00+00:00"}
    (folder.runs / "a" / "run.json").write_text(json.dumps({**record, "state": RUNNING}))
    (folder.runs / "b").mkdir()
    (folder.runs / "b" / "run.json").write_text("{")
    jobs = Jobs(folder)
    assert [(run.name, run.state) for run in jobs.runs.values()] == [("a", CANCELLED)]


def test_the_time_left_is_that_of_what_is_left_at_the_pace_so_far() -> None:
    progress = Progress()
    meter = Meter(progress, began=100.0)
    line = b'{"progress": "simulations", "done": %d, "total": 10}\n'
    assert meter.read(line % 0, 104.0)
    assert (progress.took_s, progress.share, progress.left_s) == (4.0, 0.0, None)
    assert meter.read(line % 1, 110.0)  # which had to wait for its process
    assert progress.left_s is None
    assert meter.read(line % 4, 116.0)
    assert (progress.done, progress.total, progress.share, progress.left_s) == (4, 10, 0.4, 12.0)
    assert meter.read(line % 10, 124.0)
    assert progress.left_s == 0.0


def test_a_search_has_the_rest_of_its_limit_left() -> None:
    progress = Progress()
    meter = Meter(progress, began=0.0, searches=True, limit_s=60.0)
    assert meter.read(b'{"progress": "kinds of fleet", "done": 3, "total": 4}', 15.0)
    assert (progress.share, progress.left_s) == (0.25, 45.0)
    assert meter.read(b'{"progress": "kinds of fleet", "done": 4, "total": 4}', 61.0)
    assert (progress.share, progress.left_s) == (1.0, 0.0)
    assert meter.read(b'{"best": "2 x L40S"}', 62.0)
    assert progress.best == "2 x L40S"


def test_a_search_without_a_limit_has_no_estimate() -> None:
    progress = Progress()
    assert Meter(progress, began=0.0, searches=True).read(b'{"progress": "kinds", "done": 3, "total": 4}', 15.0)
    assert (progress.share, progress.left_s) == (None, None)


@pytest.mark.parametrize("line", [b"poise: no such file\n", b"[1]\n", b'{"other": 1}\n', b"\xff\n", b"\n"])
def test_other_lines_are_no_progress(line: bytes) -> None:
    progress = Progress()
    assert not Meter(progress, 0.0).read(line, 1.0)
    assert progress == Progress()
