"""Diagonal batching: recurrent-memory transformers compute the cells of an anti-diagonal in one grouped step.

Sivtsov et al. (arXiv 2506.05229). Segment s of layer l needs (s − 1, l) and (s, l − 1), so that all cells with the same
s + l can run together: S + L − 1 grouped steps in place of S·L single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import NamedTuple

from poise.core.errors import UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.efficiency import Efficiencies
from poise.cost.work import Works


def groups(segments: int, layers: int) -> Iterator[int]:
    """Cells of each grouped step: S + L − 1 numbers of at most min(S, L), with a sum of S·L."""
    if segments < 1 or layers < 1:
        raise UserError(f"segments {segments} and layers {layers}: there is no grid of them; give 1 or more")
    for step in range(segments + layers - 1):
        yield min(step + 1, segments, layers, segments + layers - 1 - step)


def sequential_s(segments: int, layers: int, cell_s: Callable[[int], float]) -> float:
    """Seconds cell by cell; `cell_s` by the number of cells at once."""
    return segments * layers * cell_s(1)


def diagonal_s(segments: int, layers: int, cell_s: Callable[[int], float]) -> float:
    """Seconds by diagonals."""
    return sum(cell_s(cells) for cells in groups(segments, layers))


def most(segments: int, layers: int) -> float:
    """The gain where a grouped step took as long as a single cell: S·L / (S + L − 1), which nears L where S ≫ L."""
    return segments * layers / (segments + layers - 1)


class Cells:
    """Seconds of cells of a recurrent-memory transformer on one device, or one tensor group.

    A cell is a layer over `segment` tokens and `memory` more, read and written. Grouped cells are of different layers,
    so that each reads its own weights, and one kernel of each operator serves all.  share: the part of the SMs that
    they run on.
    """

    def __init__(
        self,
        pool: Pool,
        segment: int = 1024,
        memory: int = 128,
        use: Efficiencies | None = None,
        share: float = 1.0,
    ) -> None:
        self.works, self.pool, self.share = Works(pool, use), pool, share
        self.segment, self.memory = segment, memory

    def fixed_s(self) -> float:
        """Fixed times of a layer's kernels, which a grouped step has once."""
        _, k = self.works.lane(self.share)
        return k.fixed / SECOND

    def alone_s(self) -> float:
        """A cell without its kernels' fixed times."""
        _, k = self.works.lane(self.share)
        tokens = self.segment + self.memory
        attention = k.attention(tokens, 0, self.works.window) / self.pool.model.layers
        return (k.layer(tokens) - k.fixed + attention) / SECOND

    def grouped_s(self, cells: int, reached: float = 1.0) -> float:
        """Seconds of `cells` cells at once.

        reached: the part of a device's rate that a single cell reaches, as small products leave processors idle; the
        rest is what grouping gains, up to 1/reached cells.
        """
        single = self.alone_s() / reached
        return self.fixed_s() + max(single, cells * self.alone_s())

    def full_s(self, tokens: int) -> float:
        """Seconds of the model without memory over all tokens, in steps of 8,192, for comparison."""
        builder, _ = self.works.lane(self.share)
        layers = self.pool.model.layers
        work = self.works.of(StepShape(0, (Chunk(tokens, 0),), self.share))
        return (work.series.base + layers * builder.kernels() * SECOND * ceil(tokens / 8192)) / SECOND


class Ways(NamedTuple):
    """Seconds of a prompt by diagonals, segment by segment and with full attention; most: how many times as fast the
    first can be as the second."""

    diagonal_s: float
    sequential_s: float
    full_s: float
    most: float


def ways(pool: Pool, tokens: int, segment: int = 1024, reached: float = 1.0) -> Ways:
    """Each way through a prompt of whole segments, a single cell reaching `reached` of the device's rate."""
    cells, layers, segments = Cells(pool, segment), pool.model.layers, tokens // segment
    cell = partial(cells.grouped_s, reached=reached)
    return Ways(
        diagonal_s(segments, layers, cell), sequential_s(segments, layers, cell), cells.full_s(tokens),
        most(segments, layers),
    )  # fmt: skip
