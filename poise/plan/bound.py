"""What a replica can carry by closed form: the steady state of a batch that every request passes through alike.

With b requests decoding at once, a request needs O · d(b) / b of the replica's time for its O output tokens, d(b) being
the time of a step of b decodes at the mean context, and P · p for those P prompt tokens that no cache holds, p being
the time of a prompt token in a full step; or both share steps, and each takes s(b) = step of b decodes with b · P / O
prompt tokens. The rate is one over the less of the two, at the largest b that the SLO's time per token, the KV cache
and the engine allow. It leaves out queueing and the spread of lengths, so it is what a replica reaches at best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.memory import kv_blocks
from poise.plan.demand import Demand
from poise.plan.goal import Goal


@dataclass(frozen=True, slots=True)
class Bound:
    """The best possible performance of one replica under a demand and an SLO.

    rate: requests per second, both halves of the work together.  prefill_s, decode_s: seconds of a request's two
    halves.  batch: decodes at once.  limit: what keeps the batch from growing: `tpot`, `kv` or `sequences`.
    ttft_s, tpot_s: the shortest possible, of a request alone with a prompt of `long_prompt` and of mean tokens.
    """

    rate: float
    prefill_s: float
    decode_s: float
    batch: int
    limit: str
    ttft_s: float
    tpot_s: float

    def meets(self, goal: Goal) -> bool:
        """Whether a request alone would meet the SLO."""
        ttft_s, tpot_s = goal.slo.ttft_s, goal.slo.tpot_s
        return (ttft_s is None or self.ttft_s <= ttft_s) and (tpot_s is None or self.tpot_s <= tpot_s)


def bound(pool: Pool, estimator: Estimator, demand: Demand, goal: Goal) -> Bound:
    """The closed form for one replica of `pool`."""
    fresh = max(1.0, demand.prompt * (1 - demand.hit))
    context = demand.prompt + demand.output / 2

    def decode(batch: int) -> float:
        return step_s(estimator, batch, context, ())

    sequences = max(1, pool.engine.max_sequences)
    room = max(1, int(kv_blocks(pool) * pool.engine.block_tokens / max(context - demand.prompt * demand.hit, 1.0)))
    limits = {"sequences": sequences, "kv": room}
    if goal.slo.tpot_s is not None:
        allowed = goal.slo.tpot_s
        limits["tpot"] = _largest(lambda batch: decode(batch) <= allowed, min(sequences, room))
    limit = min(limits, key=lambda name: limits[name])
    batch = max(1, limits[limit])
    prefill_s, decode_s = prompt_s(pool, estimator, fresh, demand), demand.output * decode(batch) / batch
    together = demand.output * _shared(pool, estimator, batch, fresh, context, demand) / batch
    return Bound(
        rate=1 / min(prefill_s + decode_s, together),
        prefill_s=prefill_s,
        decode_s=decode_s,
        batch=batch,
        limit=limit,
        ttft_s=alone_s(pool, estimator, max(1, round(demand.long_prompt * (1 - demand.hit)))),
        tpot_s=decode(1),
    )


def step_s(estimator: Estimator, decodes: int, context: float, chunks: tuple[Chunk, ...]) -> float:
    """Seconds of one step of `decodes` decodes at `context` tokens each and `chunks`."""
    piece = estimator.step(StepShape(decodes, chunks))
    windowed = min(context, estimator.window) if estimator.window else 0.0
    return (piece.base + decodes * (piece.per_kv * context + piece.per_window * windowed)) / SECOND


def prompt_s(pool: Pool, estimator: Estimator, tokens: float, demand: Demand) -> float:
    """Seconds that a prompt with `tokens` fresh tokens takes of a replica whose steps are full."""
    size, budget = max(1, round(tokens)), pool.engine.token_budget
    if size >= budget:
        return alone_s(pool, estimator, size, demand.prompt * demand.hit)
    each = budget // size
    cached = round(demand.prompt * demand.hit)
    return step_s(estimator, 0, 0.0, (Chunk(size, cached),) * each) / each


def alone_s(pool: Pool, estimator: Estimator, tokens: int, cached: float = 0.0) -> float:
    """Seconds of one prompt on an idle replica, in chunks of the token budget."""
    budget, before = pool.engine.token_budget, round(cached)
    parts = [(min(budget, tokens - at), before + at) for at in range(0, tokens, budget)]
    return sum(step_s(estimator, 0, 0.0, (Chunk(*part),)) for part in parts)


def _shared(pool: Pool, estimator: Estimator, batch: int, fresh: float, context: float, demand: Demand) -> float:
    """Seconds of a step of `batch` decodes that also computes the prompts of the requests that will replace them."""
    tokens = min(max(1, round(batch * fresh / demand.output)), max(1, pool.engine.token_budget - batch))
    size = min(tokens, max(1, round(fresh)))
    whole, rest = divmod(tokens, size)
    cached = round(demand.prompt * demand.hit)
    chunks = (Chunk(size, cached),) * whole + ((Chunk(rest, cached),) if rest else ())
    return step_s(estimator, batch, context, chunks) * batch * fresh / demand.output / tokens


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` for which `holds`, which is true up to some number; 0 where it never is."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
