"""The Program that `poise train show` is about: of a schedule by name, or of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.errors import ScheduleError, UserError
from poise.plan.training.named import named
from poise.plan.training.schedule_options import limit_of

if TYPE_CHECKING:
    from poise.plan.training.schedule_options import ShowOptions
    from poise.program import Program

_FILES = (".csv", ".json", ".txt")


def source(options: ShowOptions) -> tuple[Program, ShowOptions]:
    """The Program, and the options with its size."""
    from poise.pipeline import names
    from poise.pipeline.lower import program_of
    from poise.pipeline.text import read_file

    path = Path(options.source)
    if options.source in names() or (path.suffix not in _FILES and not path.is_file()):
        return _named(options), options
    for option, value in (("ranks", options.ranks), ("chunks", options.chunks), ("set", options.given)):
        if value:
            raise UserError(f"--{option}: {path} is a file and has its own; leave the option out")
    if is_program(path):
        found = loaded(path)
    else:
        try:
            found = program_of(read_file(path))
        except ScheduleError as error:
            raise ScheduleError(_placed(error, path)) from None
    return found, replace(options, ranks=max(1, found.ranks), microbatches=max(1, len(found.paths)))


def is_program(path: Path) -> bool:
    """Whether a file begins as the text of a Program does."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.readline(100).startswith("program ")
    except (OSError, UnicodeDecodeError):
        return False


def loaded(path: Path) -> Program:
    """The Program in a file; UserError where it has no tasks."""
    from poise.program.text import load_program

    found = load_program(path)
    if not found.kinds:
        raise UserError(f"{path}: has no tasks; write a line such as 'rank 0, lane compute' and tasks below it")
    return found


def times_of(given: Sequence[str]) -> dict[str, Fraction]:
    """The times in `--time`, by kind; UserError for one that is not a number of 0 or more."""
    found = {}
    for each in given:
        kind, _, text = each.partition("=")
        try:
            found[kind] = Fraction(text)
        except (ValueError, ZeroDivisionError):
            found[kind] = Fraction(-1)
        if found[kind] < 0 or not kind:
            raise UserError(f"--time {each!r}: give a kind and a time of 0 or more, as in all_reduce=0.5")
    return found


def device_limit(text: str) -> dict[str, float]:
    """The limit that `--memory-limit` gives, as the proof of a Program takes it."""
    limit = limit_of(text)
    if isinstance(limit, list):
        raise UserError(f"--memory-limit {text!r}: give one number, for the device of every rank")
    return {"device": float(limit)}


def _named(options: ShowOptions) -> Program:
    from poise.pipeline.lower import program_of

    if not options.ranks:
        raise UserError(f"--ranks: missing for {options.source}; give the number of pipeline ranks, as in --ranks 4")
    return program_of(named(options.source, options, options.costs, by=options.by, given=options.given))


def _placed(error: ScheduleError, path: Path) -> str:
    text = str(error)
    return text if text.startswith(str(path)) else f"{path}: {text}"
