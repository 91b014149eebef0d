"""What `poise train run` is to do, checked whole before a process starts or PyTorch is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.core.errors import ScheduleError, UserError
from poise.pipeline import Schedule, find, make, names
from poise.pipeline.text import read_file
from poise.runtime.size import Size, check_stages

BYTES = 256
"""The vocabulary: a token is a byte."""

OPTIMIZERS = ("adamw", "sgd")


@dataclass(frozen=True)
class Job:
    """A training run. `rows` sequences of `size.length` bytes in each microbatch; `every` steps a checkpoint."""

    text: Path
    schedule: Schedule
    size: Size
    out: Path
    steps: int
    rows: int = 1
    replicas: int = 1
    """Pipelines side by side, each with its own part of the batch."""
    tensor: int = 1
    """Processes that share the work of each rank's stages."""
    optimizer: str = "adamw"
    lr: float = 1e-3
    clip: float | None = None
    late: bool = False
    """Step before the norm over all ranks is known, and correct (late.py)."""
    seed: int = 0
    every: int = 100
    resume: bool = False
    recording: Path | None = None
    timeline: Path | None = None
    timeout_s: float = 300.0

    def check(self) -> None:
        """UserError for what cannot be run."""
        self.size.check()
        self.schedule.check()
        check_stages(self.size.layers, self.schedule.stages)
        if self.optimizer not in OPTIMIZERS:
            raise UserError(f"--optimizer {self.optimizer}: give {' or '.join(OPTIMIZERS)}")
        ranks = len(self.schedule.ranks)
        if self.schedule.barriers and BYTES % ranks:
            raise UserError(f"a vocabulary of {BYTES} does not divide into {ranks} shards; give a power of 2 of ranks")
        if self.schedule.updates != "flush" and self.clip is not None:
            raise UserError(
                f"--clip: with updates {self.schedule.updates} weights change before the norm of all gradients is "
                "known; leave it out"
            )
        if self.schedule.updates != "flush" and self.replicas > 1:
            raise UserError(
                f"--replicas: with updates {self.schedule.updates} replicas would drift apart; leave it out"
            )
        if self.size.heads % self.tensor:
            raise UserError(
                f"--tensor {self.tensor}: {self.size.heads} heads do not divide into so many parts; give a divisor, or "
                "other --heads"
            )
        if self.late and self.clip is None:
            raise UserError("--post-validate: it is about the norm of all gradients; give --clip too")
        self._check_text()
        self._check_paths()

    def _check_text(self) -> None:
        try:
            bytes_ = self.text.stat().st_size if self.text.is_file() else -1
        except OSError:
            bytes_ = -1
        if bytes_ < 0:
            raise UserError(f"{self.text}: is no file that can be read; give a text to train on")
        if bytes_ < self.size.length + 1:
            raise UserError(
                f"{self.text}: has {bytes_} bytes, and a sequence of --length {self.size.length} with the byte behind "
                f"it takes {self.size.length + 1}; give a longer text or a smaller --length"
            )

    def _check_paths(self) -> None:
        """A stage that every microbatch leaves out would never be trained."""
        paths = self.schedule.paths or ()
        idle = set(range(self.schedule.stages)) - {stage for path in paths for stage in path} if paths else set()
        if idle:
            raise UserError(f"stage {min(idle)} is on no microbatch's path and would not be trained; put it on one")

    def about(self) -> dict[str, Any]:
        """Settings that a checkpoint must share with the job that resumes from it; values that survive JSON."""
        size = self.size
        return {
            "--layers": size.layers, "--hidden": size.hidden, "--heads": size.heads, "--length": size.length,
            "--rows": self.rows, "--replicas": self.replicas, "--tensor": self.tensor,
            "--optimizer": self.optimizer, "--seed": self.seed,
            "stages": self.schedule.stages, "microbatches": self.schedule.microbatches,
            "barriers": self.schedule.barriers, "ranks": len(self.schedule.ranks),
        }  # fmt: skip

    @property
    def processes(self) -> int:
        """How many there are in all."""
        return self.replicas * len(self.schedule.ranks) * self.tensor


def ranks_of(processes: int | None, replicas: int, tensor: int = 1) -> int | None:
    """The ranks of one pipeline where `processes` processes form all replicas, `tensor` of them each rank."""
    if processes is not None and processes % (replicas * tensor):
        layout = f"--replicas {replicas}" + (f" of --tensor {tensor}" if tensor > 1 else "")
        raise UserError(f"{processes} processes do not divide into {layout}; give a multiple of them")
    return None if processes is None else processes // (replicas * tensor)


def schedule_of(name: str, ranks: int | None, microbatches: int | None, chunks: int | None) -> Schedule:
    """A schedule by name (a built-in one or `package.module:function`), or from a file (CSV, JSON, text)."""
    if name in names() or ":" in name:
        more: dict[str, Any] = {} if chunks is None else {"chunks": chunks}
        return make(name, ranks or 1, microbatches or 2 * (ranks or 1), **more)
    if not Path(name).is_file():
        find_error(name)
    schedule = read_file(name)
    for word, given, has in (
        ("--ranks", ranks, len(schedule.ranks)), ("--microbatches", microbatches, schedule.microbatches),
    ):  # fmt: skip
        if given is not None and given != has:
            raise ScheduleError(f"{word} {given}: the schedule in {name} has {has}; leave it out or give that")
    return schedule


def find_error(name: str) -> None:
    """Raise for a name that is neither a schedule nor a file."""
    if Path(name).suffix:
        raise UserError(
            f"{name}: is no file; give a schedule's file (.csv, .json, .txt) or one of {', '.join(names())}"
        )
    find(name)
