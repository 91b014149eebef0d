"""A table of one operator on one device, and the curve that it is at a device's figures."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, prod
from typing import NamedTuple

from poise.cost.grid import Axis, Grid, rising, unpack
from poise.cost.operator import OPERATORS, Figures, Operator, Shape, octaves
from poise.cost.origin import Error, How, Origin

BEFORE = 3.0
"""Octaves below a grid to its first node, where one is needed."""

BEYOND = 8.0
"""Octaves above a grid to its last node, which the form alone decides."""

PACKING = ("", "vllm_flash_attn", "flash_attention", "FLASH_ATTENTION")
"""Kernels of attention tables that are FlashAttention 2; vLLM's layer profiles name none."""

ROWS = 64
"""Queries of a tile of FlashAttention 2 over paged KV (`run_mha_fwd_splitkv_dispatch`: kBlockM)."""


class Answer(NamedTuple):
    """One operator's time with its standing.

    how: a word of `poise.cost.origin.How`. error: by cross-validation of such answers.
    """

    seconds: float
    how: str
    error: Error
    table: str


@dataclass(frozen=True, slots=True)
class Table:
    """One operator on one device in one format by one kernel.

    values, seen: the packed grid and which of its nodes had rows. error: of shapes held out. lent: of other devices.
    """

    kind: str
    device: str
    framework: str
    format: str
    kernel: str
    rows: int
    shape: Shape
    axes: tuple[Axis, ...]
    values: str
    seen: str
    error: Error
    lent: Error

    @property
    def operator(self) -> Operator:
        """What kind of operator it is."""
        return OPERATORS[self.kind]

    @property
    def tile(self) -> int:
        """Queries that each head of a decode counts as in one kernel with a prompt's chunk; 0: it takes as alone.

        FlashAttention 2 packs the queries of a group into one tile where all are decodes; with a chunk each head has
        a tile of its own, which is computed whole. Other kernels pack always, or run apart.
        """
        return ROWS if self.kernel in PACKING else 0

    @property
    def label(self) -> str:
        """The table in one line."""
        return " ".join(filter(None, (self.kind, self.device, self.format, self.framework, self.kernel)))


class Curve:
    """A table at a device's figures: seconds of any shape, rising along all axes and never under the datasheet's."""

    __slots__ = ("_seen", "borrowed", "expected", "figures", "grid", "probed", "table")

    def __init__(self, table: Table, figures: Figures, borrowed: bool) -> None:
        """probed: the coordinates at which it was chosen, none where it was not chosen among several.

        expected: the error where the table does not answer for its own shapes.
        """
        self.table, self.figures, self.borrowed = table, figures, borrowed
        self.probed: tuple[float, ...] = ()
        self.expected = table.lent
        self.grid, self._seen = grid_of(table, figures)

    @property
    def lent_by(self) -> tuple[Curve, ...]:
        """The curves that it is made of: itself."""
        return (self,)

    def slice(self, first: int, *rest: float) -> Slice:
        """The curve over its first `first` coordinates alone, the others fixed at `rest`."""
        axes = self.grid.axes
        fixed = list(Grid(axes[first:], ()).corners([octaves(each) for each in rest]))
        size = prod(len(axis.nodes) for axis in axes[first:])
        count = prod(len(axis.nodes) for axis in axes[:first])
        values = self.grid.values
        mixed = [sum(weight * values[node * size + index] for index, weight in fixed) for node in range(count)]
        return Slice(self, Grid(axes[:first], mixed), rest)

    def seconds(self, *at: float) -> float:
        """Seconds at coordinates in the order of `Operator.axes`."""
        table = self.table
        found = exp(self.grid.at([octaves(each) for each in at]))
        compute, moved = table.operator.least(at, table.format, self.figures)
        return max(found, float(compute), float(moved))

    def covers(self, *at: float) -> bool:
        """Whether coordinates lie between shapes that were measured."""
        return self._inside(at) >= 0.5

    def _inside(self, at: Sequence[float]) -> float:
        """The weight of measured nodes around coordinates; 0 outside the grid."""
        where = [octaves(each) for each in at]
        if any(not axis.low - 0.5 <= x <= axis.high + 0.5 for axis, x in zip(self._seen.axes, where, strict=True)):
            return 0.0
        return sum(weight for index, weight in self._seen.corners(where) if self._seen.values[index])

    def answer(self, *at: float) -> Answer:
        """Seconds, and the evidence behind them."""
        origin = self.origin(*at)
        return Answer(self.seconds(*at), origin.how.value, origin.error, origin.table)

    def origin(self, *at: float) -> Origin:
        """The evidence at coordinates; without any, at those at which the table was chosen."""
        table, at = self.table, at or self.probed
        how = self._how(at)
        error = table.error if how in (How.MEASURED, How.INTERPOLATED) else self.expected
        return Origin(table.kind, table.format, how, table.device, table.label, error)

    def _how(self, at: Sequence[float]) -> How:
        if self.borrowed:
            return How.BORROWED
        inside = self._inside(at) if at else 1.0
        if inside < 0.5:
            return How.EXTRAPOLATED
        return How.MEASURED if inside > 1 - 1e-9 else How.INTERPOLATED


class Slice:
    """A curve over some of its coordinates, fewer look-ups each."""

    __slots__ = ("_figures", "_format", "_least", "_rest", "grid")

    def __init__(self, curve: Curve, grid: Grid, rest: tuple[float, ...]) -> None:
        self.grid, self._rest = grid, rest
        self._least, self._format, self._figures = curve.table.operator.least, curve.table.format, curve.figures

    def seconds(self, *at: float) -> float:
        """Seconds at the coordinates that are left."""
        compute, moved = self._least((*at, *self._rest), self._format, self._figures)
        found = exp(self.grid.at([octaves(each) for each in at]))
        return max(found, float(compute), float(moved))


@lru_cache(maxsize=256)
def grid_of(table: Table, figures: Figures) -> tuple[Grid, Grid]:
    """The log seconds of a table at a device's figures, with nodes beyond; and which of its own nodes had rows."""
    kind = table.operator
    missed = unpack(table.values, table.axes)
    axes = tuple(
        Axis(axis.low, axis.step, axis.count, BEYOND, _before(table, at)) for at, axis in enumerate(table.axes)
    )
    values = []
    for node, at in zip(Grid(axes, ()).nodes(), _edges(axes), strict=True):
        form = kind.seconds(tuple(2.0**each for each in node), table.format, figures, table.shape)
        values.append(log(form) + missed[at])
    bits = b64decode(table.seen)
    seen = [bool(bits[at // 8] >> at % 8 & 1) for at in range(len(missed))]
    return rising(Grid(axes, values), kind.rising), Grid(table.axes, seen)


def _before(table: Table, at: int) -> float:
    """Octaves down to a node below a grid that begins later than its axis might."""
    starts = table.operator.starts
    return BEFORE if starts and table.axes[at].low > starts[at] + 1 else 0.0


def _edges(axes: tuple[Axis, ...]) -> list[int]:
    """For each node of axes with some beyond and before, the nearest node without."""
    found = [0]
    for axis in axes:
        steps = [0] * (axis.before > 0) + [*range(axis.count), axis.count - 1]
        found = [index * axis.count + step for index in found for step in steps]
    return found
