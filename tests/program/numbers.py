"""A Program run on numbers: stages are factors modulo a prime. It shares nothing with the proof but the lanes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from zlib import crc32

from poise.program import Program, Task
from poise.program.task import base

PRIME = 2**61 - 1


class Wrong(Exception):
    """It stops, or reads what is not there."""


def number(*what: object) -> int:
    """A number that only these have."""
    return crc32(repr(what).encode()) * 0x9E3779B97F4A7C15 % PRIME


def weights_of(program: Program, chance: Random) -> dict[str, Any]:
    """All new weights, by name, from a run in an order by `chance` that lanes and values allow."""
    return _Run(program, chance).run()


class _Run:
    def __init__(self, program: Program, chance: Random) -> None:
        self.program, self.chance = program, chance
        self.values: dict[str, Any] = {name: _given(name) for name in program.given}
        self.wire: dict[tuple[int, ...], list[Any]] = {}
        self.rows = {lane: list(row) for lane, row in program.rows.items()}
        self.updated: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        while open := [lane for lane, row in self.rows.items() if row]:
            self.chance.shuffle(open)
            if not any(self._step(self.rows[lane][0]) for lane in open):
                raise Wrong(f"nothing can go on: {self.rows[open[0]][0]}")
        return self.updated

    def _step(self, task: Task) -> bool:
        """Run the task at the head of its lane, if it can."""
        if task.kind == "recv":
            if not self.wire.get(task.group):
                return False
            self._end(task, [self.wire[task.group].pop(0)])
        elif any(name not in self.values for name in task.reads):
            return False
        elif task.kind == "send":
            self.wire.setdefault(task.group, []).append(self.values[task.reads[0]])
            self._end(task, [])
        elif task.group:
            return self._meet(task)
        else:
            self._end(task, self._made(task, [self.values[name] for name in task.reads]))
        return True

    def _meet(self, task: Task) -> bool:
        """All members of a collective at once."""
        first = [row[0] for lane, row in self.rows.items() if row and lane.name == task.lane]
        heads = [each for each in first if (each.kind, each.group, each.arg) == (task.kind, task.group, task.arg)]
        if len(heads) < len(task.group) or any(name not in self.values for each in heads for name in each.reads):
            return False
        given = [self.values[name] for each in heads for name in each.reads]
        for each in heads:
            self._end(each, [sum(given) % PRIME])
        return True

    def _end(self, task: Task, made: Sequence[Any]) -> None:
        del self.rows[next(lane for lane in self.rows if lane == (task.rank, task.lane))][0]
        self.values.update(zip(task.writes, made, strict=False))
        if task.kind == "free":
            del self.values[task.reads[0]]
        if task.kind == "update":
            self.updated[task.writes[0]] = made[0]

    def _made(self, task: Task, reads: list[Any]) -> list[Any]:
        kind = task.kind
        if kind in ("F", "F_NO_GRAD", "R"):
            x, w = reads[:2] if kind != "R" else (_plain(reads[0]), reads[1])
            y = _times(x, w)
            kept = x if kind == "F_NO_GRAD" else (x, y)
            return [kept] if kind == "R" else [y, kept, 0]
        if kind in ("B", "I"):
            return self._backward(task, reads)
        if kind == "W":
            x, g = reads[0]
            return [(reads[1] + _times(x, g)) % PRIME]
        if kind == "S":
            return [_times(reads[0], number("shard", task.arg[0]))]
        if kind == "T":
            return [(reads[1] + _times(reads[0], number("rows", task.arg[0]))) % PRIME, _times(reads[0], 3)]
        if kind == "scale":
            return [_times(reads[0], task.arg[0] * pow(task.arg[1], -1, PRIME))]
        if kind == "update":
            return [(reads[0] - reads[1]) % PRIME]
        return [*reads, *[0] * len(task.writes)]

    def _backward(self, task: Task, reads: list[Any]) -> list[Any]:
        first = base(task.writes[0]).startswith("g")
        (x, y), w = reads[:2]
        rest = reads[2:] if task.kind == "I" else reads[3:]
        g = rest[0] if rest else _times(y, number("loss"))
        back = [_times(w, g)] if first else []
        return [*back, (x, g)] if task.kind == "I" else [*back, (reads[2] + _times(x, g)) % PRIME]


def _times(one: Any, two: Any) -> int:
    """A product modulo the prime. A tuple times a number would be so many copies of it."""
    if not (isinstance(one, int) and isinstance(two, int)):
        raise Wrong("an activation that was kept is no number")
    return one * two % PRIME


def _plain(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple) else value)


def _given(name: str) -> int:
    return 0 if name.startswith("d") else number(base(name))
