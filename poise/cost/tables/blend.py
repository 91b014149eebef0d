"""A curve of several lenders: the weighted mean of the logs of their seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import exp, log, prod

from poise.cost.efficiency import Efficiencies
from poise.cost.grid import Axis, Grid
from poise.cost.operator import Figures, octaves
from poise.cost.origin import How, Origin
from poise.cost.tables.curve import Curve, Slice
from poise.cost.typical import parts

_TYPICAL = Efficiencies()


class Blend(Curve):
    """Curves of lenders, the one of the largest part first, and the roofline's typical efficiencies.

    plain: the part of the roofline; the parts of `lenders` and it are 1 in all. Its table is the first lender's.
    """

    __slots__ = ("_logs", "lenders", "plain")

    def __init__(self, lenders: Sequence[tuple[Curve, float]], plain: float, figures: Figures) -> None:
        super().__init__(lenders[0][0].table, figures, borrowed=True)
        self.lenders, self.plain = tuple(lenders), plain
        self._logs: dict[tuple[float, ...], float] = {}

    @property
    def lent_by(self) -> tuple[Curve, ...]:
        """The curves that it is made of."""
        return tuple(curve for curve, _ in self.lenders)

    def seconds(self, *at: float) -> float:
        """Seconds at coordinates in the order of `Operator.axes`."""
        table = self.table
        corners = _corners(self.lenders[0][0].grid.axes, at)
        found = exp(sum(weight * self._log(node) for node, weight in corners))
        return max(found, *map(float, table.operator.least(at, table.format, self.figures)))

    def slice(self, first: int, *rest: float) -> Slice:
        """The curve over its first `first` coordinates alone: the mean at the nodes of the first lender."""
        axes = self.lenders[0][0].grid.axes
        fixed = list(_corners(axes[first:], rest))
        values = [
            sum(weight * self._log((*node, *corner)) for corner, weight in fixed)
            for node in Grid(axes[:first], ()).nodes()
        ]
        return Slice(self, Grid(axes[:first], values), rest)

    def _log(self, node: tuple[float, ...]) -> float:
        """The log of seconds at octaves, remembered."""
        found = self._logs.get(node)
        if found is None:
            at = tuple(2.0**octave for octave in node)
            found = sum(part * log(curve.seconds(*at)) for curve, part in self.lenders) + self._plain(at)
            self._logs[node] = found
        return found

    def origin(self, *at: float) -> Origin:
        """The evidence: that of the lender of the largest part."""
        table = self.table
        if self.plain > self.lenders[0][1]:
            label = f"roofline beside {table.label}" if self.plain < 1.0 else f"roofline {table.kind} {table.format}"
            return Origin(table.kind, table.format, How.ROOFLINE, "", label, self.expected)
        others = len(self.lenders) - 1 + (self.plain > 0)
        return super().origin(*at)._replace(table=f"{table.label} and {others} more" if others else table.label)

    def _plain(self, at: tuple[float, ...]) -> float:
        """The roofline's part of the log of seconds."""
        if self.plain == 0.0:
            return 0.0
        table = self.table
        compute, moved, fixed = parts(table.kind, table.format, self.figures, at, _TYPICAL)
        return self.plain * log(fixed + max(float(compute), float(moved)))


def _corners(axes: Sequence[Axis], at: Sequence[float]) -> Iterator[tuple[tuple[float, ...], float]]:
    """The nodes around coordinates, as octaves, with their weights."""
    sides: list[list[tuple[float, float]]] = []
    for axis, value in zip(axes, at, strict=True):
        below, part = axis.place(octaves(value))
        nodes = axis.nodes
        sides.append([(nodes[below], 1 - part), *([(nodes[below + 1], part)] if part else [])])
    for corner in product(*sides):
        yield tuple(node for node, _ in corner), prod(weight for _, weight in corner)
