"""Runs an experiment: the cells of its grid by a crew, then further cells that the results ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from poise.core.errors import UserError
from poise.experiment.fill import fill
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter, silent
from poise.experiment.workers import Do, Workers, worker_pool

Key = TypeVar("Key")
Task = TypeVar("Task")
Cell = TypeVar("Cell")


class World(Protocol[Key, Task, Cell]):
    """The interface of a world's experiment; a cell is identified by its key."""

    @property
    def do(self) -> Do[Task, Cell]:
        """A function of a module that does a task."""

    @property
    def cells(self) -> Mapping[Key, Cell]:
        """The cells that are done."""

    def keys(self) -> Sequence[Key]:
        """The cells of the grid, in the order in which they are best done."""

    def seek(self, keys: Sequence[Key]) -> None:
        """Load those of some cells that are stored."""

    def tasks(self, keys: Sequence[Key], left: Sequence[Key]) -> Iterable[Task]:
        """The tasks of the cells of `keys` that are `left`, made one by one as they are needed."""

    def keep(self, cell: Cell) -> Key:
        """Store the result of a task, and return its cell's key."""

    def more(self) -> Sequence[Key]:
        """Further cells that the results so far ask for."""


class Shard(NamedTuple):
    """The i-th of n parts of an experiment, counted from 1."""

    number: int
    parts: int

    def of(self, keys: Sequence[Key]) -> list[Key]:
        """Its cells: every n-th one, so that parts cost about the same."""
        return list(keys[self.number - 1 :: self.parts])


def shard_of(text: str | None) -> Shard | None:
    """Parse `--shard`; UserError where it is not valid."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not number.isdecimal() or not count.isdecimal() or not 1 <= int(number) <= int(count):
        raise UserError(f"--shard {text}: must be I/N with I from 1 to N; give a part, as in 2/8")
    return Shard(int(number), int(count))


def run(
    world: World[Key, Task, Cell], *, workers: Workers | None = None, shard: Shard | None = None,
    label: str = "simulations", progress: Meter | None = None,
) -> bool:  # fmt: skip
    """Run every cell that is not stored, then the further ones; returns whether Ctrl-C ended it early.

    workers: where; the result does not depend on it.  shard: only that part of the grid, and nothing more.
    """
    with interrupts() as stop, worker_pool(workers or Workers(), stop, world.do) as hands:
        keys: Sequence[Key] = world.keys() if shard is None else shard.of(world.keys())
        while keys and not stop.is_set():
            world.seek(keys)
            fill(label, keys, world.cells.__contains__, _of(world, keys), hands, world.keep, progress or silent)
            keys = [] if shard is not None or stop.is_set() else world.more()
        return stop.is_set()


def _of(world: World[Key, Task, Cell], keys: Sequence[Key]) -> Callable[[list[Key]], Iterable[Task]]:
    return lambda left: world.tasks(keys, left)
