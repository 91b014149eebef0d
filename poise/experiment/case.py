"""What an experiment is made of: cases, the places at which they are run, and what comes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Key = tuple[float, str, int]
"""At which setting, which case, under which seed; a world may name the three as it likes."""

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
    """What is run: a label and the parameters that make it what it is."""

    label: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


Run = Callable[[Case, int], Figures]
"""A world: what comes of a case under a seed. Cases that are run under the same seed meet the same chance, so their
differences are paired by it."""


class Done(Protocol):
    """What is kept of a run, as comparisons read it."""

    @property
    def place(self) -> Key:
        """Where it stands."""

    @property
    def figures(self) -> Figures:
        """What came of it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one run came to. wall_s: how long it took."""

    place: Place
    figures: Figures
    wall_s: float = 0.0
