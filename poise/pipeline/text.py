"""The short text of a schedule: a line for each rank, its operations apart by spaces, as in `1F0 1F1 1B0 1B1`."""

from __future__ import annotations

from poise.core.errors import ScheduleError
from poise.pipeline.op import Op, read_op
from poise.pipeline.schedule import Schedule


def write_text(schedule: Schedule) -> str:
    """The text that `read_text` reads back."""
    return str(schedule) + "\n"


def read_text(text: str, name: str = "") -> Schedule:
    """The schedule that `text` writes; ScheduleError with rank and slot for what is no operation."""
    return Schedule.of((_row(rank, line.split()) for rank, line in enumerate(text.splitlines())), name)


def _row(rank: int, words: list[str]) -> list[Op]:
    return [read_at(rank, slot, word) for slot, word in enumerate(words)]


def read_at(rank: int, slot: int, word: str) -> Op:
    """One operation, whose place is named where it is wrong."""
    try:
        return read_op(word)
    except ScheduleError as error:
        raise ScheduleError(f"rank {rank}, slot {slot}: {error}") from None
