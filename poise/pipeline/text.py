"""The short text of a schedule, and the same as JSON.

The text is a line for each rank, its operations separated by spaces, as in `1F0 1F1 1B0 1B1`. Lines with `#` before
them
have the properties that operations do not show: `# updates stash`, `# barriers 1`, and `# path 3: 0 2 3` for the stages
of microbatch 3 where it does not pass all of them in order.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from poise.core.errors import ScheduleError, UserError
from poise.pipeline.op import Op, read_op
from poise.pipeline.schedule import Schedule

_PROPERTY = re.compile(r"#\s*(updates|barriers|path (\d{1,9}):)\s*(.*)")


def write_text(schedule: Schedule) -> str:
    """The text that `read_text` reads back."""
    header = [f"# updates {schedule.updates}"] if schedule.updates != "flush" else []
    if schedule.barriers:
        header.append(f"# barriers {schedule.barriers}")
    every = tuple(range(schedule.stages))
    for batch, path in enumerate(schedule.paths or ()):
        if path != every:
            header.append(f"# path {batch}: {' '.join(map(str, path))}")
    return "".join(f"{line}\n" for line in [*header, str(schedule)])


def read_text(text: str, name: str = "") -> Schedule:
    """The schedule that `text` writes; ScheduleError with rank and slot for an invalid operation."""
    lines = text.splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    schedule = Schedule.of((_row(rank, words) for rank, words in enumerate(rows)), name)
    paths: dict[int, tuple[int, ...]] = {}
    for line in lines:
        if not line.startswith("#"):
            continue
        match = _PROPERTY.fullmatch(line.rstrip())
        if match is None:
            raise ScheduleError(f"{line!r} says nothing known; write # updates, # barriers or # path 3: 0 2 3")
        word, batch, value = match.groups()
        if batch is not None:
            paths[int(batch)] = tuple(_whole("path", each) for each in value.split())
        elif word == "barriers":
            schedule = replace(schedule, barriers=_whole(word, value))
        else:
            schedule = replace(schedule, updates=value)
    if not paths:
        return schedule
    if max(paths) >= schedule.microbatches:
        raise ScheduleError(f"path {max(paths)}: there are but {schedule.microbatches} microbatches; number from 0")
    every = tuple(range(schedule.stages))
    return replace(schedule, paths=tuple(paths.get(batch, every) for batch in range(schedule.microbatches)))


def write_json(schedule: Schedule) -> str:
    """The object that `parse_json` reads back: name, updates, barriers, paths where they differ, operations by rank."""
    content: dict[str, Any] = {
        "name": schedule.name,
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "updates": schedule.updates,
        "barriers": schedule.barriers,
    }
    if schedule.paths is not None:
        content["paths"] = [list(path) for path in schedule.paths]
    content["ranks"] = [" ".join(map(str, row)) for row in schedule.ranks]
    return json.dumps(content, indent=1) + "\n"


def parse_json(text: str) -> Schedule:
    """The schedule that an object of `write_json` holds; ScheduleError with the field that is wrong."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ScheduleError(f"no JSON ({error}); give a schedule that `poise train schedule --out` wrote") from None
    rows = content.get("ranks") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise ScheduleError("ranks: missing; give a text of operations for each rank, as in 0F0 0B0")
    found = Schedule.of((_row(rank, row.split()) for rank, row in enumerate(rows)), str(content.get("name", "")))
    fields: dict[str, Any] = {"updates": content.get("updates", found.updates)}
    for word in ("stages", "microbatches", "barriers"):
        fields[word] = content.get(word, getattr(found, word))
        if type(fields[word]) is not int or not 0 <= fields[word] < 10**9:
            raise ScheduleError(f"{word}: {fields[word]!r} is no whole number of 0 or more")
    if content.get("paths") is not None:
        fields["paths"] = _paths(content["paths"])
    return replace(found, **fields)


def read_file(path: str | Path) -> Schedule:
    """The schedule in a file: `.json` as JSON, `.txt` as text, all else as a file of PyTorch's (csv.py)."""
    from poise.pipeline.csv import read_csv

    path = Path(path)
    if path.suffix not in (".json", ".txt"):
        return read_csv(path)
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UserError(
            f"{path}: cannot be read ({why}); give a schedule that `poise train schedule --out` wrote"
        ) from None
    try:
        return parse_json(content) if path.suffix == ".json" else read_text(content, path.stem)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None


def _paths(given: Any) -> tuple[tuple[int, ...], ...]:
    rows = given if isinstance(given, list) else [given]
    for batch, row in enumerate(rows):
        if not isinstance(row, list) or not all(type(each) is int and each >= 0 for each in row):
            raise ScheduleError(f"paths: that of microbatch {batch} is {row!r}; give a list of stages, as in [0, 2, 3]")
    return tuple(tuple(row) for row in rows)


def _whole(word: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ScheduleError(f"{word}: {text!r} is no whole number")
    return int(text)


def _row(rank: int, words: list[str]) -> list[Op]:
    return [read_at(rank, slot, word) for slot, word in enumerate(words)]


def read_at(rank: int, slot: int, word: str) -> Op:
    """One operation, whose place is named where it is wrong."""
    try:
        return read_op(word)
    except ScheduleError as error:
        raise ScheduleError(f"rank {rank}, slot {slot}: {error}") from None
