"""A Program of one pipeline as one of several that train on other samples: data parallelism."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from poise.core.errors import ProgramError
from poise.program.content import Atoms, Content
from poise.program.program import Program
from poise.program.task import Lane, Task, at, base, rank_of, stem

_PEERS = ("to", "from", "group")
"""Lanes that are named by ranks."""
_OF_SAMPLES = frozenset({"F", "F_NO_GRAD", "R", "B", "I", "W", "S", "T", "send", "recv", "free", "wait", "copy"})
"""Kinds whose argument, if it is a tuple, ends in a sample."""


def replicated(program: Program, replicas: int) -> Program:
    """`replicas` copies of `program` that train on samples of their own; copy r of rank k is rank k + r·ranks.

    Collectives of one rank, as `reduced` and `gathered` make them, become those of all its copies: they sum gradients
    over replicas, scatter them, gather the weights of which each copy then has a part. Their bytes stay what a rank
    sends. Sample b of replica r is number b + r·samples in arguments and contents; values keep their names, with other
    ranks. Each update must get the mean over the samples of all replicas, so gradients that are not reduced are refused
    by the proof. ProgramError where weights change behind every backward.
    """
    return merged([replica(program, number, replicas) for number in range(replicas)])


def replica(program: Program, number: int, replicas: int) -> Program:
    """One of them alone: its tasks, and what it is given; its collectives reach beyond it."""
    if replicas < 1 or not 0 <= number < replicas:
        raise ProgramError(f"replica {number} of {replicas}: give at least 1, and a number from 0 to one below that")
    changed = next((name for name in program.demands if "#" in name), None)
    if changed is not None:
        raise ProgramError(
            f"replicated: {changed} is updated behind a single backward, so replicas would drift apart; take a "
            "schedule that updates once a step"
        )
    return _Replica(program, number, replicas).made()


def merged(programs: list[Program]) -> Program:
    """Programs of other ranks as one; `demands`, paths and what is accepted are those of all."""
    found = programs[0]
    return replace(
        found,
        rows={lane: row for each in programs for lane, row in each.rows.items()},
        values={name: value for each in programs for name, value in each.values.items()},
        given={name: content for each in programs for name, content in each.given.items()},
    )


class _Replica:
    def __init__(self, program: Program, number: int, replicas: int) -> None:
        self.program, self.number, self.replicas = program, number, replicas
        self.size = program.ranks
        self.ranks, self.samples = number * self.size, number * len(program.paths)
        alone = (task for task in program.tasks() if task.kind == "all_gather" and len(task.group) == 1)
        self.sharded = {stem(name).removesuffix(".shard") for task in alone for name in task.reads}

    def made(self) -> Program:
        program = self.program
        return replace(
            program,
            rows={
                Lane(rank + self.ranks, self._lane(lane)): tuple(self._task(task) for task in row)
                for (rank, lane), row in program.rows.items()
            },
            values={self._value(name): size._replace(name=self._value(name)) for name, size in program.values.items()},
            given={self._value(name): self._content(name, each) for name, each in program.given.items()},
            demands={name: self._demand(demand) for name, demand in program.demands.items()},
            paths=program.paths * self.replicas,
        )

    def _demand(self, atoms: Atoms) -> Atoms:
        """The mean over all replicas."""
        samples, part = len(self.program.paths), Fraction(1, self.replicas)
        return {
            _later(atom, each * samples, 2): factor * part
            for each in range(self.replicas)
            for atom, factor in atoms.items()
        }

    def _task(self, task: Task) -> Task:
        kind, rank, lane, reads, writes, work, group, _ = task
        if len(group) == 1:
            mine = tuple(rank + each * self.size for each in range(self.replicas))
        else:
            mine = tuple(each + self.ranks for each in group)
        names = tuple(map(self._value, reads)), tuple(map(self._value, writes))
        return Task(kind, rank + self.ranks, self._lane(lane), *names, work, mine, self._arg(task))

    def _arg(self, task: Task) -> Any:
        kind, arg = task.kind, task.arg
        if kind == "scale":
            return (arg[0], arg[1] * self.replicas)
        if kind == "broadcast":
            return (arg[0] + self.ranks, arg[1] + self.samples)
        if kind in _OF_SAMPLES and isinstance(arg, tuple):
            return (*arg[:-1], arg[-1] + self.samples)
        if kind == "all_reduce" and task.lane.startswith("sum"):
            return arg + self.samples
        return arg

    def _lane(self, name: str) -> str:
        kind, _, peers = name.partition(" ")
        if kind not in _PEERS:
            return name
        return f"{kind} {','.join(str(int(each) + self.ranks) for each in peers.split(','))}"

    def _value(self, name: str) -> str:
        return at(base(name), rank_of(name) + self.ranks)

    def _content(self, name: str, content: Content) -> Content:
        if stem(name) in self.sharded:
            return content._replace(part=(self.number, self.replicas))
        atoms = {_later(atom, self.samples, 1) if atom[0] == "x" else atom: n for atom, n in content.atoms.items()}
        return content._replace(atoms=atoms)


def _later(atom: tuple[Any, ...], samples: int, place: int) -> tuple[Any, ...]:
    """An atom of a later sample, whose number is at `place`."""
    return (*atom[:place], atom[place] + samples, *atom[place + 1 :])
