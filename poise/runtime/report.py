"""The loss curve of a run: a line of JSON for each step, a page, and progress on the terminal."""

from __future__ import annotations

import sys
from statistics import fmean
from typing import TextIO

from poise.report.chart import Line, Scale, chart
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import facts, grid, section
from poise.report.wording import waiting
from poise.runtime.job import Job
from poise.runtime.lines import Lines

LOSSES = "loss.jsonl"
PAGE = "loss.html"

_POINTS = 500

_LAST = 20
"""Steps whose mean says how long the rest takes."""

FULL = 20
"""Tokens for each weight of a run that uses its compute best (Hoffmann et al., arXiv 2203.15556, table 3)."""

FEW, LONG_S = 20, 60.0
"""Steps of the shorter run that is proposed where the rest of a run takes longer than so many seconds."""


class Report:
    """Written by rank 0. A resumed run cuts lines newer than its checkpoint off the file of losses."""

    def __init__(self, job: Job, start: int, file: TextIO = sys.stderr) -> None:
        self._job = job
        self._lines = Lines(job.out / LOSSES, start)
        self._losses = self._lines.kept
        self._file = file
        self._start, self._begun = start, len(self._losses)
        self._bar = _Bar(start, job.steps, file) if file.isatty() else None

    def add(self, step: int, loss: float, seconds: float) -> None:
        """A step has ended."""
        record = {"step": step, "loss": loss, "seconds": seconds}
        self._losses.append(record)
        self._lines.add(record)
        if step == self._start + 1 and (text := forecast(self._job.steps - step - 1, seconds)):
            self._print(text)
        if self._bar is not None:
            self._bar.show(step + 1, loss)
        elif step == 0 or (step + 1) % max(1, self._job.steps // 10) == 0:
            left = waiting((self._job.steps - step - 1) * self._usual()) + " left" if step > self._start else ""
            text = f"step {step + 1} of {self._job.steps}: loss {loss:.4f}, {seconds:.2f} s"
            self._print(f"{text}, {left}" if left and step + 1 < self._job.steps else text)

    def _usual(self) -> float:
        """Seconds of a step: the mean of the last ones, without the first, which also prepares."""
        return fmean(record["seconds"] for record in self._losses[self._begun + 1 :][-_LAST:])

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.say(text)
        else:
            print(text, file=self._file, flush=True)

    def draw(self) -> None:
        """Write the page."""
        with replacing(self._job.out / PAGE) as file:
            file.write(_page(self._job, self._losses).encode())

    def close(self, tokens: int = 0, weights: int = 0) -> None:
        """The run has ended; by the tokens of a step and the model's weights it says what a full one takes."""
        self._lines.close()
        if tokens and weights and self._losses:
            self._print(full(tokens, weights, self._job.steps, self._losses))
        if self._bar is not None:
            self._bar.close()


def forecast(left: int, seconds: float) -> str:
    """How long so many steps will take, and a shorter run where that is long; empty where nothing is left."""
    if left <= 0:
        return ""
    text = f"{left} steps are left, of about {seconds:.2g} s each: {waiting(left * seconds)}"
    if left * seconds < LONG_S or left <= FEW:
        return text
    return f"{text} (--steps {FEW} would take about {waiting(FEW * seconds)})"


def full(tokens: int, weights: int, steps: int, losses: list[dict[str, float]]) -> str:
    """What the run was, and what one with `FULL` tokens for each weight would take here."""
    each = sorted(record["seconds"] for record in losses)[len(losses) // 2]
    needed = -(-FULL * weights // tokens)
    text = f"{steps} steps of {tokens} tokens, {each:.2g} s each; {millions(weights)} weights"
    if needed <= steps:
        return text
    return f"{text}: {FULL} tokens for each would be --steps {needed}, {waiting(needed * each)} here"


def millions(count: int) -> str:
    """A count of weights, as in 1.6 M."""
    return f"{count / 1e6:.1f} M" if count >= 1e5 else str(count)


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
        "Loss", [Line("loss", 0, steps, [record["loss"] for record in kept])], Scale("step"), Scale("nats per token"),
        reading="step {x}: {y}",
    )  # fmt: skip
    speed = chart(
        "Time of a step", [Line("seconds", 1, steps, [record["seconds"] for record in kept])], Scale("step"),
        Scale("seconds", reach=0.0), reading="step {x}: {y} s",
    )  # fmt: skip
    size, family = job.size, job.shape.family if job.shape else "built in"
    found = {
        "schedule": f"{job.schedule.name or 'from a file'}: {job.schedule.stages} stages on {len(job.schedule.ranks)} "
        f"ranks, {job.schedule.microbatches} microbatches of {job.rows} x {size.length} tokens",
        "model": f"{family}: {size.layers} layers, hidden {size.hidden}, {size.heads} heads",
        "optimizer": f"{job.optimizer}, learning rate {job.lr:g}" + (f", clipped at {job.clip:g}" if job.clip else ""),
        "text": str(job.text),
        "steps": f"{len(losses)} of {job.steps}; last loss {losses[-1]['loss']:.4f}" if losses else "none yet",
    }
    body = section("Curves", grid([curve, speed]), anchor="curves")
    return document(f"Training {job.text.name}", body, head=facts(found))
