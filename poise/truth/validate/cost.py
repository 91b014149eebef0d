"""Which step costs answer: the one place where an estimator is chosen, and the naive one that is set beside it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from poise.catalogue.engines import engine_defaults
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost import Measured, Roofline
from poise.cost.efficiency import Efficiencies


def cost_for(pool: Pool, engine: str, version: str) -> Estimator:
    """The estimator of `pool` under `engine` at `version`, with the engine's own host times."""
    known = engine_defaults(engine, version)
    estimator = Measured(cpu_step_s=known.step_s, cpu_sequence_s=known.sequence_s).build(pool)
    slower = known.ungrouped.get(pool.device.vendor)
    if slower is None or pool.model.mla is not None:
        return estimator
    return Ungrouped(estimator, slower * pool.model.heads / pool.model.kv_heads)


class Ungrouped:
    """An estimator under which decodes read KV `times` as long: kernels that do not share it among query heads."""

    def __init__(self, inner: Estimator, times: float) -> None:
        self.inner, self.times = inner, times

    @property
    def window(self) -> int:
        """Tokens that a sliding-window layer attends to."""
        return self.inner.window

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape` with longer reading."""
        piece = self.inner.step(shape)
        per_kv, per_window = round(piece.per_kv * self.times), round(piece.per_window * self.times)
        return Piece(piece.base, per_kv, per_window, piece.until_kv)

    def kv_bytes(self, tokens: int) -> int:
        """As without."""
        return self.inner.kv_bytes(tokens)

    def swap(self, kv_bytes: int) -> int:
        """As without."""
        return self.inner.swap(kv_bytes)

    def describe(self) -> dict[str, object]:
        """As without, and how much longer reading takes."""
        return {**self.inner.describe(), "kv_reading": self.times}


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
