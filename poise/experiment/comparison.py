"""The results of an experiment: figures with intervals for each case and setting, and which case is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from poise.core.errors import UserError
from poise.experiment.case import Done
from poise.experiment.intervals import mean
from poise.report.figures import Figure
from poise.report.intervals import Interval
from poise.report.seeds import CONFIDENCE
from poise.report.verdict import Length, Verdict, judge


class Question(Protocol):
    """The question of an experiment."""

    @property
    def names(self) -> Sequence[str]:
        """Its cases, by label."""

    @property
    def at(self) -> Sequence[float]:
        """Its settings."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Its seeds."""

    @property
    def by(self) -> Figure:
        """The figure that decides."""

    def figure(self, name: str) -> Figure:
        """The figure of a name; UserError where there is none by which cases can be compared."""

    def places(self) -> Sequence[Any]:
        """All of its cells."""


CellT = TypeVar("CellT", bound=Done)
Study = TypeVar("Study", bound=Question)


@dataclass(slots=True)
class Compared(Generic[Study, CellT]):
    """The finished cells of an experiment. A world provides its intervals: `single`, `paired`
    and `length`. AXIS: the name of a setting."""

    study: Study
    cells: dict[Any, CellT] = field(default_factory=dict)

    AXIS: ClassVar[str] = "setting"

    def named(self, at: float) -> list[str]:
        """The cases that have a cell at a setting."""
        return [name for name in self.study.names if self.of(name, at)]

    def of(self, case: str, at: float) -> list[CellT]:
        """The cells of a case at a setting, by seed."""
        found = (self.cells.get((at, case, seed)) for seed in self.study.seeds)
        return [cell for cell in found if cell is not None]

    @property
    def complete(self) -> bool:
        """Whether every cell of the grid is there."""
        return all(place in self.cells for place in self.study.places())

    def single(self, cells: list[CellT], figure: Figure, confidence: float) -> Interval:
        """A figure of some cells that differ by their seeds, with its interval."""
        raise NotImplementedError

    def paired(self, base: list[CellT], other: list[CellT], figure: Figure, confidence: float) -> Interval:
        """How much more of a figure `other` has than `base`."""
        raise NotImplementedError

    def length(self, cells: list[CellT]) -> Length | None:
        """The amount of data behind a verdict over some cells."""
        raise NotImplementedError

    def interval(
        self, case: str, figure: str, at: float = 1.0, *, against: str | None = None, confidence: float = CONFIDENCE
    ) -> Interval:
        """A figure of a case, as in ttft_s.p99, with its interval; or how much more it has than `against` has.

        Differences are paired: by seed where there is chance. UserError for unknown names.
        """
        chosen = self.study.figure(figure)
        for name in (case, against or case):
            self.known(name, at)
        if against is None:
            return self.single(self.of(case, at), chosen, confidence)
        return self.paired(self.of(against, at), self.of(case, at), chosen, confidence)

    def known(self, case: str, at: float) -> list[CellT]:
        """The cells of a case at a setting; UserError where there are none."""
        if cells := self.of(case, at):
            return cells
        settings = ", ".join(f"{each:g}" for each in self.study.at)
        known = f"give one of {', '.join(self.study.names)} and one of {settings}"
        raise UserError(f"there is no result of {case!r} at {self.AXIS} {at:g}; {known}")

    def best(self, at: float = 1.0, by: str | None = None) -> Verdict:
        """The best case at a setting by a figure (default: the deciding one), and those that cannot be distinguished
        from it."""
        figure = self.study.by if by is None else self.study.figure(by)
        cells = {name: self.of(name, at) for name in self.named(at)}
        return judge(
            figure,
            {name: mean([figure.value(cell.figures) for cell in some]) for name, some in cells.items()},
            lambda base, other, confidence: self.paired(cells[base], cells[other], figure, confidence),
            self.length([cell for some in cells.values() for cell in some]),
        )
