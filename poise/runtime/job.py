"""What `poise train run` is to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from poise.core.errors import ScheduleError, UserError
from poise.pipeline import Schedule, find, make, names
from poise.pipeline.text import read_file
from poise.runtime.learning_rates.rate import Constant, Plan, Rate
from poise.runtime.models.shape import Shape
from poise.runtime.size import Size


@dataclass(frozen=True)
class Job:
    """A training run. `rows` sequences of `size.length` tokens in each microbatch; `every` steps a checkpoint."""

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
    shape: Shape | None = None
    """The model; None: the built-in decoder of `size`."""
    data: str = "bytes"
    """Windows of the text's bytes; or its documents, several in a row or one."""
    rate: Rate = field(default_factory=Constant)
    warmup: int = 0
    decay: float = 0.0
    """Weight decay of matrices."""
    precision: str = "fp32"
    """Of autocast."""
    recompute: bool = False
    compiled: bool = False
    metrics: Path | None = None
    tensorboard: Path | None = None
    bucket_mb: float = 25.0
    """MiB of gradients that replicas sum at once."""

    def about(self) -> dict[str, Any]:
        """Settings that a checkpoint must share with the job that resumes from it; values that survive JSON."""
        size, shape = self.size, self.shape
        model: dict[str, Any] = {"--layers": size.layers, "--hidden": size.hidden, "--heads": size.heads}
        if shape is not None:
            model = {"--model": f"{shape.family} of {shape.layers} layers, {crc32(repr(shape).encode()):08x}"}
        shards = len(self.schedule.ranks) if self.schedule.barriers else 0
        return {
            **model, "--length": size.length, "--data": self.data, "--tensor": self.tensor,
            "--optimizer": self.optimizer, "--seed": self.seed, "sequences of a step": self.sequences,
            "shards of the vocabulary": shards,
        }  # fmt: skip

    @property
    def sequences(self) -> int:
        """Of a step, over all microbatches and replicas."""
        return self.rows * self.schedule.microbatches * self.replicas

    @property
    def plan(self) -> Plan:
        """The learning rate's factor by step."""
        return Plan(self.rate, self.steps, self.warmup)

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
