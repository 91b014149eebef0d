"""A static batch: all sequences start and end together, so its time is a sum with a closed form."""

from __future__ import annotations

from math import ceil

from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.validation.outcome import Outcome


def prefill_s(estimator: Estimator, clients: int, prompt: int, budget: int) -> float:
    """Seconds until `clients` prompts of `prompt` tokens are computed, whole prompts in steps of at most `budget`.

    A prompt longer than the budget goes in chunks of it.
    """
    whole = max(1, budget // prompt)
    if prompt > budget:
        one = [(min(budget, prompt - at), at) for at in range(0, prompt, budget)]
        return clients * sum(_seconds(estimator, (Chunk(*part),)) for part in one)
    full, rest = divmod(clients, whole)
    total = full * _seconds(estimator, (Chunk(prompt, 0),) * whole) if full else 0.0
    return total + (_seconds(estimator, (Chunk(prompt, 0),) * rest) if rest else 0.0)


def _seconds(estimator: Estimator, chunks: tuple[Chunk, ...]) -> float:
    return estimator.step(StepShape(0, chunks)).base / SECOND


def decode_s(estimator: Estimator, clients: int, prompt: int, steps: int) -> float:
    """Seconds of `steps` steps of `clients` decodes after `prompt` tokens: steps·base + slope·Σ context.

    The context of step k = 1..steps is prompt + k, in a window of W at most W.
    """
    if steps <= 0:
        return 0.0
    piece = estimator.step(StepShape(clients))
    contexts = steps * prompt + steps * (steps + 1) // 2
    window = estimator.window
    inside = min(steps, max(0, window - prompt))
    windowed = inside * prompt + inside * (inside + 1) // 2 + (steps - inside) * window
    return (steps * piece.base + clients * (piece.per_kv * contexts + piece.per_window * windowed)) / SECOND


def static_outcome(
    estimator: Estimator, pool: Pool, clients: int, prompt: float, output: float, devices: int
) -> Outcome:
    """The outcome of one batch of `clients` equal sequences on each replica of `pool`."""
    each, sequences = ceil(clients / pool.replicas), clients
    tokens, steps = max(1, round(prompt)), max(1, round(output))
    first = prefill_s(estimator, each, tokens, max(pool.engine.token_budget, tokens))
    rest = decode_s(estimator, each, tokens, steps - 1)
    total = first + rest
    per_token = rest / (steps - 1) if steps > 1 else 0.0
    flow = {
        "output": sequences * steps / total,
        "prompt": sequences * tokens / total,
        "total": sequences * (tokens + steps) / total,
        "request": sequences / total,
    }
    latency = {"ttft": first, "e2e": total, **({"tpot": per_token, "itl": per_token} if steps > 1 else {})}
    return Outcome({part: _alike(value) for part, value in latency.items()}, flow, devices)


def _alike(value: float) -> dict[str, float]:
    """All statistics of values that are equal."""
    return dict.fromkeys(("mean", "median", "p50", "p90", "p95", "p99"), value)
