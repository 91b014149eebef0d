"""The measured recipe: from tables fitted to operator profiles to an estimator."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.spec import Pool
from poise.cost.curves import Curves
from poise.cost.efficiency import Efficiencies
from poise.cost.origin import Origin
from poise.cost.step import Costs, Steps
from poise.cost.tables import SHIPPED, Tables, load_tables


@dataclass(frozen=True, slots=True)
class Measured(Efficiencies):
    """Operators take what was measured of them, between measured shapes; outside, a form carries on from the nearest.

    tables: a file of `poise calibrate --profiles`; "" takes the one that ships. The efficiencies are the roofline's and
    are used where no table exists: light kernels, linear attention, hops between stages, experts' exchange, sampler and
    host.

        Measured().build(pool).step(StepShape(decodes=8, chunks=(Chunk(512, 0),)))
    """

    tables: str = ""

    def build(self, pool: Pool) -> MeasuredEstimator:
        """The estimator of one pool; ScenarioError for degrees or links that cannot be laid out, or a broken file."""
        return MeasuredEstimator(pool, self, load_tables(self.tables or SHIPPED))


class MeasuredEstimator(Steps):
    """Steps by measured operators."""

    __slots__ = ("_recipe", "_tables")

    def __init__(self, pool: Pool, recipe: Measured, tables: Tables) -> None:
        self._recipe, self._tables = recipe, tables
        super().__init__(pool)

    @property
    def use(self) -> Efficiencies:
        """What it counts with where tables have nothing."""
        return self._recipe

    def on(self, pool: Pool) -> MeasuredEstimator:
        """The same tables for another pool."""
        return MeasuredEstimator(pool, self._recipe, self._tables)

    def _derive(self, pool: Pool, share: float) -> Costs:
        return Curves(pool, self._recipe, self._tables, share)

    def origins(self) -> tuple[Origin, ...]:
        """The evidence behind each operator of the whole device, at the shapes by which its tables were chosen."""
        costs = self._lane(1.0)
        assert isinstance(costs, Curves)
        return tuple(curve.origin() for _, curve in sorted(costs.curves.items()))

    def describe(self) -> dict[str, object]:
        """The pool, the tables behind each operator with their errors and sources, and the other efficiencies."""
        costs = self._lane(1.0)
        assert isinstance(costs, Curves)
        return {
            **self._about("measured"),
            "tables": {
                name: {
                    "table": curve.origin().table,
                    "borrowed": curve.borrowed,
                    "how": curve.origin().how.value,
                    "error": dict(curve.origin().error._asdict()),
                }
                for name, curve in sorted(costs.curves.items())
            },
            "about": dict(self._tables.about),
            "efficiencies": self._recipe.sources(),
        }
