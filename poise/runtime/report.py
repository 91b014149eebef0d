"""The loss curve of a run: a line of JSON for each step, a page, and progress on the terminal."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from poise.report.chart import Line, Scale, chart
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import facts, grid, section
from poise.report.wording import waiting
from poise.runtime.job import Job

LOSSES = "loss.jsonl"
PAGE = "loss.html"

_POINTS = 500

FEW, LONG_S = 20, 60.0
"""Steps of the shorter run that is proposed where the rest of a run takes longer than so many seconds."""


class Report:
    """Written by rank 0. A resumed run cuts lines newer than its checkpoint off the file of losses."""

    def __init__(self, job: Job, start: int, file: TextIO = sys.stderr) -> None:
        self._job = job
        self._path = job.out / LOSSES
        self._losses = [record for record in self._before() if record["step"] < start]
        with replacing(self._path) as fresh:
            fresh.write("".join(json.dumps(record) + "\n" for record in self._losses).encode())
        self._lines = self._path.open("a", encoding="utf-8")
        self._file = file
        self._start = start
        self._bar = _Bar(start, job.steps, file) if file.isatty() else None

    def add(self, step: int, loss: float, seconds: float) -> None:
        """A step has ended."""
        record = {"step": step, "loss": loss, "seconds": seconds}
        self._losses.append(record)
        self._lines.write(json.dumps(record) + "\n")
        self._lines.flush()
        if step == self._start + 1 and (text := forecast(self._job.steps - step - 1, seconds)):
            self._print(text)
        if self._bar is not None:
            self._bar.show(step + 1, loss)
        elif step == 0 or (step + 1) % max(1, self._job.steps // 10) == 0:
            print(
                f"step {step + 1} of {self._job.steps}: loss {loss:.4f}, {seconds:.2f} s", file=self._file, flush=True
            )

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.say(text)
        else:
            print(text, file=self._file, flush=True)

    def draw(self) -> None:
        """Write the page."""
        with replacing(self._job.out / PAGE) as file:
            file.write(_page(self._job, self._losses).encode())

    def close(self) -> None:
        """The run has ended."""
        self._lines.close()
        if self._bar is not None:
            self._bar.close()

    def _before(self) -> list[dict[str, float]]:
        """The whole lines of a run before."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def forecast(left: int, seconds: float) -> str:
    """How long so many steps will take, and a shorter run where that is long; empty where nothing is left."""
    if left <= 0:
        return ""
    text = f"{left} steps are left, of about {seconds:.2g} s each: {waiting(left * seconds)}"
    if left * seconds < LONG_S or left <= FEW:
        return text
    return f"{text} (--steps {FEW} would take about {waiting(FEW * seconds)})"


class _Bar:
    """Progress on a terminal."""

    def __init__(self, start: int, steps: int, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(file=file))
        self._task = self._progress.add_task("training", total=steps, completed=start)
        self._progress.start()

    def show(self, done: int, loss: float) -> None:
        self._progress.update(self._task, completed=done, description=f"loss {loss:.4f}")

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def close(self) -> None:
        self._progress.stop()


def _page(job: Job, losses: list[dict[str, float]]) -> str:
    """One self-contained page."""
    each = max(1, len(losses) // _POINTS)
    kept = losses[::each]
    steps = [record["step"] + 1 for record in kept]
    curve = chart(
        "Loss", [Line("loss", 0, steps, [record["loss"] for record in kept])], Scale("step"), Scale("nats per byte"),
        reading="step {x}: {y}",
    )  # fmt: skip
    speed = chart(
        "Time of a step", [Line("seconds", 1, steps, [record["seconds"] for record in kept])], Scale("step"),
        Scale("seconds", reach=0.0), reading="step {x}: {y} s",
    )  # fmt: skip
    size = job.size
    found = {
        "schedule": f"{job.schedule.name or 'from a file'}: {job.schedule.stages} stages on {len(job.schedule.ranks)} "
        f"ranks, {job.schedule.microbatches} microbatches of {job.rows} x {size.length} bytes",
        "model": f"{size.layers} layers, hidden {size.hidden}, {size.heads} heads",
        "optimizer": f"{job.optimizer}, learning rate {job.lr:g}" + (f", clipped at {job.clip:g}" if job.clip else ""),
        "text": str(job.text),
        "steps": f"{len(losses)} of {job.steps}; last loss {losses[-1]['loss']:.4f}" if losses else "none yet",
    }
    body = section("Curves", grid([curve, speed]), anchor="curves")
    return document(f"Training {job.text.name}", body, head=facts(found))
