"""Stages of other shapes than a slice of dense layers: experts within a stage (PPMoE), layers of a graph (GNNPipe).

What they send, in closed form, and the costs of a schedule that they make. Bytes, seconds, bytes per second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs


@dataclass(frozen=True)
class Experts:
    """An MoE layer of one microbatch: `tokens` bytes of activations (b · s · h), each token to `top` experts."""

    tokens: Fraction
    top: int
    tensor: int
    """Ranks of the tensor-parallel group, which have all experts of the layer between them (PPMoE)."""
    expert: int
    """Ranks over which experts would be spread otherwise, across hosts."""

    def all_reduce(self, bandwidth: Fraction) -> Fraction:
        """PPMoE (Chen et al., 2023): tokens are on all ranks already, each takes those of its experts; one sum."""
        return Fraction(2 * (self.tensor - 1), self.tensor) * self.tokens / _positive(bandwidth)

    def all_to_all(self, bandwidth: Fraction) -> Fraction:
        """Expert parallelism: every token to its experts and back, two exchanges of `top` times the tokens."""
        return Fraction(2 * self.top * (self.expert - 1), self.expert) * self.tokens / _positive(bandwidth)

    @property
    def crossover(self) -> Fraction:
        """How many times as fast the links within a group must be for PPMoE to send in less time."""
        if self.expert < 2:
            raise ScheduleError(f"experts over {self.expert} rank send nothing; give 2 or more to compare")
        return Fraction(self.tensor - 1, self.tensor) / (self.top * Fraction(self.expert - 1, self.expert))


def with_exchange(costs: Costs, exchange: Fraction, layers: int) -> Costs:
    """`costs` of stages that have `layers` MoE layers each, whose exchange is not hidden forward nor backward."""
    more = exchange * layers
    return replace(costs, f=tuple(each + more for each in costs.f), b=tuple(each + more for each in costs.b))


@dataclass(frozen=True)
class GraphLayers:
    """A graph network on a whole graph: its layers are the stages, chunks of its vertices the microbatches."""

    vertices: int
    layers: int
    hidden: int
    """Bytes of a vertex between two layers."""
    halo: int
    """Vertices that parts of the graph would have to send each other before a layer."""

    def pipelined(self, stages: int) -> int:
        """Bytes of an epoch with layers on `stages` ranks (GNNPipe): every vertex over every boundary and back."""
        return 2 * (stages - 1) * self.vertices * self.hidden

    def partitioned(self) -> int:
        """Bytes of an epoch with the graph cut instead: the halo before every layer and back."""
        return 2 * self.layers * self.halo * self.hidden

    def costs(self, work: Costs, chunks: int, bandwidth: Fraction) -> Costs:
        """Costs of one chunk from the `work` of an epoch per stage, where boundaries have this bandwidth."""
        if chunks < 1:
            raise ScheduleError(f"{chunks} chunks of the graph; give at least one")
        hop = Fraction(self.vertices * self.hidden, chunks) / _positive(bandwidth)
        f, b, w = (tuple(each / chunks for each in row) for row in (work.f, work.b, work.w))
        return replace(work, f=f, b=b, w=w, comm=(hop,))


def _positive(bandwidth: Fraction) -> Fraction:
    if bandwidth <= 0:
        raise ScheduleError(f"bandwidth {bandwidth}; give bytes per second above 0")
    return bandwidth
