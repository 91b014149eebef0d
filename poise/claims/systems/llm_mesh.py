"""LLM-Mesh: how many small models few devices carry, each alone on one, sharing them, and with CPUs as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.shared_devices import Limits, Machine, Pace, enough
from poise.claims.sweep import ratio, times
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Device, Pool
from poise.core.units import seconds
from poise.cost import Roofline
from poise.cost.memory import footprint
from poise.report.intervals import over_seeds

CPU = Device("Xeon, 32 cores with AMX", "intel", 157e12, 256 * 10**9, 307e9)
MODELS = {3: "qwen2.5-3b", 8: "llama-3.1-8b", 13: "llama-2-13b"}
PROMPT, OUTPUT, TPOT_S, TTFT_S = 800, 200, 0.25, 2.0
PER_MINUTE, SPREAD, CV, MINUTES = 1.0, 1.0, 2.0, 12
LOAD_BW = 25e9
"""Bytes per second at which weights come from the host's memory."""
FULL = 64
"""Decodes of a batch whose step the straight line from one decode leads to."""
ALONE, SHARED, BOTH = "exclusive", "sharing", "sharing, with CPUs"
ENOUGH, MOST = 0.99, 768


def pace(pool: Pool) -> Pace:
    """How fast one model is on a device."""
    estimator, context = Roofline().build(pool), PROMPT + OUTPUT // 2

    def step(decodes: int) -> float:
        piece = estimator.step(StepShape(decodes))
        return seconds(piece.base + decodes * (piece.per_kv * context + piece.per_window * context))

    prompt = seconds(estimator.step(StepShape(0, (Chunk(PROMPT, 0),))).base)
    return Pace(step(1), (step(FULL) - step(1)) / (FULL - 1), prompt)


def machine(price: float, pool: Pool) -> Machine:
    """A device of a pool with models of this size."""
    held, memory = footprint(pool), pool.device.memory_bytes
    request = held.block * (PROMPT + OUTPUT) / pool.engine.block_tokens
    weights = held.weights + held.workspace
    return Machine(price, weights / memory, request / memory, held.weights / LOAD_BW, pace(pool))


def measure(bench: Bench) -> Findings:
    """Sizes of models × ways to share: the most models that are carried."""
    minutes = MINUTES // (3 if bench.quick else 1)
    found: dict[int, dict[str, list[float]]] = {}
    for size, name in MODELS.items():
        gpus = [machine(3.67, Pool(model(name), device("A100")))] * 4
        cpus = [machine(0.5, Pool(model(name), CPU))] * 4
        ways = {ALONE: (gpus, True), SHARED: (gpus, False), BOTH: (cpus + gpus, False)}
        found[size] = {
            way: [capacity(machines, alone, seed, minutes) for seed in range(bench.seeds())]
            for way, (machines, alone) in ways.items()
        }
    return Findings(
        [_more(found, way, before) for before, way in pairwise((ALONE, SHARED, BOTH))]
        + [_size(found, SHARED), _size(found, BOTH), _smaller(found)],
        [_curve(found)],
    )


def capacity(machines: Sequence[Machine], alone: bool, seed: int, minutes: int) -> float:
    """The most models of which enough requests are in time, by bisection."""
    low, high = 0, MOST
    while low < high:
        models = (low + high + 1) // 2
        come = arrivals(seed, models, minutes)
        if enough(machines, come, OUTPUT, Limits(TTFT_S, TPOT_S), ENOUGH, alone=alone):
            low = models
        else:
            high = models - 1
    return float(low)


def arrivals(seed: int, models: int, minutes: int) -> list[tuple[float, int]]:
    """Seconds and model of every request, in order."""
    found: list[tuple[float, int]] = []
    for number in range(models):
        rng = np.random.default_rng([seed, number])
        rate = PER_MINUTE / 60 * rng.lognormal(-(SPREAD**2) / 2, SPREAD)
        count = int(rate * 60 * minutes * 3) + 50
        begins = np.cumsum(rng.gamma(1 / CV**2, CV**2 / rate, count)) - 2 / rate
        found += [(float(at), number) for at in begins if 0 < at < 60 * minutes]
    return sorted(found)


def _gain(found: Mapping[int, Mapping[str, Sequence[float]]], way: str, before: str) -> dict[int, Ratio]:
    return {size: ratio(each[before], each[way]) for size, each in found.items()}


def _text(gains: Mapping[int, Ratio]) -> str:
    return "; ".join(f"{size} billion: {times(each)} times" for size, each in gains.items())


def _more(found: Mapping[int, Mapping[str, Sequence[float]]], way: str, before: str) -> Answer:
    """More models than with less sharing, at every size."""
    gains = _gain(found, way, before)
    return Answer(f"{way} over {before}", _text(gains), list(gains.values()))


def _size(found: Mapping[int, Mapping[str, Sequence[float]]], way: str) -> Answer:
    """The gain over exclusive allocation."""
    return Answer(f"size, {way}", _text(_gain(found, way, ALONE)))


def _smaller(found: Mapping[int, Mapping[str, Sequence[float]]]) -> Answer:
    """What sharing gains is less, the larger the models, for their weights fill a device."""
    means = [float(np.mean(each[SHARED])) / float(np.mean(each[ALONE])) for each in found.values()]
    return Answer(
        "smaller",
        "; ".join(f"{size} billion: {mean:.2f} times" for size, mean in zip(found, means, strict=True)),
        all(one > other for one, other in pairwise(means)),
    )


def _curve(found: Mapping[int, Mapping[str, Sequence[float]]]) -> Curve:
    lines = {}
    for way in (ALONE, SHARED, BOTH):
        means = {size: over_seeds(each[way]) for size, each in found.items()}
        lines[way] = [Point(float(size), each.value, each.half) for size, each in means.items()]
    return Curve("Models carried by four devices of a kind", "size of models, billions", "count", lines)
