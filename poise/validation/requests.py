"""The requests of a load: their lengths, when they come, and the prompts that they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poise.core.units import SECOND
from poise.validation.assumptions import LEVELS
from poise.validation.condition import Condition
from poise.validation.load import RATE_REQUESTS, Load
from poise.validation.outcome import Floats
from poise.workload.draw import stream
from poise.workload.table import Prefixes, Workload

RATED = 20_000
"""Requests of a load by rate at most: where one overloads the engine, its queue grows as long as it lasts."""


def lengths(mean: float, spread: float, count: int, purpose: str, known: Sequence[float] = ()) -> NDArray[np.int32]:
    """Whole lengths with the mean `mean`, spread as the quantiles `known` at `LEVELS`, which none exceeds.

    Where no quantile is known, uniform between `spread` × `mean` and `mean`; all equal for a spread of 1.
    """
    if known:
        drawn = np.interp(100 * stream(0, purpose).random(count), LEVELS, known)
        scaled = np.minimum(drawn * mean / drawn.mean(), known[-1])
        whole: NDArray[np.int32] = np.maximum(np.rint(scaled), 1).astype(np.int32)
        return whole
    high = max(1, round(mean))
    low = max(1, round(mean * spread))
    if low == high:
        return np.full(count, high, dtype=np.int32)
    return stream(0, purpose).integers(low, high + 1, count).astype(np.int32)


def sizes(condition: Condition, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Prompts and outputs of `count` requests."""
    spread, known = condition.load.spread, condition.scenario
    return (
        lengths(condition.prompt, spread, count, "prompt", known.prompts if known else ()),
        lengths(condition.output, spread, count, "output", known.outputs if known else ()),
    )


def all_at_once(condition: Condition, count: int, concurrency: int = 0) -> Workload:
    """`count` requests that wait from the beginning, of which at most `concurrency` (0: all) are sent at once."""
    prompts, outputs = sizes(condition, count)
    at_once = np.zeros(count, dtype=np.int64)
    return Workload(at_once, prompts, outputs, max_tokens=outputs, concurrency=concurrency)


def at_rate(condition: Condition) -> Workload:
    """Poisson arrivals, stage after stage."""
    load, chance = condition.load, stream(0, "arrival")
    waits = [gaps(load, rate, count, chance) for rate, count in zip(load.rates, counts(load), strict=True)]
    arrival = np.rint(np.cumsum(np.concatenate(waits)) * SECOND).astype(np.int64)
    count = len(arrival)
    given, outputs = sizes(condition, count)
    return Workload(
        arrival - arrival[0],
        given,
        outputs,
        max_tokens=outputs,
        prefixes=prompts(load, round(condition.prompt), count) if load.system or load.prompts else None,
    )


def counts(load: Load) -> list[int]:
    """Requests of each stage: as many as are stated, or what its rate brings while it lasts.

    Stages last equally long where that is not stated. A load of too many requests has all stages shortened alike.
    """
    seconds = load.seconds or RATE_REQUESTS * len(load.rates) / sum(load.rates)
    counts = [load.requests or rate * seconds for rate in load.rates]
    share = min(1.0, RATED / sum(counts))
    return [max(1, round(share * count)) for count in counts]


def gaps(load: Load, rate: float, count: int, chance: np.random.Generator) -> Floats:
    """Seconds between `count` arrivals: exponential, and stretched to the end of a stage that has one.

    inference-perf's constant load does the latter (`ConstantLoadTimer`).
    """
    drawn = chance.exponential(1 / rate, count)
    return drawn * (count / rate / drawn.sum()) if load.staged else drawn


def prompts(load: Load, tokens: int, count: int) -> Prefixes:
    """Prompts that begin with their group's common tokens; groups take turns, and so do the prompts of each."""
    turn = np.arange(count, dtype=np.int64)
    group = turn % load.groups
    system = np.full(count, min(load.system, tokens), dtype=np.int32)
    if not load.prompts:
        return Prefixes(np.arange(count + 1, dtype=np.int64), group, system)
    whole = load.groups + turn % (load.groups * load.prompts)
    ends = np.stack([system, np.full(count, tokens, dtype=np.int32)], axis=1)
    ids = np.stack([group, whole], axis=1)
    return Prefixes(np.arange(0, 2 * count + 1, 2, dtype=np.int64), ids.ravel(), ends.ravel())
