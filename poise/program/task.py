"""The parts of a Program: values, each of which lives in one place, and tasks, which read and write them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lane(NamedTuple):
    """What a rank does one after the other: `compute`, `to 3`, `from 1`, `group 0,1`, `d2h`, `h2d`, `host`, `disk`."""

    rank: int
    name: str

    def __str__(self) -> str:
        return f"rank {self.rank}, lane {self.name}"


class Value(NamedTuple):
    """A tensor, or several, on one rank: `x3.2@1` is x3.2 on rank 1, `dw3#5@1` the fifth version of dw3 there."""

    name: str
    bytes: float = 0.0
    """Or any other unit of memory, the same for all values of a tier."""
    tier: str = "device"
    """Where it lives: `device`, `host`, `disk`."""


class Task(NamedTuple):
    """A piece of work on a lane. It starts when the task before it there has ended and all that it reads is there."""

    kind: str
    rank: int
    lane: str
    reads: tuple[str, ...] = ()
    """Names of values, in the order in which the kind takes them."""
    writes: tuple[str, ...] = ()
    work: float = 0.0
    """FLOPs of computations, bytes of transfers; a clock makes seconds of them."""
    group: tuple[int, ...] = ()
    """The ranks that take part: (sender, receiver) of a message, all members of a collective."""
    arg: Any = None
    """What the kind needs to know, such as (stage, microbatch)."""

    def __str__(self) -> str:
        if self.kind.isupper() and isinstance(self.arg, tuple):  # as PyTorch writes operations: 2F0
            return f"{self.arg[0]}{self.kind}{','.join(map(str, self.arg[1:]))}"
        return f"{self.kind} {' '.join(map(base, self.writes or self.reads))}".rstrip()


def at(name: str, rank: int) -> str:
    """The full name of a value on a rank."""
    return f"{name}@{rank}"


def rank_of(value: str) -> int:
    """The rank on which a value lives; −1 where its name has none."""
    _, mark, rank = value.rpartition("@")
    return int(rank) if mark and rank.isdigit() else -1


def base(value: str) -> str:
    """The name of a value without its rank: the same on sender and receiver."""
    return value.rpartition("@")[0]


def stem(value: str) -> str:
    """The name without rank and version: `dw3` of `dw3#5@1`."""
    return base(value).partition("#")[0]


def version(value: str) -> int:
    """The version of a value: 5 of `dw3#5@1`, 0 where it has none."""
    return int(base(value).partition("#")[2] or 0)
