"""Loads with continuous batching, simulated: closed loops, rates and full queues, on one pool or on a pair of pools."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from poise.catalogue.engines import engine_defaults
from poise.core.errors import CapacityError
from poise.core.policy import Batcher
from poise.core.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Pool
from poise.core.units import SECOND
from poise.cost import kv_blocks
from poise.policies import Policies
from poise.policies.batch.asynchronous import Asynchronous
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.gathered import Gathered
from poise.policies.batch.prefill_first import PrefillFirst
from poise.scenario.engine_cost import EngineCost, cost_for
from poise.scenario.simulate import simulate
from poise.truth.validate.batch import decode_s, prefill_s
from poise.truth.validate.condition import Condition, NotCoveredError
from poise.truth.validate.load import RATE_REQUESTS, WAVES, Load
from poise.truth.validate.outcome import Floats, Outcome, statistics
from poise.workload.draw import stream
from poise.workload.table import Prefixes, Workload

REQUESTS = 4000
"""Requests of a simulation at most; a longer load is its beginning and, weighted, as much of its middle."""

STAGED = 20_000
"""Requests of a load in stages at most: where one overloads the engine, its queue grows as long as it lasts."""

LEAST_WAVES = 3
"""Waves of a closed load at least, however many clients: the first is another than those that follow."""

QUEUED = 3000
"""Requests of a full queue whose number is not stated (the commonest one of NVIDIA's published TensorRT-LLM runs)."""

RANK_BATCH = 256
"""Requests that decode on one data rank at most, where the number of decode workers is not stated."""

KEPT = 0.7
"""Chance that a draft is kept on the random prompts of sweeps; heads keep more of what people ask for."""

INSTANT = Belief(period_s=0.0, delay_s=0.0)


def served_outcome(condition: Condition) -> Outcome:
    """The outcome of a condition with continuous batching; NotCoveredError where nothing finishes."""
    condition, notes = roomy(balanced(condition))
    match condition.load.kind:
        case "closed":
            found = _closed(condition)
        case "rate":
            found = _rate(condition)
        case _:
            found = _queued(condition)
    front = engine_defaults(condition.engine, condition.version).front(condition.prompt)
    return replace(found.later(front), notes=notes)


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
    rate = clients / decode_s(cost_for(decode, condition.engine, condition.version), batch, prompt, output)
    one = prefill_s(cost_for(prefill, condition.engine, condition.version), 1, prompt, prefill.engine.token_budget)
    prefill = replace(prefill, replicas=prefill.replicas or ceil(rate * one / prefill.data))
    devices = prefill.devices * prefill.replicas + decode.devices * decode.replicas
    return replace(condition, pools=(prefill, decode), devices=devices)


def roomy(condition: Condition) -> tuple[Condition, tuple[str, ...]]:
    """The same with context for its requests; where the model does not fit by our reckoning, KV is enough."""
    longest = ceil(condition.prompt + condition.output) + 1
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


def run_of(condition: Condition, workload: Workload) -> Run:
    """One simulation of `workload`; NotCoveredError where not a single request finishes."""
    layout = condition.setup.layout
    cost = EngineCost(condition.engine, condition.version, layout.drafts if layout else 0, KEPT)
    policies = Policies(batcher=batcher_of(condition))
    run = simulate(Cluster(condition.pools), workload, policies, cost=cost, belief=INSTANT)
    if not any(status == FINISHED for status in run.records.status):
        raise NotCoveredError("no request of the load can be served by this layout")
    return run


def batcher_of(condition: Condition) -> Batcher:
    """How the engine composes its steps, under what its scripts set."""
    recipe, known = condition.setup.recipe, engine_defaults(condition.engine, condition.version)
    if known.prefill_first:
        return PrefillFirst(recv_interval=recipe.recv_interval)
    ranks = max(pool.data for pool in condition.pools)
    if ranks > 1 and recipe.balance_iters:
        return Gathered(timeout_iters=recipe.balance_iters, ranks=ranks)
    if recipe.wait_iters:
        return Gathered(timeout_iters=recipe.wait_iters, max_tokens_ratio=recipe.wait_ratio)
    return Asynchronous() if known.ahead else Chunked()


def lengths(mean: float, spread: float, count: int, purpose: str) -> NDArray[np.int32]:
    """Uniform whole lengths between `spread` × `mean` and `mean`; all equal for a spread of 1."""
    high = max(1, round(mean))
    low = max(1, round(mean * spread))
    if low == high:
        return np.full(count, high, dtype=np.int32)
    return stream(0, purpose).integers(low, high + 1, count).astype(np.int32)


def _closed(condition: Condition) -> Outcome:
    clients = max(1, condition.load.clients)
    asked = clients * WAVES
    count = min(asked, max(REQUESTS, LEAST_WAVES * clients))
    run = run_of(condition, _all_at_once(condition, count, concurrency=clients))
    weights = None
    if count < asked:
        weights = np.full(count, (asked - 2 * clients) / (count - 2 * clients))
        weights[:clients] = weights[-clients:] = 1.0  # the first wave queues and the last one runs empty, once each
    return outcome_of(run, condition.devices, weights, clients)


def _all_at_once(condition: Condition, count: int, concurrency: int = 0) -> Workload:
    spread = condition.load.spread
    return Workload(
        np.zeros(count, dtype=np.int64),
        lengths(condition.prompt, spread, count, "prompt"),
        lengths(condition.output, spread, count, "output"),
        concurrency=concurrency,
    )


def _queued(condition: Condition) -> Outcome:
    """A full queue: simulated until the batch has turned over a few times, then extended at its own pace."""
    asked = condition.load.requests or QUEUED
    held = sum(_at_once(pool, condition) * pool.replicas for pool in condition.pools if pool.role != "prefill")
    count = min(asked, max(4 * held, 200))
    run = run_of(condition, _all_at_once(condition, count))
    found = outcome_of(run, condition.devices, None, 0)
    if count == asked:
        return found
    ends = sorted(end / SECOND for end in run.records.ended_at)
    first, last = count // 4 - 1, count - 1 - count // 4
    total = ends[-1] + (asked - count) * (ends[last] - ends[first]) / (last - first)
    factor = asked / total / found.flow["request"]
    return replace(found, flow={name: value * factor for name, value in found.flow.items()})


def _at_once(pool: Pool, condition: Condition) -> int:
    """Requests that one replica holds at once, at half their outputs."""
    tokens = kv_blocks(pool) * pool.engine.block_tokens
    return max(1, min(pool.engine.max_sequences, int(tokens / (condition.prompt + condition.output / 2))))


def _rate(condition: Condition) -> Outcome:
    """Poisson arrivals, stage after stage."""
    load, chance = condition.load, stream(0, "arrival")
    gaps = [_gaps(load, rate, count, chance) for rate, count in zip(load.rates, _counts(load), strict=True)]
    arrival = np.rint(np.cumsum(np.concatenate(gaps)) * SECOND).astype(np.int64)
    count = len(arrival)
    workload = Workload(
        arrival - arrival[0],
        lengths(condition.prompt, load.spread, count, "prompt"),
        lengths(condition.output, load.spread, count, "output"),
        prefixes=_prompts(load, round(condition.prompt), count) if load.system or load.prompts else None,
    )
    return outcome_of(run_of(condition, workload), condition.devices, None, 0)


def _counts(load: Load) -> list[int]:
    """Requests of each stage: as many as are stated, or what its rate brings while it lasts.

    Stages last equally long where that is not stated. A load of too many requests has all stages shortened alike.
    """
    seconds = load.seconds or RATE_REQUESTS * len(load.rates) / sum(load.rates)
    counts = [load.requests or rate * seconds for rate in load.rates]
    share = min(1.0, (STAGED if load.staged else 2 * REQUESTS) / sum(counts))
    return [max(1, round(share * count)) for count in counts]


def _gaps(load: Load, rate: float, count: int, chance: np.random.Generator) -> Floats:
    """Seconds between `count` arrivals: exponential, and stretched to the end of a stage that has one.

    inference-perf's constant load does the latter (`ConstantLoadTimer`).
    """
    drawn = chance.exponential(1 / rate, count)
    return drawn * (count / rate / drawn.sum()) if load.staged else drawn


def _prompts(load: Load, tokens: int, count: int) -> Prefixes:
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


def outcome_of(run: Run, devices: int, weights: Floats | None, clients: int) -> Outcome:
    """The figures of a run; `weights` count the requests in their order.

    Of a closed load by `clients` only, flows are those between the ends of the first and of the last but one wave.
    """
    records = run.records
    done = np.array(records.status) == FINISHED
    arrived, first, ended = (
        np.array(column, dtype=np.float64)[done] / SECOND
        for column in (records.arrived_at, records.first_token_at, records.ended_at)
    )
    prompt, output = np.array(records.prompt_tokens)[done], np.array(records.output_tokens)[done]
    weights = None if weights is None else weights[done]
    many = output > 1
    gaps = (ended - first)[many] / (output[many] - 1)
    shared = None if weights is None else weights[many]
    between = (output[many] - 1) * (1.0 if shared is None else shared)
    latency = {
        "ttft": statistics(first - arrived, weights),
        "tpot": statistics(gaps, shared),
        "itl": statistics(gaps, between),
        "e2e": statistics(ended - arrived, weights),
    }
    span = float(ended.max() - arrived.min())
    if weights is not None:  # the middle stands for what was left out
        span += float((weights - 1).sum()) / _pace(ended, clients)
    counted = np.ones(len(output)) if weights is None else weights
    prompts, outputs = float((counted * prompt).sum()) / span, float((counted * output).sum()) / span
    flow = {"output": outputs, "prompt": prompts, "total": outputs + prompts, "request": float(counted.sum()) / span}
    return Outcome(latency, flow, devices)


def _pace(ended: Floats, clients: int) -> float:
    """Requests per second between the ends of the first wave and of the last but one."""
    ends = np.sort(ended)
    last = len(ends) - 1 - clients
    return float((last - clients + 1) / (ends[last] - ends[clients - 1]))
