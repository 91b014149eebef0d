"""MLPerf's scenarios: the layout that a submitter would choose, the full queue, and the rate that meets the limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from poise.catalogue.engines import engine_defaults
from poise.core.errors import CapacityError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import kv_blocks
from poise.scenario.engine_cost import cost_for
from poise.validation.condition import Condition, NotCoveredError
from poise.validation.load import Load
from poise.validation.outcome import Outcome
from poise.validation.room import residence
from poise.validation.served import served_outcome

DEGREES = (1, 2, 4, 8)
"""Degrees among which a layout is chosen."""

LAYOUT = ("tensor", "pipeline")
"""Degrees that are written in a layout."""

OFFLINE_S = 2400.0
"""How long an offline run lasts at least: as many samples are queued at once. The rules ask for 600 s, NVIDIA's
configurations (mlcommons/inference_results_v4.1 and v5.0, `min_duration`) for 2,400 s."""

SERVER_S = 600.0
"""How long a trial of a rate lasts at least: what the rules ask of a server (mlcommons/inference, `mlperf.conf`)."""

SERVER_REQUESTS = 600
"""Requests of a trial, on one replica, at least."""

TRIAL = 10_000
"""Requests of a trial beyond which it need last no longer than `RESIDENCES` asks."""

RESIDENCES = 4
"""How long a trial lasts at least, in stays of a request at the slowest pace allowed: a batch must fill first."""

HEADROOM = 1.1
"""Up to how many times the offline rate a server's is looked for: an offline run counts the time in which its last
requests end and the batch runs empty, so what an engine sustains is more."""

TRIALS = 8
"""Halvings of the rate's interval: it is found within half a percent, for a batch grows by far more than its rate."""


def scenario_outcome(condition: Condition) -> Outcome:
    """The outcome of an offline, server or interactive scenario, on as many equal replicas as the devices allow."""
    pool = _chosen(condition)
    replicas = condition.devices // pool.devices
    layout = ", ".join(
        f"{name} {getattr(pool, name)}" for name in LAYOUT if getattr(pool, name) > 1 or name == "tensor"
    )
    note = f"{replicas} replicas of {layout}, the layout with the most throughput"
    one = replace(condition, pools=(pool,), devices=pool.devices)
    samples = condition.scenario.samples if condition.scenario else 0
    rate = steady_rate(pool, condition)
    found = served_outcome(replace(one, load=Load("queued", requests=ceil(max(samples / replicas, rate * OFFLINE_S)))))
    if condition.load.kind != "offline":
        found = _server(one, found, replicas)
    flow = {name: value * replicas for name, value in found.flow.items()}
    return replace(found, flow=flow, devices=condition.devices, notes=(*found.notes, note))


def _chosen(condition: Condition) -> Pool:
    """The layout with the most throughput per device among those that fit."""
    given = condition.pools[0]
    if given.devices > 1 or not condition.scenario:
        return replace(given, replicas=1)
    best: tuple[float, Pool] | None = None
    for pool in _layouts(given, condition):
        try:
            rate = steady_rate(pool, condition) / pool.devices
        except CapacityError:
            continue
        if best is None or rate > best[0]:
            best = (rate, pool)
    if best is None:
        raise NotCoveredError(
            f"{given.model.name} in {given.weights} does not fit {condition.devices} {given.device.name}"
        )
    return best[1]


def _layouts(pool: Pool, condition: Condition) -> Iterator[Pool]:
    """The layouts that submitters choose from: tensor degrees, and stages where the engine is run so."""
    degrees = [degree for degree in DEGREES if degree <= condition.devices]
    yield from (replace(pool, tensor=degree) for degree in degrees)
    if engine_defaults(condition.engine, condition.version).stages:
        yield from (replace(pool, pipeline=degree) for degree in degrees[1:])


def steady_rate(pool: Pool, condition: Condition) -> float:
    """Requests per second of a full replica: b at once, each costs its prefill and its share of the batch's steps."""
    prompt, output = max(1, round(condition.prompt)), max(1, round(condition.output))
    resident = condition.prompt + residence(condition)
    held = kv_blocks(pool) * pool.engine.block_tokens / resident
    if held < 1:
        raise CapacityError(f"{pool.device.name} has no room for one request")
    batch = min(pool.engine.max_sequences, int(held))
    estimator = cost_for(pool, condition.engine, condition.version, condition.tables)
    piece = estimator.step(StepShape(batch))
    context = batch * resident
    decode = (piece.base + piece.per_kv * context + piece.per_window * min(context, batch * estimator.window)) / SECOND
    budget = max(1, pool.engine.token_budget // prompt)
    prefill = estimator.step(StepShape(batch, (Chunk(prompt, 0),) * budget)).base - piece.base
    return batch / (output * decode + batch * prefill / budget / SECOND)


def _server(condition: Condition, offline: Outcome, replicas: int) -> Outcome:
    """The outcome at the stated rate of all replicas, else at the highest one that keeps within the scenario's limits.

    A published run kept them, so a stated rate at which a prediction does not is beyond what it says can be served.
    """
    for rate in condition.load.rates:
        tried = _trial(condition, rate / replicas)
        if _kept(condition, tried):
            return tried
    low, high = 0.0, HEADROOM * offline.flow["request"]
    found: Outcome | None = None
    for _ in range(TRIALS):
        rate = (low + high) / 2
        tried = _trial(condition, rate)
        if _kept(condition, tried):
            low, found = rate, tried
        else:
            high = rate
    if found is None:
        raise NotCoveredError("no rate meets the scenario's limits by our reckoning")
    factor = low / found.flow["request"]  # the trial's end, when the batch runs empty, is not part of a long run
    return replace(found, flow={name: value * factor for name, value in found.flow.items()})


def _trial(condition: Condition, rate: float) -> Outcome:
    """The outcome of one replica at `rate`."""
    ttft, tpot = _limits(condition)
    stay = ttft + tpot * condition.output
    requests = max(SERVER_REQUESTS, ceil(rate * RESIDENCES * stay), min(TRIAL, ceil(rate * SERVER_S)))
    return served_outcome(replace(condition, load=Load("rate", rates=(rate,), requests=requests)))


def _kept(condition: Condition, tried: Outcome) -> bool:
    """Whether the 99th percentiles of an outcome keep within the scenario's limits."""
    ttft, tpot = _limits(condition)
    return tried.latency["ttft"]["p99"] <= ttft and tried.latency["tpot"]["p99"] <= tpot


def _limits(condition: Condition) -> tuple[float, float]:
    """Seconds to the first token, and from one to the next, that the scenario allows."""
    limits = condition.scenario
    assert limits is not None
    if condition.load.kind == "interactive":
        return limits.interactive_ttft_s, limits.interactive_tpot_s
    return limits.ttft_s, limits.tpot_s
