"""Steps of CloudMatrix384's pools by the roofline, as laid out by its authors (arXiv 2506.12708, sections 4 and 5).

DeepSeek-R1 in INT8, each die of an NPU a rank of its own: prefill on 32 dies that hold eight or nine routed experts
each, decoding on 320, of which 288 hold one routed expert each and 32 the shared ones. 32 copies of routed experts are
redundant. Two microbatches hide exchanges, and a pass of decoding verifies one speculative token, kept seven times in
ten. `model` is that model and `npu` a whole one, with its INT8 peak.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from poise.core.errors import UserError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.experts import BALANCED, ExpertLoad, Placement
from poise.core.model import Model
from poise.core.spec import Device, Engine, Pool
from poise.core.units import seconds
from poise.cost.cloudmatrix import DIES, Experts
from poise.cost.drafted import Drafted, Drafting
from poise.cost.expert_balance import balanced
from poise.cost.roofline import Roofline
from poise.cost.terms.cloudmatrix import CloudMatrix

NPUS, PREFILL, BATCH = 160, 32, 16_384
"""NPUs of a decode instance, dies of a prefill instance, and prompt tokens of an NPU in a step."""

KEPT = 0.7
"""How often the speculative token is kept (published)."""


def decode_s(
    model: Model, npu: Device, batch: int, context: int, *,
    microbatches: bool = True, speculation: bool = True, popular: bool = False,
) -> float:  # fmt: skip
    """Seconds per output token of `batch` requests on each NPU that attend to `context` tokens each.

    popular: experts as popular as was measured on others (`ExpertLoad`), in place of equally popular ones.
    """
    pool = _decoding(model, npu, popular)
    estimator = _estimator(pool, microbatches)
    if speculation:
        estimator = Drafted(estimator, pool, Drafting(1, 1 + KEPT))
    decodes = batch * NPUS
    return _seconds(estimator, StepShape(decodes), decodes * context)


def prefill_rate(
    model: Model, npu: Device, prompt_tokens: int = 4096, *,
    cached: float = 0.0, microbatches: bool = True, popular: bool = False, spare: int = 32,
) -> float:  # fmt: skip
    """Prompt tokens per second of an NPU, cached ones included.

    cached: the part of each prompt whose KV is found.  popular: as in `decode_s`.  spare: redundant copies, 0 for
    experts in the order of their numbers.
    """
    pool = _prefilling(model, npu, popular, spare)
    prompts = BATCH * PREFILL // DIES // prompt_tokens
    new = round(prompt_tokens * (1 - cached))
    shape = StepShape(0, (Chunk(new, prompt_tokens - new),) * prompts)
    return prompts * prompt_tokens / (PREFILL / DIES) / _seconds(_estimator(pool, microbatches), shape, 0)


def _estimator(pool: Pool, microbatches: bool) -> Estimator:
    plain = Roofline().build(pool)
    return CloudMatrix().around(plain, pool) if microbatches else plain


def _seconds(estimator: Estimator, shape: StepShape, kv: int) -> float:
    piece = estimator.step(shape).at(kv)
    return seconds(piece.base + piece.per_kv * kv)


@cache
def _decoding(model: Model, npu: Device, popular: bool) -> Pool:
    load, dies = ExpertLoad() if popular else BALANCED, NPUS * DIES
    placement = _placed(model, load, dies - Experts().shared, Experts().redundant)
    return _pool(model, npu, dies, Engine(expert_load=load, expert_placement=placement))


@cache
def _prefilling(model: Model, npu: Device, popular: bool, spare: int) -> Pool:
    load = ExpertLoad() if popular else BALANCED
    placement = _placed(model, load, PREFILL, spare) if spare else ()
    return _pool(model, npu, PREFILL, Engine(expert_load=load, expert_placement=placement))


def _placed(model: Model, load: ExpertLoad, ranks: int, spare: int) -> Placement:
    if model.moe is None:
        raise UserError(f"{model.name} has no experts to spread over dies; give a mixture of experts")
    return balanced(load, model.moe.experts, model.moe.active, ranks, spare)


def _pool(model: Model, npu: Device, dies: int, engine: Engine) -> Pool:
    die = replace(
        npu, bf16_flops=npu.bf16_flops / DIES, int8_ops=npu.int8_ops / DIES, memory_bytes=npu.memory_bytes // DIES,
        memory_bw=npu.memory_bw / DIES, scaleup_bw=npu.scaleup_bw / DIES, scaleup_domain=npu.scaleup_domain * DIES,
    )  # fmt: skip
    return Pool(model, die, data=dies, expert=dies, weights="int8", engine=engine)
