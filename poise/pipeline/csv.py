"""PyTorch's schedule files: a row for each rank, a cell for each operation, no header.

Both forms of `_PipelineScheduleRuntime._load_csv` (torch 2.13, distributed/pipelining/schedules.py): `compute_only`
has F, I, W and B; `compute_comms` has sends, receives and reductions as well. An empty cell is a step without work and
is skipped. A cell `(0F3;1B2)OVERLAP_F_B` means both at once and is read as one after the other.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from poise.core.errors import ScheduleError, UserError
from poise.pipeline.communicate import communicate
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.pipeline.text import read_at

_OVERLAP = "OVERLAP_F_B"

_KEEP = "keep the text or JSON form"


def write_csv(schedule: Schedule, *, communications: bool = False) -> str:
    """The file of `schedule`, compute-only or with its communications.

    PyTorch supports one rank for each stage, all stages for each microbatch, and one update after all of them; what
    needs more cannot be written and raises ScheduleError.
    """
    for stage, homes in enumerate(schedule.homes):
        if len(homes) > 1:
            raise ScheduleError(
                f"stage {stage} has copies on ranks {homes[0]} and {homes[1]}; PyTorch's file knows one rank for each "
                "stage, so keep the text form, or choose dualpipe_v for dualpipe"
            )
    _plain(schedule)
    if not communications:
        schedule = schedule.compute()
    elif not schedule.communicates:
        schedule = communicate(schedule)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(map(str, row) for row in schedule.ranks)
    return file.getvalue()


def _plain(schedule: Schedule) -> None:
    """Check that PyTorch can run each operation, and that the schedule has no other properties."""
    for rank, row in enumerate(schedule.ranks):
        for slot, op in enumerate(row):
            if op.kind > Kind.RESHARD:
                raise ScheduleError(f"{op} (rank {rank}, slot {slot}) is none of PyTorch's operations; {_KEEP}")
    every = tuple(range(schedule.stages))
    for batch, path in enumerate(schedule.paths or ()):
        if path != every:
            raise ScheduleError(f"microbatch {batch} does not pass all stages in order, as PyTorch's do; {_KEEP}")
    if schedule.updates != "flush":
        raise ScheduleError(f"updates {schedule.updates}: PyTorch changes weights once, behind all backwards; {_KEEP}")


def read_csv(path: str | Path) -> Schedule:
    """The schedule in a file of either form; the form shows in its operations."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UserError(f"{path}: cannot be read ({why}); give a schedule that PyTorch or --csv wrote") from None
    try:
        return parse_csv(text, Path(path).stem)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None


def parse_csv(text: str, name: str = "") -> Schedule:
    """The schedule that the content of a file writes."""
    rows = csv.reader(io.StringIO(text))
    return Schedule.of((list(_ops(rank, row)) for rank, row in enumerate(rows)), name)


def _ops(rank: int, row: list[str]) -> Iterator[Op]:
    for slot, cell in enumerate(row):
        word = cell.strip()
        if word.startswith("(") and word.endswith(f"){_OVERLAP}"):
            for part in word.removesuffix(f"){_OVERLAP}")[1:].split(";"):
                yield read_at(rank, slot, part.strip())
        elif word:
            yield read_at(rank, slot, word)
