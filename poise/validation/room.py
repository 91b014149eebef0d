"""Fills in what a condition leaves open about its pools: numbers of workers, context, and concurrent requests."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from poise.catalogue.engines import engine_defaults
from poise.core.errors import CapacityError
from poise.core.spec import Pool
from poise.cost import kv_blocks
from poise.scenario.engine_cost import cost_for
from poise.validation.batch import decode_s, prefill_s
from poise.validation.condition import Condition
from poise.validation.requests import lengths

RANK_BATCH = 256
"""Requests that decode on one data rank at most, where the number of decode workers is not stated."""

SLACK = 1.1
"""The factor over our estimate of memory up to which a static batch is accepted."""

RESIDENTS = 1000
"""Requests of which the mean of `residence` is taken."""


def balanced(condition: Condition) -> Condition:
    """The same with numbers of prefill and decode workers where they are not stated (0 replicas).

    As few decode workers as hold the clients with at most `RANK_BATCH` on a data rank, and as many prefill workers as
    keep up with them: published deployments are balanced, for an idle side would be paid for.
    """
    if all(pool.replicas for pool in condition.pools):
        return condition
    prefill, decode = condition.pools
    clients = condition.load.clients or 1
    decode = replace(decode, replicas=decode.replicas or ceil(clients / (RANK_BATCH * decode.data)))
    prompt, output = max(1, round(condition.prompt)), max(1, round(condition.output))
    batch = max(1, clients // decode.replicas)
    stated = (condition.engine, condition.version, condition.tables)
    rate = clients / decode_s(cost_for(decode, *stated), batch, prompt, output)
    one = prefill_s(cost_for(prefill, *stated), 1, prompt, prefill.engine.token_budget)
    prefill = replace(prefill, replicas=prefill.replicas or ceil(rate * one / prefill.data))
    devices = prefill.devices * prefill.replicas + decode.devices * decode.replicas
    return replace(condition, pools=(prefill, decode), devices=devices)


def roomy(condition: Condition) -> tuple[Condition, tuple[str, ...]]:
    """The same with context for its requests; where the model does not fit by our reckoning, KV is enough."""
    longest = ceil(condition.prompt + condition.output) + 1
    if known := condition.scenario:
        longest = max(
            longest, ceil(max((condition.prompt, *known.prompts)) + max((condition.output, *known.outputs))) + 1
        )
    pools, notes = [], []
    for pool in condition.pools:
        model = replace(pool.model, max_context=max(pool.model.max_context, longest))
        pool = replace(pool, model=model)
        try:
            short = kv_blocks(pool) * pool.engine.block_tokens < longest
        except CapacityError:
            short = True
        if short:
            blocks = ceil(longest / pool.engine.block_tokens) * (condition.load.clients or pool.engine.max_sequences)
            pool = replace(pool, engine=replace(pool.engine, kv_blocks=blocks))
            notes.append("does not fit by our reckoning, KV taken as enough")
        pools.append(pool)
    return replace(condition, pools=tuple(pools)), tuple(dict.fromkeys(notes))


def holds(condition: Condition) -> bool:
    """Whether memory holds all requests of a static batch to their ends; true where the model does not fit at all."""
    load, pool = condition.load, condition.pools[0]
    try:
        tokens = kv_blocks(pool) * pool.engine.block_tokens
    except CapacityError:
        return True
    return ceil(load.clients / pool.replicas) * ceil(condition.prompt + condition.output) <= SLACK * tokens


def unevicted(condition: Condition) -> Condition:
    """The same with as many requests at once as memory holds to their ends, where the engine or its user ensures that.

    Some engines admit by whole lengths; who submits to a benchmark sets the largest batch that memory holds.
    """
    if not condition.scenario and not engine_defaults(condition.engine, condition.version).no_evict:
        return condition
    return replace(
        condition, pools=tuple(p if p.role == "prefill" else _bounded(p, condition) for p in condition.pools)
    )


def _bounded(pool: Pool, condition: Condition) -> Pool:
    tokens = condition.prompt + (residence(condition) if condition.scenario else condition.output)
    most = max(1, int(kv_blocks(pool) * pool.engine.block_tokens / tokens))
    return replace(pool, engine=replace(pool.engine, max_sequences=min(pool.engine.max_sequences, most)))


def residence(condition: Condition) -> float:
    """Mean output tokens that a running request has generated, E[o²] / (2·E[o]): long ones are met more often."""
    known = condition.scenario.outputs if condition.scenario else ()
    output = lengths(condition.output, condition.load.spread, RESIDENTS, "output", known).astype(np.float64)
    return float((output**2).mean() / (2 * output.mean()))
