"""Times of one operator of a pool, sliced from tables so that a question is a look-up or two."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import exp, log2, sqrt
from typing import NamedTuple

from poise.cost.tables import Curve, Slice


def spread(most: int) -> list[float]:
    """1, 2, 3, 4, 6, 8, 12, … up to at least `most`: two nodes an octave."""
    octaves = range(most.bit_length() + 1)
    return sorted({1.0, *(2.0**at for at in octaves), *(1.5 * 2.0**at for at in octaves if at)})


class Ramp:
    """Picoseconds as straight lines between nodes, the first value before them, the last line beyond."""

    __slots__ = ("_at", "_first", "_lines", "_values")

    def __init__(self, at: Sequence[float], values: Sequence[float]) -> None:
        self._at, self._first, self._values = list(at), values[0], list(values)
        self._lines = []
        for low, high, one, other in zip(at, at[1:], values, values[1:], strict=False):
            slope = (other - one) / (high - low)
            self._lines.append((one - slope * low, slope))

    def __call__(self, x: float) -> float:
        """The value at `x`."""
        index = bisect_right(self._at, x) - 1
        if index < 0:
            return self._first
        lines = self._lines
        fixed, slope = lines[index] if index < len(lines) else lines[-1]
        return fixed + slope * x

    def over(self, other: Ramp) -> Ramp:
        """The larger of two ramps over the same nodes."""
        return Ramp(self._at, list(map(max, self._values, other._values)))


class Tried:
    """An operator by its tokens, by the kernel that was chosen for their octave (the nearest one)."""

    __slots__ = ("_kernels",)

    def __init__(self, kernels: Sequence[Slice]) -> None:
        """kernels: for 1, 2, 4, … tokens; the last one for all beyond."""
        self._kernels = kernels

    def seconds(self, tokens: float) -> float:
        """Seconds of `tokens` tokens."""
        octave = round(log2(tokens)) if tokens > 1 else 0
        return self._kernels[min(octave, len(self._kernels) - 1)].seconds(tokens)


class Surface:
    """One head layout's prefill attention by keys a query and queries: a slice of a table, beyond its fixed time."""

    __slots__ = ("_arithmetic", "_columns", "_queries", "_spans", "_values", "floor")

    def __init__(self, curve: Curve, group: float, width: float) -> None:
        grid = curve.slice(2, group, width).grid
        self._spans, self._queries = grid.axes
        self._columns, self._values = len(self._queries.nodes), grid.values
        one, _ = curve.table.operator.least((1.0, 1.0, group, width), curve.table.format, curve.figures)
        self._arithmetic = float(one)
        self.floor = exp(grid.values[0])

    def seconds(self, span: float, queries: float) -> float:
        """Seconds of a shape, by bilinear interpolation of logs in octaves, which always has a node to either side."""
        row, down = self._spans.place(log2(span))
        column, right = self._queries.place(log2(queries))
        values, at = self._values, row * self._columns + column
        upper = values[at] + right * (values[at + 1] - values[at])
        at += self._columns
        lower = values[at] + right * (values[at + 1] - values[at])
        found, least = exp(upper + down * (lower - upper)), self._arithmetic * span * queries
        return found if found > least else least


class Latent:
    """Latent prefill attention in coordinates of `Surface`: by the prompt that would have as many query-key pairs."""

    __slots__ = ("_heads", "_slice", "floor")

    def __init__(self, curve: Curve, heads: float) -> None:
        self._heads, self._slice = heads, curve.slice(1, heads)
        self.floor = exp(self._slice.grid.values[0])

    def seconds(self, span: float, queries: float) -> float:
        """Seconds of a shape."""
        pairs = span * queries / self._heads
        return max(self.floor, self._slice.seconds((sqrt(1 + 8 * pairs) - 1) / 2))


class Line(NamedTuple):
    """Decode attention of one layer by decodes a rank: seconds as `fixed(n) + slope(n) × Σ context`."""

    fixed: Ramp
    slope: Ramp

    def over(self, other: Line) -> Line:
        """This line, or `other` where that is longer."""
        return Line(self.fixed.over(other.fixed), self.slope.over(other.slope))
