"""The parts of an experiment: cases, cells of the grid, and results of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Key = tuple[float, str, int]
"""Setting, case and seed of a cell; a world may name the three as it likes."""

Figures = Mapping[str, Any]
"""Numbers by name, nested where names have dots (None: there is no such figure), in the unit and with the direction
that the `poise.report.figures.Figure` of that name states."""


class Place(NamedTuple):
    """One cell of the grid: a case at a setting, which is a number, under a seed."""

    at: float
    case: str
    seed: int


@dataclass(frozen=True, slots=True)
class Case:
    """A case: a label and its parameters."""

    label: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


Run = Callable[[Case, int], Figures]
"""A world: the figures of a case under a seed. Cases that are run under the same seed meet the same chance, so their
differences are paired by it."""


class Done(Protocol):
    """The stored result of a run, as comparisons read it."""

    @property
    def place(self) -> Key:
        """Its cell."""

    @property
    def figures(self) -> Figures:
        """Its figures."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one run. wall_s: how long it took."""

    place: Place
    figures: Figures
    wall_s: float = 0.0
