"""The roofline recipe: from a datasheet, a model's shape and stated efficiencies to an estimator."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.spec import Pool
from poise.cost.efficiency import Efficiencies
from poise.cost.step import RooflineEstimator

__all__ = ["Roofline", "RooflineEstimator"]


@dataclass(frozen=True, slots=True)
class Roofline(Efficiencies):
    """An operator takes a fixed time plus the larger of its arithmetic and its bytes, each at what is reachable.

    Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009). The parameters are the efficiencies of
    `Efficiencies`, each with a default measured over devices and engines. Nothing is fitted to one model or engine, so
    absolute times may be off by tens of per cent: relations between layouts, loads and policies are what it is for.

        Roofline().build(pool).step(StepShape(decodes=8, chunks=(Chunk(512, 0),)))
    """

    def build(self, pool: Pool) -> RooflineEstimator:
        """The estimator of one pool; raises ScenarioError for degrees or links that cannot be laid out."""
        return RooflineEstimator(pool, self)
