"""The naive step costs for comparison with the answers."""

from __future__ import annotations

from dataclasses import fields

from poise.core.estimate import Estimator
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.efficiency import Efficiencies


def naive_cost(pool: Pool) -> Estimator:
    """The bare roofline: every efficiency 1, every fixed time 0."""
    bare = {f.name: 0.0 if f.name.endswith("_s") else 1.0 for f in fields(Efficiencies)}
    return Roofline(**bare).build(pool)
