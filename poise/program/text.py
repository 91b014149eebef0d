"""A Program as a text that can be edited by hand and read back: what holds for all of it, then a line for each task.

    program 1
    name one_f_one_b
    path 0..7: 0 1                         stages that samples 0 to 7 pass
    demand w0 = 1/8(w0,0,0..7)             the gradient with which w0 must be updated
    given in.0@0 = (x,0,0)                 a value that is there before the first task, and what it contains
    size 0.5: c0.0#0@0 c0.1#0@0            values of that size on the device; `size 0.5 host: …` elsewhere
    rank 0, lane compute
      F(0,0) in.0 w0 -> x0.0 c0.0#0        kind, argument, what it reads, what it writes
    rank 0, lane to 1
      send(0,0) x0.0 | group 0,1 work 64   group and, where there is any, work

In tasks a value of the lane's own rank has no rank. Lines that begin with `#` are notes. Numbers and contents are
written as in `words`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from poise.core.errors import ProgramError, UserError
from poise.program.content import Content
from poise.program.program import Program
from poise.program.read import Reader
from poise.program.task import Lane, Task
from poise.program.words import FIRST, KIND, MOST_RANKS, write_argument, write_number, write_sum

_NAMES = 8
"""Names of values on a line."""


def write_program(program: Program) -> str:
    """The text that `read_program` reads back to an equal Program; ProgramError for a name that cannot be written."""
    lines = [FIRST, *_header(program)]
    for lane, row in program.rows.items():
        if not 0 <= lane.rank < MOST_RANKS:
            raise ProgramError(f"{lane}: a file has ranks 0 to {MOST_RANKS - 1}; number them from 0")
        lines += ["", f"rank {lane.rank}, lane {_phrase(lane.name, 'the name of a lane')}"]
        short = _Short(lane)
        lines += [_task(task, lane, short) for task in row]
    return "\n".join(lines) + "\n"


def read_program(text: str) -> Program:
    """The Program that `text` writes; ProgramError with line, value, rule and cure."""
    return Reader().program(text)


def load_program(path: str | Path) -> Program:
    """The Program in a file; errors begin with its name."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{path}: cannot be read ({why}); give a file of `poise train show --text`") from None
    try:
        return read_program(text)
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None


def _header(program: Program) -> Iterator[str]:
    if program.name:
        yield f"name {_phrase(program.name, 'the name')}"
    for each in sorted(program.accepts):
        yield f"accepts {_phrase(each, 'what is accepted')}"
    yield from _paths(program.paths)
    for name, atoms in program.demands.items():
        yield f"demand {_name(name)} = {write_sum(atoms)}"
    for name, content in program.given.items():
        yield f"given {_name(name)} = {_content(content)}"
    yield from _sizes(program)


def _paths(paths: tuple[tuple[int, ...], ...]) -> Iterator[str]:
    first = 0
    for sample, path in enumerate(paths):
        if sample + 1 == len(paths) or paths[sample + 1] != path:
            some = f"{first}" if first == sample else f"{first}..{sample}"
            yield f"path {some}: {' '.join(map(str, path))}".rstrip()
            first = sample + 1


def _content(content: Content) -> str:
    part = "" if content.part == (0, 1) else " part {}/{}".format(*content.part)
    return f"{write_sum(content.atoms)}{part}"


def _sizes(program: Program) -> Iterator[str]:
    """Values of one size and tier together."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, value in program.values.items():
        if name != value.name:
            raise ProgramError(f"the size of {name} is that of {value.name}; give both one name")
        tier = "" if value.tier == "device" else f" {_name(value.tier)}"
        found.setdefault((write_number(value.bytes), tier), []).append(_name(name))
    for (size, tier), names in found.items():
        for at in range(0, len(names), _NAMES):
            yield f"size {size}{tier}: {' '.join(names[at : at + _NAMES])}"


class _Short(dict[str, str]):
    """Names of values as tasks of a lane write them."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane

    def __missing__(self, name: str) -> str:
        own, mark, rank = name.rpartition("@")
        if not mark:
            raise ProgramError(f"the value {name!r} ({self.lane}) has no rank; name it {name}@{self.lane.rank}")
        self[name] = _name(own if own and "@" not in own and rank == str(self.lane.rank) else name)
        return self[name]


def _task(task: Task, lane: Lane, short: _Short) -> str:
    if (task.rank, task.lane) != lane:
        raise ProgramError(
            f"{task} ({lane}) is of rank {task.rank}, lane {task.lane}; put it into that lane, or change it"
        )
    if not KIND.fullmatch(task.kind):
        raise ProgramError(f"the kind {task.kind!r} ({lane}) cannot be written; use letters, digits and _ in its name")
    parts = [task.kind if task.arg is None else f"{task.kind}{write_argument(task.arg)}"]
    parts += [short[name] for name in task.reads]
    if task.writes:
        parts += ["->", *(short[name] for name in task.writes)]
    if task.group or task.work:
        parts.append("|")
    if task.group:
        parts.append(f"group {','.join(map(str, task.group))}")
    if task.work:
        parts.append(f"work {write_number(task.work)}")
    return f"  {' '.join(parts)}"


def _name(name: str) -> str:
    """A name that is one word of a line."""
    if not name or not name.isprintable() or " " in name or name in ("->", "|", "=") or name.endswith(":"):
        raise ProgramError(f"the name {name!r} cannot be written; use letters, digits and . # @ _ - in it")
    return name


def _phrase(text: str, what: str) -> str:
    """Words at the end of a line."""
    if not text.isprintable() or text != text.strip() or not text:
        raise ProgramError(f"{what} {text!r} cannot be written; use letters, digits and single spaces in it")
    return text
