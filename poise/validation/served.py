"""Loads with continuous batching, simulated: closed loops, rates and full queues, on one pool or on a pair of pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poise.catalogue.engines import engine_defaults, handing_over
from poise.core.policy import Batcher
from poise.core.records.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Pool
from poise.core.units import SECOND
from poise.cost import kv_blocks
from poise.policies import Policies
from poise.policies.batch.asynchronous import Asynchronous
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.gathered import Gathered
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.batch.sglang import SGLang
from poise.scenario.engine_cost import EngineCost, Speculative
from poise.scenario.simulate import simulate
from poise.validation.condition import Condition, NotCoveredError
from poise.validation.load import WAVES
from poise.validation.outcome import Outcome, outcome_of
from poise.validation.requests import all_at_once, at_rate
from poise.validation.room import balanced, residence, roomy, unevicted
from poise.workload.table import Workload

REQUESTS = 4000
"""Requests of a simulation at most; a longer load is its beginning and, weighted, as much of its middle."""

LEAST_WAVES = 3
"""Least waves of a closed load, however many clients: the first differs from those that follow."""

QUEUED = 3000
"""Requests of a full queue whose number is not stated (the commonest one of NVIDIA's published TensorRT-LLM runs)."""

INSTANT = Belief(period_s=0.0, delay_s=0.0)


def served_outcome(condition: Condition) -> Outcome:
    """The outcome of a condition with continuous batching; NotCoveredError where nothing finishes."""
    condition, notes = roomy(balanced(condition))
    condition = unevicted(condition)
    match condition.load.kind:
        case "closed":
            found = _closed(condition)
        case "rate":
            found = outcome_of(run_of(condition, at_rate(condition)), condition.devices, None, 0)
        case _:
            found = _queued(condition)
    front = engine_defaults(condition.engine, condition.version).front(condition.prompt)
    return replace(found.later(front), notes=notes)


def run_of(condition: Condition, workload: Workload) -> Run:
    """One simulation of `workload`; NotCoveredError where not a single request finishes."""
    layout = condition.setup.layout
    drafts = Speculative(layout.drafts) if layout and layout.drafts else None
    cost = EngineCost(condition.engine, condition.version, drafts, condition.tables)
    batcher = batcher_of(condition)
    own = isinstance(batcher, SGLang)
    policies = Policies(batcher=batcher, preempt="fewest_outputs" if own else None)
    cluster = handing_over(Cluster(condition.pools), engine_defaults(condition.engine, condition.version))
    run = simulate(cluster, workload, policies, cost=cost, belief=INSTANT)
    if not any(status == FINISHED for status in run.records.status):
        raise NotCoveredError("no request of the load can be served by this layout")
    return run


def batcher_of(condition: Condition) -> Batcher:
    """The engine's batch settings, with what its scripts set."""
    recipe, known = condition.setup.recipe, engine_defaults(condition.engine, condition.version)
    if known.composes == "sglang" and all(pool.role == "mixed" for pool in condition.pools):
        return SGLang(recv_interval=recipe.recv_interval, ignore_eos=True)
    if known.prefill_first:
        return PrefillFirst(recv_interval=recipe.recv_interval)
    ranks = max(pool.data for pool in condition.pools)
    if ranks > 1 and recipe.balance_iters:
        return Gathered(timeout_iters=recipe.balance_iters, ranks=ranks)
    if recipe.wait_iters:
        return Gathered(timeout_iters=recipe.wait_iters, max_tokens_ratio=recipe.wait_ratio)
    return Asynchronous() if known.ahead else Chunked()


def _closed(condition: Condition) -> Outcome:
    clients = max(1, condition.load.clients)
    whole = clients * WAVES
    count = min(whole, max(REQUESTS, LEAST_WAVES * clients))
    run = run_of(condition, all_at_once(condition, count, concurrency=clients))
    weights = None
    if count < whole:
        weights = np.full(count, (whole - 2 * clients) / (count - 2 * clients))
        weights[:clients] = weights[-clients:] = 1.0  # the first wave queues and the last one runs empty, once each
    return outcome_of(run, condition.devices, weights, clients)


def _queued(condition: Condition) -> Outcome:
    """A full queue: simulated until the batch has turned over a few times, then extended at its own pace."""
    whole = condition.load.requests or condition.load.clients or QUEUED
    held = sum(_at_once(pool, condition) * pool.replicas for pool in condition.pools if pool.role != "prefill")
    count = min(whole, max(4 * held, 200))
    run = run_of(condition, all_at_once(condition, count))
    found = outcome_of(run, condition.devices, None, 0)
    if count == whole:
        return found
    ends = sorted(end / SECOND for end in run.records.ended_at)
    first, last = count // 4 - 1, count - 1 - count // 4
    total = ends[-1] + (whole - count) * (ends[last] - ends[first]) / (last - first)
    factor = whole / total / found.flow["request"]
    return replace(found, flow={name: value * factor for name, value in found.flow.items()})


def _at_once(pool: Pool, condition: Condition) -> int:
    """Requests that one replica holds at once, at half their outputs."""
    tokens = kv_blocks(pool) * pool.engine.block_tokens
    return max(1, min(pool.engine.max_sequences, int(tokens / (condition.prompt + residence(condition)))))
