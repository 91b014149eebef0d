"""Step costs of an engine: measured operators under its own host times, as `poise validate` scores them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poise.catalogue.drafts import Method, acceptance
from poise.catalogue.engines import engine_defaults
from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.model import Model
from poise.core.spec import Pool
from poise.cost import Measured
from poise.cost.captured import Captured
from poise.cost.drafted import Drafted, Drafting, accepted
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.sm_share import slower


def cost_for(pool: Pool, engine: str, version: str, tables: str = "") -> Estimator:
    """The estimator of `pool` under `engine` at `version`, with the engine's own host times.

    tables: a file of `poise calibrate --profiles`; "" takes the one that ships.
    """
    known = engine_defaults(engine, version)
    reached = known.reached_on(pool.device, experts=pool.model.moe is not None)
    joined = pool.devices > 1
    step_s = known.step_s + joined * known.joined_step_s
    step_s += pool.model.layers * (reached.layer_s + joined * reached.joined_s)
    sequence_s = known.sequence_s + joined * known.joined_sequence_s
    pool = replace(pool, device=slower(pool.device, reached.arithmetic, reached.bandwidth))
    estimator: Estimator = Measured(cpu_step_s=step_s, cpu_sequence_s=sequence_s, tables=tables).build(pool)
    if known.captured and pool.model.moe is None:  # experts are spared the rows in excess
        estimator = Captured(estimator, known.captured, pool.data * pool.pipeline, sequence_s / pool.data)
    times = known.ungrouped.get(pool.device.vendor)
    if times is None or pool.model.mla is not None:
        return estimator
    return Ungrouped(estimator, times * pool.model.heads / pool.model.kv_heads)


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
class Speculative:
    """Speculative decoding.

    drafts: tokens that are proposed in each pass.  acceptance: chance that one is kept, those before it being kept;
    None: as many tokens a pass as were measured for the model's family and the method (`poise.catalogue.drafts`).
    draft: the model that proposes (`draft_model`), on the same devices in the pool's tensor degree, in 16 bits.
    verified: tokens that a pass computes for a request, where they are a tree; 0 for drafts + 1.
    name: of the head or of the draft model, as an engine loads it; empty for the model's own head.
    """

    drafts: int
    method: Method = "mtp"
    acceptance: float | None = None
    draft: Model | None = None
    verified: int = 0
    name: str = ""

    def section(self) -> dict[str, object]:
        """The section `speculative` of a scenario."""
        found: dict[str, object] = {"method": self.method, "num_speculative_tokens": self.drafts}
        for name, value in (("model", self.name), ("acceptance", self.acceptance), ("verified_tokens", self.verified)):
            if value not in ("", None, 0):
                found[name] = value
        return found

    def around(self, inner: Estimator, pool: Pool, engine: str, version: str, tables: str = "") -> Estimator:
        """The estimator of a pool that drafts."""
        if self.acceptance is None:
            tokens = acceptance(pool.model.name, self.method, self.drafts).tokens
        else:
            tokens = accepted(self.drafts, self.acceptance)
        headless = self.method in ("ngram", "draft_model")
        launch_s = engine_defaults(engine, version).draft_s
        how = Drafting(self.drafts, tokens, self.verified, 0.0 if headless else 1.0, launch_s)
        return Drafted(inner, pool, how, self._draft(pool, engine, version, tables))

    def _draft(self, pool: Pool, engine: str, version: str, tables: str) -> Estimator | None:
        if self.method != "draft_model":
            return None
        if self.draft is None:
            raise ScenarioError("cost.speculative: method draft_model needs the model that drafts; give model")
        on = replace(pool, model=self.draft, weights="bf16", parts=None, expert=1, pipeline=1)
        return cost_for(on, engine, version, tables)


@dataclass(frozen=True, slots=True)
class EngineCost:
    """`cost_for` one engine, as the recipe that `simulate` takes; no version is the newest.

    tables: a file of `poise calibrate --profiles`; "" takes the one that ships.
    """

    engine: str = "vllm"
    version: str = ""
    speculative: Speculative | None = None
    tables: str = ""

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        estimator = cost_for(pool, self.engine, self.version, self.tables)
        if self.speculative is None:
            return estimator
        return self.speculative.around(estimator, pool, self.engine, self.version, self.tables)
