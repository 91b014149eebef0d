"""Reads the text of a Program line by line (see `text`); what is wrong is named with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from poise.core.errors import ProgramError
from poise.program.content import Atoms, Content
from poise.program.program import Program
from poise.program.task import Lane, Task, Value
from poise.program.words import FIRST, KIND, MOST_RANKS, read_argument, read_number, read_sum

_LANE = re.compile(r"(\d{1,9}), lane (\S.*)", re.ASCII)
_PATH = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?:((?: \d{1,9})*)", re.ASCII)
_GIVEN = re.compile(r"(\S+) = (.+?)(?: part (\d{1,9})/(\d{1,9}))?", re.ASCII)
_DEMAND = re.compile(r"(\S+) = (.+)")
_SIZE = re.compile(r"(\S+?)(?: (\S+))?:((?: +\S+)+)")
_GROUP = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)
_MOST = 1_000_000
"""Most samples and stages of a Program."""


class Reader:
    """Gathers the parts of one Program."""

    def __init__(self) -> None:
        self.rows: dict[Lane, list[Task]] = {}
        self.values: dict[str, Value] = {}
        self.given: dict[str, Content] = {}
        self.demands: dict[str, Atoms] = {}
        self.paths: list[tuple[int, ...]] = []
        self.accepts: set[str] = set()
        self.name = ""
        self.lane: Lane | None = None
        self.heads: dict[str, Callable[[str], None]] = {
            "name": self._name, "accepts": self._accept, "path": self._path, "demand": self._demand,
            "given": self._give, "size": self._size, "rank": self._begin,
        }  # fmt: skip

    def program(self, text: str) -> Program:
        """The Program of a whole text."""
        lines = text.split("\n")
        if lines[0].rstrip() != FIRST:
            raise ProgramError(f"line 1: {lines[0][:60]!r} does not begin a Program; write {FIRST!r} first")
        for number, line in enumerate(lines[1:], 2):
            try:
                self._line(line)
            except ProgramError as error:
                raise ProgramError(f"line {number}: {error}") from None
        rows = {lane: tuple(row) for lane, row in self.rows.items()}
        paths, accepts = tuple(self.paths), frozenset(self.accepts)
        return Program(rows, self.values, self.given, self.demands, paths, accepts, self.name)

    def _line(self, line: str) -> None:
        words = line.strip()
        if not words or words[0] == "#":
            return
        if line[0] in " \t":
            self._task(words)
            return
        head, _, rest = words.partition(" ")
        if head not in self.heads:
            raise ProgramError(
                f"{words[:60]!r} begins with none of {', '.join(self.heads)}; begin with one of these, and indent tasks"
            )
        self.heads[head](rest.strip())

    def _name(self, rest: str) -> None:
        self.name = rest

    def _accept(self, rest: str) -> None:
        self.accepts.add(rest)

    def _path(self, rest: str) -> None:
        match = _matched(_PATH, rest, "path 0..7: 0 1 2 3")
        first, last = int(match[1]), int(match[2] or match[1])
        if first != len(self.paths) or not first <= last < _MOST:
            raise ProgramError(f"path {match[1]} stands where that of sample {len(self.paths)} belongs; put it there")
        path = tuple(map(int, match[3].split()))
        if max(path, default=0) >= _MOST:
            raise ProgramError(
                f"stage {max(path)} is above {_MOST - 1}, the last that a Program may have; number from 0"
            )
        self.paths += [path] * (last + 1 - first)

    def _demand(self, rest: str) -> None:
        match = _matched(_DEMAND, rest, "demand w0 = 1/8(w0,0,0..7)")
        _new(match[1], self.demands, "demand")
        self.demands[match[1]] = read_sum(match[2])

    def _give(self, rest: str) -> None:
        match = _matched(_GIVEN, rest, "given in.0@0 = (x,0,0)")
        _new(match[1], self.given, "given")
        part = (int(match[3]), int(match[4])) if match[3] else (0, 1)
        if not part[0] < part[1]:
            raise ProgramError(f"part {part[0]}/{part[1]} does not exist; count the parts from 0, as in part 0/2")
        self.given[match[1]] = Content(read_sum(match[2]), part)

    def _size(self, rest: str) -> None:
        match = _matched(_SIZE, rest, "size 0.5 host: h0.0@0 h0.1@0")
        size = _amount(match[1])
        if size < 0:
            raise ProgramError(f"size {match[1]} is negative; write 0 or more")
        for name in match[3].split():
            _new(name, self.values, "size")
            self.values[name] = Value(name, size, match[2] or "device")

    def _begin(self, rest: str) -> None:
        match = _matched(_LANE, rest, "rank 0, lane compute")
        self.lane = Lane(int(match[1]), match[2])
        if self.lane.rank >= MOST_RANKS:
            raise ProgramError(
                f"rank {match[1]} is above {MOST_RANKS - 1}, the last that a Program may have; number from 0"
            )
        if self.lane in self.rows:
            raise ProgramError(f"{self.lane} stands in this file already; put all of its tasks there")
        self.rows[self.lane] = []

    def _task(self, words: str) -> None:
        if self.lane is None:
            raise ProgramError(f"the task {words[:60]!r} has no lane; write a line as in 'rank 0, lane compute' first")
        rank, lane = self.lane
        body, _, more = words.partition(" | ")
        body, _, written = f"{body} ".partition(" -> ")
        head, *reads = body.split()
        kind, opened, argument = head.partition("(")
        if not KIND.fullmatch(kind):
            raise ProgramError(f"{kind!r} is not a kind of task; write a task as in 'F(0,0) in.0 w0 -> x0.0 c0.0#0'")
        end = f"@{rank}"
        group, work = _more(more) if more else ((), 0.0)
        task = Task(
            kind, rank, lane, tuple([each if "@" in each else each + end for each in reads]),
            tuple([each if "@" in each else each + end for each in written.split()]),
            work, group, read_argument(opened + argument) if opened else None,
        )  # fmt: skip
        self.rows[self.lane].append(task)


def _more(text: str) -> tuple[tuple[int, ...], float]:
    """Group and work behind the bar."""
    group: tuple[int, ...] = ()
    work: float = 0.0
    for name, value in _pairs(text.split()):
        if name == "group" and _GROUP.fullmatch(value):
            group = tuple(map(int, value.split(",")))
        elif name == "work":
            work = _amount(value)
        else:
            raise ProgramError(f"'{name} {value}' is neither a group nor work; write as in 'group 0,1 work 4096'")
    return group, work


def _amount(text: str) -> float:
    number = read_number(text)
    return number if isinstance(number, int) else float(number)


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    yield from zip(words[::2], [*words[1::2], ""], strict=False)


def _matched(form: re.Pattern[str], rest: str, example: str) -> re.Match[str]:
    match = form.fullmatch(rest)
    if match is None:
        raise ProgramError(f"{rest[:60]!r} cannot be read; write as in '{example}'")
    return match


def _new(name: str, known: object, what: str) -> None:
    assert isinstance(known, dict)
    if name in known:
        raise ProgramError(f"{what} {name} stands in this file already; remove one of them")
