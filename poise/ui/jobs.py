"""Runs as processes: one after another, with progress, cancelled by the signal that Ctrl-C sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from shlex import join
from typing import Any, BinaryIO

from poise.core.errors import UserError
from poise.experiment.progress import VARIABLE
from poise.report.files import replacing
from poise.ui.folder import Folder
from poise.ui.form import SCENARIO, Form, check, command, yaml

GRACE_S = 5.0
"""Seconds from each signal to the next: two interrupts, then the end."""

RECORD, COMMAND, LOG = "run.json", "command.txt", "log.txt"
"""What is kept of a run beside the files of its command."""

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
LINE_BYTES = 1 << 20


@dataclass(slots=True)
class Run:
    """A run. command: its words.  began: UTC, when it was asked for.  error: the line in which the command says why."""

    name: str
    what: str
    command: list[str]
    began: str
    state: str = QUEUED
    took_s: float | None = None
    error: str = ""
    files: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """How far a run is. share: of this part, None where that is unknown.  left_s: estimated seconds until it is done.

    best: the best fleet so far.
    """

    label: str = ""
    done: int = 0
    total: int = 0
    took_s: float = 0.0
    share: float | None = None
    left_s: float | None = None
    best: str = ""


class Jobs:
    """The runs of a folder, and those of them that are under way.

    runs: by name, the newest last.  progress: of those that run.  version: raised by every change of either.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.runs = {name: run for name in folder.run_names() if (run := _saved(folder, name)) is not None}
        self.runs = dict(sorted(self.runs.items(), key=lambda each: each[1].began))
        self.progress: dict[str, Progress] = {}
        self.version = 0
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._processes: set[asyncio.subprocess.Process] = set()

    def start(self, form: Form) -> str:
        """Save the scenario and the command, and queue the run; returns its name."""
        check(form)
        if form.trace:
            self.folder.trace(form.trace)
        name = self.folder.new_run(form.name or form.what)
        words = command(form, name)
        path = self.folder.runs / name
        path.mkdir()
        (path / SCENARIO).write_text(yaml(form), encoding="utf-8")
        (path / COMMAND).write_text(join(words) + "\n", encoding="utf-8")
        run = Run(name, form.what, words, datetime.now(UTC).isoformat(timespec="seconds"))
        self.runs[name] = run
        self._note(run)
        task = self._tasks[name] = asyncio.get_running_loop().create_task(self._work(run, form.time_limit_s))
        task.add_done_callback(lambda _: self._over(run))  # one that is cancelled at once never begins its work
        return name

    def cancel(self, name: str) -> None:
        """End a run; UserError where it is not under way."""
        if name not in self._tasks:
            raise UserError(f"run {name!r}: is not under way")
        self._tasks[name].cancel()

    async def stop(self) -> None:
        """End all runs and stories, and wait for their processes."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *map(_end, list(self._processes)), return_exceptions=True)

    async def answer(self, words: Sequence[str]) -> Any:
        """The JSON that a short command prints; UserError with what it says where it fails."""
        process = await self._begin(words, asyncio.subprocess.PIPE)
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            self._processes.discard(process)
        if process.returncode != 0:
            raise UserError(_error(err.decode(errors="replace").splitlines()) or f"`{join(words)}` failed")
        return json.loads(out)

    async def _work(self, run: Run, limit_s: float | None) -> None:
        """Run it when its turn comes."""
        try:
            async with self._turn:
                run.state = RUNNING
                self.progress[run.name] = Progress()
                self._note(run)
                await self._run(run, limit_s)
        except Exception as error:  # the page says it: no other code would
            run.state, run.error = FAILED, f"{type(error).__name__}: {error}"

    def _over(self, run: Run) -> None:
        """A run is over: done, failed, or cancelled where it says neither."""
        if run.state in (QUEUED, RUNNING):
            run.state = CANCELLED
        self.progress.pop(run.name, None)
        self._tasks.pop(run.name, None)
        self._note(run)

    async def _run(self, run: Run, limit_s: float | None) -> None:
        began = time.monotonic()
        with (self.folder.runs / run.name / LOG).open("wb") as log:
            process = await self._begin(run.command, log)
            try:
                lines = await self._listen(run.name, process, log, began, limit_s)
                code = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            finally:
                self._processes.discard(process)
                run.took_s = round(time.monotonic() - began, 1)
        run.state = DONE if code == 0 else FAILED
        run.error = "" if code == 0 else _error(lines) or f"ended with code {code}; see {LOG}"

    async def _begin(self, words: Sequence[str], out: int | BinaryIO) -> asyncio.subprocess.Process:
        """A command of Poise as a process group of its own, in the folder of the page."""
        starting = asyncio.ensure_future(asyncio.create_subprocess_exec(
            sys.executable, "-m", "poise", *words[1:],
            stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=asyncio.subprocess.PIPE,
            cwd=self.folder.root, env={**os.environ, VARIABLE: "json", "NO_COLOR": "1"},
            limit=LINE_BYTES, start_new_session=True,
        ))  # fmt: skip
        try:
            process = await asyncio.shield(starting)  # a start that is cancelled half-way would never end
        except asyncio.CancelledError:
            await _end(await starting)
            raise
        self._processes.add(process)
        return process

    async def _listen(
        self, name: str, process: asyncio.subprocess.Process, log: BinaryIO, began: float, limit_s: float | None
    ) -> list[str]:
        """Follow what the process writes to its standard error, to the end; returns the lines that are no progress."""
        assert process.stderr is not None
        meter = Meter(self.progress[name], began, searches=self.runs[name].what == "plan", limit_s=limit_s)
        lines: list[str] = []
        async for line in process.stderr:
            if not meter.read(line, time.monotonic()):
                lines.append(line.decode(errors="replace").rstrip())
                log.write(line)
                log.flush()
            self.version += 1
        return lines

    def _note(self, run: Run) -> None:
        """Keep the state of a run on disk."""
        with replacing(self.folder.runs / run.name / RECORD) as file:
            file.write(json.dumps(asdict(run), indent=2).encode() + b"\n")
        run.files = self.folder.files(run.name)
        self.version += 1


class Meter:
    """Reads lines of progress, and estimates from them the time that is left.

    began: when the run began.  searches: it is a search, which does not know in advance how much it has to try, so
    what is left is the rest of `limit_s`, if its command has such a limit.
    """

    def __init__(
        self, progress: Progress, began: float, *, searches: bool = False, limit_s: float | None = None
    ) -> None:
        self._progress = progress
        self._began = began
        self._searches = searches
        self._limit_s = limit_s
        self._first: dict[str, tuple[float, int]] = {}

    def read(self, line: bytes, now: float) -> bool:
        """Take in one line at an instant in seconds; returns whether it was one about progress."""
        try:
            entry = json.loads(line)
        except ValueError:
            return False
        if not isinstance(entry, dict) or not entry.keys() & {"progress", "best"}:
            return False
        shown = self._progress
        shown.took_s = now - self._began
        if "best" in entry:
            shown.best = str(entry["best"])
            return True
        shown.label, shown.done, shown.total = str(entry["progress"]), int(entry["done"]), int(entry["total"])
        if not self._searches:
            shown.share = shown.done / shown.total if shown.total else None
            shown.left_s = self._left(now)
        elif self._limit_s is not None:
            shown.share = min(shown.took_s / self._limit_s, 1.0)
            shown.left_s = max(self._limit_s - shown.took_s, 0.0)
        return True

    def _left(self, now: float) -> float | None:
        """The time that the rest takes at the pace since the first was done, which had to start the processes."""
        shown = self._progress
        if not shown.done:
            return None
        began, before = self._first.setdefault(shown.label, (now, shown.done))
        if shown.done == before:
            return None
        return (now - began) / (shown.done - before) * (shown.total - shown.done)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupt a process with its children as Ctrl-C does, once more where it goes on, then kill what is left."""
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        _signal(process, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)
            break
    _signal(process, signal.SIGKILL)  # its children may be there still


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to a process and its children, where any is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _error(lines: Sequence[str]) -> str:
    """The error line of a command."""
    found = [line.removeprefix("poise: ") for line in lines if line.startswith("poise: ")]
    return found[-1] if found else ""


def _saved(folder: Folder, name: str) -> Run | None:
    """A run of an earlier day; one that was under way when its page ended is cancelled. None for another folder."""
    try:
        record = json.loads((folder.runs / name / RECORD).read_text(encoding="utf-8"))
        run = Run(**record)
    except (OSError, ValueError, TypeError):
        return None
    run.name, run.files = name, folder.files(name)
    if run.state in (QUEUED, RUNNING):
        run.state = CANCELLED
    return run
