"""Which step costs answer: the one place where an estimator is chosen, and the naive one that is set beside it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from poise.catalogue.engines import engine_defaults
from poise.core.estimate import Estimator
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.efficiency import Efficiencies


def cost_for(pool: Pool, engine: str, version: str) -> Estimator:
    """The estimator of `pool` under `engine` at `version`, with the engine's own host times."""
    known = engine_defaults(engine, version)
    return Roofline(cpu_step_s=known.step_s, cpu_sequence_s=known.sequence_s).build(pool)


def naive_cost(pool: Pool) -> Estimator:
    """The bare roofline: every efficiency 1, every fixed time 0."""
    bare = {f.name: 0.0 if f.name.endswith("_s") else 1.0 for f in fields(Efficiencies)}
    return Roofline(**bare).build(pool)


@dataclass(frozen=True, slots=True)
class EngineCost:
    """`cost_for` one engine, as the recipe that `simulate` takes."""

    engine: str
    version: str

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        return cost_for(pool, self.engine, self.version)
