"""How tokens spread over the routed experts of a model, and which ranks hold these experts."""

from __future__ import annotations

from dataclasses import dataclass, field

Shares = tuple[tuple[float, ...], ...]
"""Layers of experts: the part of all (token, expert) pairs of a layer that goes to each of its experts."""

Placement = tuple[tuple[tuple[int, ...], ...], ...]
"""Layers of experts: the ranks that hold a copy of each. One layer stands for all; () gives each rank an equal part of
consecutive experts. A rank may be named twice. Tokens of an expert spread evenly over its copies."""


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """How popular the experts of a layer are.

    zipf: the popularity of the i-th most popular expert falls as i^-zipf, and each layer has other favourites; 0 for
    experts that are equally popular (None: what was measured on models with about as many experts,
    `poise.cost.expert_load`).
    shares: recorded popularity instead.
    source: where it was recorded, for reports.
    """

    zipf: float | None = None
    shares: Shares = field(default=(), hash=False)
    source: str = ""


BALANCED = ExpertLoad(zipf=0.0)
"""All experts are equally popular; what a rank gets in a step still differs by chance."""


def copies(placement: Placement, experts: int) -> int:
    """Slots of a layer's experts on all ranks, redundant copies included; the fullest layer's where they differ."""
    return max((sum(map(len, layer)) for layer in placement), default=experts)
