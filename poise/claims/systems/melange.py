"""Mélange: a mix of kinds of devices is cheaper than any single kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.errors import CapacityError
from poise.core.placement import Bucket, Demand, Placement, Unit
from poise.core.spec import Engine, Pool
from poise.cost.sustained import sustained, sustained_share
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.place.melange import Melange
from poise.report.wording import write
from poise.scenario.engine_cost import EngineCost
from poise.workload.generate import Pairs
from poise.workload.sizes import demand, places_of

PRICES = {"L4": 0.70, "A10G": 1.01, "A100": 3.67, "H100": 7.52}
SLOS = (0.12, 0.04)
RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
MIX, SIMULATED_RATE, REQUESTS = "mix", 16.0, 4000
LARGE = ("A100", "H100")
SHARE = 0.995
COST = EngineCost("vllm", "0.2.7")
ENGINE = Engine(version="0.2.7", token_budget=4096, max_sequences=256, prefix_caching=False)
"""vLLM 0.2.7: no captured graphs and host times of its year (`catalogue/engines.json`), prompts before decodes."""

POLICIES = ps.Policies(batcher=PrefillFirst())


@dataclass(frozen=True, slots=True)
class Setting:
    """One data set under one SLO: what a mix and each single kind cost at each rate (None: they cannot)."""

    lengths: Pairs
    tpot_s: float
    placements: Mapping[float, Placement]
    prices: Mapping[str, Mapping[float, float | None]]


def measure(bench: Bench) -> Findings:
    """Data sets × SLOs × rates, and a simulation of each placement at one rate."""
    lengths = _lengths(bench)
    found = {(name, slo): _setting(lengths[name], slo) for name in lengths for slo in SLOS}
    by_mean = {key: _simulated(bench, each, each.placements[SIMULATED_RATE]) for key, each in found.items()}
    sure = {key: _sure(each) for key, each in found.items()}
    by_share = {key: _simulated(bench, found[key], each) for key, each in sure.items()}
    criteria = [
        *(_saving(key, setting) for key, setting in found.items()), _never_dearer(found), _shape(found),
        _tightened(found), *_per_dollar(), _met("meets", by_share), _met("mean", by_mean), _dearer(found, sure),
    ]  # fmt: skip
    return Findings(criteria, [_curve(key, setting) for key, setting in found.items()])


def _lengths(bench: Bench) -> dict[str, Pairs]:
    short, long = (ps.workload.read_lengths(bench.file(at), skip_bad=True) for at in (0, 1))
    rng = np.random.default_rng(0)
    of_short = rng.integers(len(short.prompt), size=40_000)
    of_long = rng.integers(len(long.prompt), size=10_000)
    mixed = Pairs(
        np.concatenate([short.prompt[of_short], long.prompt[of_long]]),
        np.concatenate([short.output[of_short], long.output[of_long]]),
    )
    return {"short": short, "long": long, "mixed": mixed}


def _pool(kind: str) -> Pool:
    return Pool(model("llama-2-7b"), replace(device(kind), price_per_hour=PRICES[kind]), engine=ENGINE)


def _units(buckets: Sequence[Bucket], tpot_s: float, share: float = 0.0) -> tuple[Unit, ...]:
    """One unit for each kind of device, with its closed-form throughput of each bucket."""
    return tuple(
        Unit(
            kind,
            price,
            tuple(_rate(kind, each.prompt_tokens, each.output_tokens, tpot_s, share) for each in buckets),
            kind,
        )
        for kind, price in PRICES.items()
    )


@cache
def _rate(kind: str, prompt: int, output: int, tpot_s: float, share: float) -> float:
    """Requests per second of which a share meets the limit; 0: at which their mean does."""
    pool = _pool(kind)
    estimator = COST.build(pool)
    if not share:
        return sustained(pool, estimator, prompt, output, tpot_s)
    return sustained_share(pool, estimator, prompt, output, tpot_s, share)


def _setting(lengths: Pairs, tpot_s: float) -> Setting:
    placements: dict[float, Placement] = {}
    prices: dict[str, dict[float, float | None]] = {name: {} for name in (MIX, *PRICES)}
    for rate in RATES:
        load = demand(lengths.prompt, lengths.output, rate)
        units = _units(load.buckets, tpot_s)
        placements[rate] = Melange().place(load, units)
        prices[MIX][rate] = placements[rate].price
        for unit in units:
            prices[unit.name][rate] = _alone(load, unit)
    return Setting(lengths, tpot_s, placements, prices)


def _alone(load: Demand, unit: Unit) -> float | None:
    """What enough of one unit costs, None where it cannot serve some bucket."""
    try:
        return Melange().place(load, (unit,)).price
    except CapacityError:
        return None


def _savings(setting: Setting) -> dict[tuple[str, float], float]:
    """By kind and rate, the part of a single kind's price that the mix saves."""
    mix = setting.prices[MIX]
    return {
        (kind, rate): 1 - (mix[rate] or 0.0) / price
        for kind in PRICES
        for rate, price in setting.prices[kind].items()
        if price is not None
    }


def _named(key: tuple[str, float]) -> str:
    return f"{key[0]}, {1000 * key[1]:.0f} ms"


def _saving(key: tuple[str, float], setting: Setting) -> Answer:
    """The most that the mix saves is about as much as was published."""
    savings = _savings(setting)
    kind, rate = max(savings, key=lambda place: savings[place])
    most = savings[kind, rate]
    by_kind = {each: [part for (other, _), part in savings.items() if other == each] for each in PRICES}
    ranges = (
        f"{each} {write(min(parts), 'share', 2)} to {write(max(parts), 'share', 2)}" if parts else f"{each} cannot"
        for each, parts in by_kind.items()
    )
    return Answer(
        f"saving, {_named(key)}",
        f"up to {write(most, 'share', 3)}, against {kind} at {rate:g} req/s ({', '.join(ranges)})",
        most,
    )


def _never_dearer(found: Mapping[tuple[str, float], Setting]) -> Answer:
    savings = [part for setting in found.values() for part in _savings(setting).values()]
    equal = sum(part < 1e-9 for part in savings)
    return Answer(
        "never dearer",
        f"least saving {write(min(savings), 'share', 2)}; equal to the best kind in {equal} of {len(savings)} cases",
        min(savings),
    )


def _counts(placement: Placement) -> dict[str, int]:
    return {kind: count for kind, count in zip(PRICES, placement.counts, strict=True) if count}


def _shape(found: Mapping[tuple[str, float], Setting]) -> Answer:
    """Cheap devices at a low rate of short requests, large ones for long requests under the tight limit."""
    small = [_counts(found["short", 0.12].placements[rate]) for rate in RATES[:2]]
    large = [_counts(found["long", 0.04].placements[rate]) for rate in RATES]
    return Answer(
        "shape",
        f"{small}; {large}",
        all(not set(each) & set(LARGE) for each in small) and all(_large(each) > 0.5 for each in large),
    )


def _large(counts: Mapping[str, int]) -> float:
    """The part of the price that is in large devices."""
    prices = {kind: count * PRICES[kind] for kind, count in counts.items()}
    return sum(prices.get(kind, 0.0) for kind in LARGE) / sum(prices.values())


def _tightened(found: Mapping[tuple[str, float], Setting]) -> Answer:
    """From 120 to 40 ms money goes from small to large devices."""
    parts = {
        slo: [_large(_counts(one.placements[rate])) for (_, own), one in found.items() if own == slo for rate in RATES]
        for slo in SLOS
    }  # fmt: skip
    mean = {slo: float(np.mean(each)) for slo, each in parts.items()}
    return Answer(
        "tightened",
        f"{write(mean[0.12], 'share', 2)} at 120 ms, {write(mean[0.04], 'share', 2)} at 40 ms",
        mean[0.04] - mean[0.12],
    )


def _per_dollar() -> list[Answer]:
    """What A10G carries for a dollar over what A100 does, of the smallest and of the largest requests of a grid."""
    sizes = [Bucket(prompt, output, 1.0) for prompt in (25, 100, 500, 2000) for output in (25, 100, 500, 2000)]
    units = {unit.name: unit for unit in _units(sizes, inf, 0.0)}
    gains = {
        (size.prompt_tokens, size.output_tokens):
        units["A10G"].rates[index] / PRICES["A10G"] / (units["A100"].rates[index] / PRICES["A100"])
        for index, size in enumerate(sizes)
    }  # fmt: skip
    small, large = max(gains, key=lambda size: gains[size]), min(gains, key=lambda size: gains[size])
    return [
        Answer(key, f"{write(gain - 1, 'share', 2)}, at {at[0]} + {at[1]} tokens", gain - 1)
        for key, at, gain in (("small", small, gains[small]), ("large", large, 1 / gains[large]))
    ]


def _sure(setting: Setting) -> Placement:
    """The placement at rates of which a share is in time, not the mean."""
    load = demand(setting.lengths.prompt, setting.lengths.output, SIMULATED_RATE)
    return Melange().place(load, _units(load.buckets, setting.tpot_s, SHARE))


def _simulated(bench: Bench, setting: Setting, placement: Placement) -> float:
    """The part of requests within the limit when a placement is simulated, each kind of device with its share."""
    load = demand(setting.lengths.prompt, setting.lengths.output, SIMULATED_RATE)
    places = places_of(setting.lengths.prompt, setting.lengths.output)
    of_bucket = np.searchsorted(np.unique(places), places)
    met = total = 0.0
    for unit, (kind, count) in enumerate(zip(PRICES, placement.counts, strict=True)):
        shares = {share.bucket: share.rate for share in placement.shares if share.unit == unit}
        if not shares:
            continue
        parts = [shares.get(bucket, 0.0) / each.rate for bucket, each in enumerate(load.buckets)]
        drawn = _drawn(setting.lengths, np.array(parts)[of_bucket])
        for seed in range(bench.seeds()):
            part = sum(shares.values()) / SIMULATED_RATE
            requests = max(round(bench.requests(REQUESTS) * part), 50)
            cluster = ps.Cluster((replace(_pool(kind), replicas=count),))
            workload = ps.workload.poisson(sum(shares.values()), requests=requests, lengths=drawn, seed=seed)
            result = bench.simulate(cluster, workload, POLICIES, cost=COST, seed=seed)
            met += part * (result.metrics(ps.Slo(tpot_s=setting.tpot_s)).slo_attainment or 0.0)
            total += part
    return met / total


def _drawn(lengths: Pairs, parts: NDArray[np.float64]) -> Pairs:
    """The requests of a kind of device: each with the part of its bucket that goes there."""
    keep = np.random.default_rng(1).random(len(parts)) < parts
    return Pairs(lengths.prompt[keep], lengths.output[keep])


def _met(key: str, met: Mapping[tuple[str, float], float]) -> Answer:
    words = "; ".join(f"{_named(each)}: {write(part, 'share', 3)}" for each, part in met.items())
    return Answer(key, words, list(met.values()))


def _dearer(found: Mapping[tuple[str, float], Setting], sure: Mapping[tuple[str, float], Placement]) -> Answer:
    """What rates by share cost beyond those by the mean."""
    ratios = {key: each.price / found[key].placements[SIMULATED_RATE].price for key, each in sure.items()}
    return Answer("dearer", "; ".join(f"{_named(key)}: {each:.2f} times" for key, each in ratios.items()))


def _curve(key: tuple[str, float], setting: Setting) -> Curve:
    lines = {
        name: [Point(rate, price) for rate, price in prices.items() if price is not None]
        for name, prices in setting.prices.items()
    }
    return Curve(f"Price per hour: {_named(key)}", "load, req/s", "dollars", {k: v for k, v in lines.items() if v})
