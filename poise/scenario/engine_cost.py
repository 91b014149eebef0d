"""Step costs of an engine: measured operators under its own host times, as `poise validate` scores them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poise.catalogue.engines import Reached, engine_defaults
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Device, Pool
from poise.cost import Measured
from poise.cost.captured import Captured
from poise.cost.drafted import ACCEPTANCE, Drafted
from poise.cost.estimator_wrapper import EstimatorWrapper


def cost_for(pool: Pool, engine: str, version: str) -> Estimator:
    """The estimator of `pool` under `engine` at `version`, with the engine's own host times."""
    known = engine_defaults(engine, version)
    reached = known.reached_on(pool.device)
    joined = pool.devices > 1
    step_s = known.step_s + joined * known.joined_step_s
    step_s += pool.model.layers * (reached.layer_s + joined * reached.joined_s)
    sequence_s = known.sequence_s + joined * known.joined_sequence_s
    pool = replace(pool, device=_slower(pool.device, reached))
    estimator: Estimator = Measured(cpu_step_s=step_s, cpu_sequence_s=sequence_s).build(pool)
    if known.captured and pool.model.moe is None:  # experts are spared the rows in excess
        estimator = Captured(estimator, known.captured, pool.data * pool.pipeline, sequence_s / pool.data)
    slower = known.ungrouped.get(pool.device.vendor)
    if slower is None or pool.model.mla is not None:
        return estimator
    return Ungrouped(estimator, slower * pool.model.heads / pool.model.kv_heads)


def _slower(device: Device, reached: Reached) -> Device:
    """An engine's host times on a device."""
    peaks = ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops")
    left = {name: getattr(device, name) * reached.arithmetic for name in peaks}
    return replace(device, memory_bw=device.memory_bw * reached.bandwidth, **left)


class Ungrouped(EstimatorWrapper):
    """An estimator under which decodes read KV `times` as long: kernels that do not share it among query heads."""

    def __init__(self, inner: Estimator, times: float) -> None:
        super().__init__(inner)
        self.times = times

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape` with longer reading."""
        piece = self.inner.step(shape)
        per_kv, per_window = round(piece.per_kv * self.times), round(piece.per_window * self.times)
        return piece._replace(per_kv=per_kv, per_window=per_window)

    def describe(self) -> dict[str, object]:
        """As without, and how much longer reading takes."""
        return {**self.inner.describe(), "kv_reading": self.times}


@dataclass(frozen=True, slots=True)
class EngineCost:
    """`cost_for` one engine, as the recipe that `simulate` takes; no version is the newest.

    drafts: tokens that speculative decoding proposes in each pass.  acceptance: chance that one is kept, those before
    it being kept.
    """

    engine: str = "vllm"
    version: str = ""
    drafts: int = 0
    acceptance: float = ACCEPTANCE

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        estimator = cost_for(pool, self.engine, self.version)
        if not self.drafts:
            return estimator
        return Drafted(
            estimator, pool, self.drafts, self.acceptance, engine_defaults(self.engine, self.version).draft_s
        )
