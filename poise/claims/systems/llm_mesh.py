"""LLM-Mesh: how many small models few devices carry, each alone on one, sharing them, and with CPUs as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.claims.turns import Limits, Pace, in_time
from poise.core.estimate import Chunk, StepShape
from poise.core.placement import Bucket, Demand, Tenancy, Unit
from poise.core.spec import Device, Pool
from poise.core.units import seconds
from poise.cost import Roofline
from poise.cost.memory import footprint
from poise.policies.place.llm_mesh import LlmMesh
from poise.report.intervals import over_seeds
from poise.report.wording import write

CPU = Device("Xeon, 32 cores with AMX", "intel", 157e12, 256 * 10**9, 307e9)
MODELS = {3: "qwen2.5-3b", 8: "llama-3.1-8b", 13: "llama-2-13b"}
PROMPT, OUTPUT, TPOT_S, TTFT_S = 800, 200, 0.25, 2.0
PER_MINUTE, SPREAD, CV, MINUTES = 1.0, 1.0, 2.0, 60
FULL = 64
"""Decodes of a batch whose step the straight line from one decode leads to."""
ALONE, SHARED, BOTH = "exclusive", "sharing", "sharing, with CPUs"
STAY_S = TTFT_S + (OUTPUT - 1) * TPOT_S
"""Seconds for which a request is in flight at most."""
ENOUGH, MOST, SIMULATED_S = 0.99, 512, 300.0
Traffic = NDArray[np.int64]


def tenancy(pool: Pool) -> Tenancy:
    """What one model takes of a device: a step within each TPOT and prompts of its time, weights and KV of its memory.

    A request is in flight for as long as the SLO allows, so at a rate there are that many times the rate at once. A
    step of n decodes lies on the straight line through those of 1 and of `FULL`.
    """
    step, each, prompt = pace(pool)
    stay = prompt + (OUTPUT - 1) * TPOT_S
    held = footprint(pool)
    memory = pool.device.memory_bytes
    kept = held.block * (PROMPT + OUTPUT) / pool.engine.block_tokens
    return Tenancy(
        (step - each) / TPOT_S, (held.weights + held.workspace) / memory, each * stay / TPOT_S + prompt,
        kept * stay / memory,
    )  # fmt: skip


def pace(pool: Pool) -> Pace:
    """How fast one model is on a device."""
    estimator, context = Roofline().build(pool), PROMPT + OUTPUT // 2

    def step(decodes: int) -> float:
        piece = estimator.step(StepShape(decodes))
        return seconds(piece.base + decodes * (piece.per_kv * context + piece.per_window * context))

    prompt = seconds(estimator.step(StepShape(0, (Chunk(PROMPT, 0),))).base)
    return Pace(step(1), (step(FULL) - step(1)) / (FULL - 1), prompt)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device, as it serves one model."""

    name: str
    price: float
    own: Tenancy
    pace: Pace
    rate: float

    @classmethod
    def of(cls, name: str, price: float, pool: Pool) -> Kind:
        """Of a pool of one such device; rate 0 where it is too slow or too small."""
        own, fast = tenancy(pool), pace(pool)
        able = fast.step_s <= TPOT_S and fast.prompt_s + fast.step_s <= TTFT_S
        rate = min((1 - own.time) / own.time_rate, (1 - own.memory) / own.memory_rate)
        return cls(name, price, own, fast, max(rate, 0.0) if able else 0.0)

    def unit(self, models: int, *, shared: bool) -> Unit:
        """It as a unit for so many models of this size."""
        return Unit(
            self.name, self.price, (self.rate,) * models, self.name, tenancies=(self.own,) * models if shared else ()
        )


def measure(bench: Bench) -> Findings:
    """Sizes of models × ways to place them: the most models that are carried."""
    minutes = MINUTES // (4 if bench.quick else 1)
    found: dict[int, dict[str, list[float]]] = {}
    punctual: dict[int, float] = {}
    for size, name in MODELS.items():
        gpu, cpu = Kind.of("A100", 3.67, Pool(model(name), device("A100"))), Kind.of("CPU", 0.5, Pool(model(name), CPU))
        ways = {ALONE: ([gpu], False), SHARED: ([gpu], True), BOTH: ([cpu, gpu], True)}
        found[size] = {
            way: [capacity(kinds, shared, seed, minutes) for seed in range(bench.seeds())]
            for way, (kinds, shared) in ways.items()
        }
        punctual[size] = _punctual([cpu, gpu], found[size][BOTH], minutes)
    return Findings(
        [_more(found, way, before) for before, way in pairwise((ALONE, SHARED, BOTH))]
        + [_size(found, SHARED, 0.44, 0.63), _size(found, BOTH, 0.91, 1.59), _smaller(found), _kept(punctual)],
        [_curve(found)],
    )


def capacity(kinds: Sequence[Kind], shared: bool, seed: int, minutes: int) -> float:
    """The most models of which enough requests have a place, by bisection."""
    traffic = [in_flight(seed, each, minutes) for each in range(MOST)]
    low, high = 0, MOST
    while low < high:
        models = (low + high + 1) // 2
        if _placed(kinds, shared, np.array(traffic[:models])) >= ENOUGH:
            low = models
        else:
            high = models - 1
    return float(low)


def in_flight(seed: int, number: int, minutes: int) -> list[int]:
    """The most requests of a model at once in each minute, each in flight for as long as the SLO allows."""
    rng = np.random.default_rng([seed, number])
    rate = PER_MINUTE / 60 * rng.lognormal(-(SPREAD**2) / 2, SPREAD)
    count = int(rate * 60 * minutes * 3) + 50
    begins = np.cumsum(rng.gamma(1 / CV**2, CV**2 / rate, count)) - 2 / rate
    ends = begins + STAY_S
    peaks = []
    for minute in range(minutes):
        first, last = 60.0 * minute, 60.0 * (minute + 1)
        starts = np.append(begins[(begins > first) & (begins < last)], first)
        peaks.append(int(max(((begins <= at) & (ends > at)).sum() for at in starts)))
    return peaks


def _demand(active: Traffic) -> Demand:
    """Rates that keep so many of each model in flight."""
    return Demand(tuple(Bucket(PROMPT, OUTPUT, float(each) / STAY_S) for each in active))


def _placed(kinds: Sequence[Kind], shared: bool, traffic: Traffic) -> float:
    """The part of what is in flight, over minutes, that has a place on four devices of each kind."""
    left = 0.0
    for column in traffic.T:
        active = column[column > 0]
        if len(active):
            units = [kind.unit(len(active), shared=shared) for kind in kinds]
            _, without = LlmMesh().pack(_demand(active), units, {kind.name: 4 for kind in kinds})
            left += STAY_S * sum(piece.rate for piece in without)
    return 1 - left / float(traffic.sum()) if traffic.sum() else 1.0


def _punctual(kinds: Sequence[Kind], models: Sequence[float], minutes: int) -> float:
    """The part of requests in time when each seed's fullest minute goes on, each device simulated step by step."""
    good = total = 0
    for seed, most in enumerate(models):
        traffic = np.array([in_flight(seed, each, minutes) for each in range(int(most))])
        column = traffic[:, traffic.sum(axis=0).argmax()]
        active = column[column > 0]
        units = [kind.unit(len(active), shared=True) for kind in kinds]
        hosts, _ = LlmMesh().pack(_demand(active), units, {kind.name: 4 for kind in kinds})
        rng = np.random.default_rng(seed)
        for host in hosts:
            arrivals = [
                sorted(rng.uniform(0, SIMULATED_S, rng.poisson(piece.rate * SIMULATED_S)).tolist())
                for piece in host.pieces
            ]
            counts = in_time([kinds[host.unit].pace] * len(arrivals), arrivals, OUTPUT, Limits(TTFT_S, TPOT_S))
            good, total = good + counts[0], total + counts[1]
    return good / total


def _kept(punctual: Mapping[int, float]) -> Answer:
    """What a dry run lets in is in time."""
    return Answer(
        "kept",
        "; ".join(f"{size} billion: {write(each, 'share', 3)}" for size, each in punctual.items()),
        list(punctual.values()),
    )


def _gain(found: Mapping[int, Mapping[str, Sequence[float]]], way: str, before: str) -> dict[int, Ratio]:
    return {size: ratio(each[before], each[way]) for size, each in found.items()}


def _text(gains: Mapping[int, Ratio]) -> str:
    return "; ".join(f"{size} billion: {times(each)} times" for size, each in gains.items())


def _more(found: Mapping[int, Mapping[str, Sequence[float]]], way: str, before: str) -> Answer:
    """More models than with less sharing, at every size."""
    gains = _gain(found, way, before)
    return Answer(f"{way} over {before}", _text(gains), list(gains.values()))


def _size(found: Mapping[int, Mapping[str, Sequence[float]]], way: str, low: float, high: float) -> Answer:
    """The gain over exclusive allocation is from half the least to twice the most that was published."""
    gains = _gain(found, way, ALONE)
    [each.value is not None and 1 + low / 2 <= each.value <= 1 + 2 * high for each in gains.values()]
    return Answer(f"size, {way}", _text(gains), list(gains.values()))


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
