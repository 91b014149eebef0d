"""Sharding of weights, gradients and states over groups of different sizes, each matched to a link.

Xu et al., "Scaling Large Language Model Training on Frontier with Low-Bandwidth Partitioning" (arXiv 2501.04266):
ZeRO-3 with weights sharded over a pair of dies, gradients inside a server and states over all, so that what is moved
most often crosses the fastest link; 8-bit gathers and 4-bit scatters come from ZeRO++ (Wang et al., arXiv 2306.10209).
`levels.py` finds such groups for a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class Link:
    """Ranks that a link joins, and its bytes/s one way of a rank."""

    ranks: int
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Sharding:
    """Ranks over which weights, gradients and states are cut; bytes of a gathered weight and a scattered gradient."""

    weights: int
    gradients: int
    states: int
    weight_bytes: float = 2.0
    gradient_bytes: float = 2.0


def zero_3(ranks: int) -> Sharding:
    """Everything over all ranks."""
    return Sharding(ranks, ranks, ranks)


def zero_pp(ranks: int, server: int) -> Sharding:
    """ZeRO++: a second copy of the weights inside each server, 8-bit gathers, 4-bit scatters."""
    return Sharding(server, ranks, ranks, 1.0, 0.5)


def three_level(ranks: int, server: int, pair: int = 2) -> Sharding:
    """Weights over a pair, gradients over a server, states over all."""
    return Sharding(pair, server, ranks, 1.0, 0.5)


def memory(sharding: Sharding, parameters: float) -> float:
    """Bytes of a rank: 2 of each weight, 2 of its gradient and 12 of its states, each over its own ranks."""
    return parameters * (2 / sharding.weights + 2 / sharding.gradients + 12 / sharding.states)


def communication_s(sharding: Sharding, parameters: float, links: Sequence[Link], microbatches: int) -> float:
    """Seconds of a step's collectives, each over the slowest link that its group needs.

    Weights are gathered twice and gradients scattered once a microbatch; where gradients are not sharded over all
    ranks, what each holds is summed over the others once a step; then states' owners send new weights.
    """
    gather = 2 * microbatches * _moved(sharding.weight_bytes * parameters, sharding.weights, links)
    scatter = microbatches * _moved(sharding.gradient_bytes * parameters, sharding.gradients, links)
    across = sharding.states // sharding.gradients
    rest = 2 * parameters / sharding.gradients
    summed = 2 * (across - 1) / across * rest / _widest(links, sharding.states) if across > 1 else 0.0
    copies = sharding.states // sharding.weights
    renewed = 2 * parameters / sharding.weights
    renewed_s = (copies - 1) / copies * renewed / _widest(links, sharding.states) if copies > 1 else 0.0
    return gather + scatter + summed + renewed_s


def _moved(size: float, ranks: int, links: Sequence[Link]) -> float:
    return (ranks - 1) / ranks * size / _widest(links, ranks)


def _widest(links: Sequence[Link], ranks: int) -> float:
    """Bandwidth of the smallest link that joins this many ranks."""
    joined = [link for link in links if link.ranks >= ranks]
    if not joined:
        raise ScenarioError(f"no link joins {ranks} ranks; give one that does, with its bandwidth")
    return min(joined, key=lambda link: link.ranks).bandwidth
