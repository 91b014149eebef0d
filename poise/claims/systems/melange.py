"""Mélange: a mix of kinds of devices is cheaper than any single kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.catalogue import device, model
from poise.claims.bench import Bench, find_data
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point, Source
from poise.core.errors import CapacityError
from poise.core.place import Bucket, Demand, Placement, Unit
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.sustained import sustained
from poise.policies.place.melange import Melange
from poise.report.wording import write
from poise.workload.generate import Pairs
from poise.workload.sizes import demand, places_of

SHORT_TABLE = Source(
    "length_tables/lmsys_short_turns.parquet", "https://huggingface.co/datasets/lmsys/lmsys-chat-1m (lengths only)"
)
LONG_TABLE = Source(
    "length_tables/arxiv_summarization.parquet",
    "https://github.com/microsoft/vidur (data/processed_traces/arxiv_summarization_stats_llama2_tokenizer)",
)

CLAIM = Claim(
    system="Mélange",
    paper="arXiv 2404.14527",
    year=2024,
    slot="placer",
    policies=("melange",),
    headline="cost up to 77 % lower than that of a single type of GPU (short requests), 33 % (long), 51 % (mixed)",
    conditions="Llama-2-7B on L4, A10G, A100-80GB and H100 at 0.70, 1.01, 3.67 and 7.52 $/h under vLLM 0.2.7; Chatbot "
    "Arena (short), PubMed (long), 80 to 20 of both (mixed); mean TPOT within 120 or 40 ms; 1 to 32 requests per "
    "second; throughputs measured",
    here="the same model, devices and prices; turns of LMSYS-Chat-1M (short, both sides below 257 tokens) and "
    "summaries of arXiv papers (long) in place of the two data sets, which were not to be had; throughputs by closed "
    "form over roofline step times; four slices a bucket; placements simulated with Poisson arrivals at each kind of "
    "device",
    trust="code",
    data=(SHORT_TABLE, LONG_TABLE),
)

PRICES = {"L4": 0.70, "A10G": 1.01, "A100": 3.67, "H100": 7.52}
SLOS = (0.12, 0.04)
RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
PUBLISHED = {("short", 0.12): 0.77, ("long", 0.12): 0.33, ("mixed", 0.12): 0.51,
             ("short", 0.04): 0.68, ("long", 0.04): 0.22, ("mixed", 0.04): 0.51}  # fmt: skip
MIX, SIMULATED_RATE, REQUESTS, SEEDS = "mix", 16.0, 4000, 3
LARGE = ("A100", "H100")
LOW = (
    "at 1 request per second one whole device does, so the saving is the ratio of two prices, and a small device that "
)
LOW += "holds few long requests at once needs many of its kind"


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
    met = {key: _simulated(bench, each) for key, each in found.items()}
    criteria = [
        *(_saving(key, setting) for key, setting in found.items()), _never_dearer(found), _shape(found),
        _tightened(found), _per_dollar(), _meets(met),
    ]  # fmt: skip
    return Findings(criteria, [_curve(key, setting) for key, setting in found.items()])


def _lengths(bench: Bench) -> dict[str, Pairs]:
    short, long = (
        ps.workload.read_lengths(find_data(source, bench.data), skip_bad=True) for source in (SHORT_TABLE, LONG_TABLE)
    )
    rng = np.random.default_rng(0)
    of_short = rng.integers(len(short.prompt), size=40_000)
    of_long = rng.integers(len(long.prompt), size=10_000)
    mixed = Pairs(
        np.concatenate([short.prompt[of_short], long.prompt[of_long]]),
        np.concatenate([short.output[of_short], long.output[of_long]]),
    )
    return {"short": short, "long": long, "mixed": mixed}


def _pool(kind: str) -> Pool:
    return Pool(model("llama-2-7b"), replace(device(kind), price_per_hour=PRICES[kind]))


def _units(buckets: Sequence[Bucket], tpot_s: float) -> tuple[Unit, ...]:
    """One unit for each kind of device, with its closed-form throughput of each bucket."""
    units = []
    for kind, price in PRICES.items():
        pool = _pool(kind)
        estimator = Roofline().build(pool)
        rates = (sustained(pool, estimator, each.prompt_tokens, each.output_tokens, tpot_s) for each in buckets)
        units.append(Unit(kind, price, tuple(rates), kind))
    return tuple(units)


def _setting(lengths: Pairs, tpot_s: float) -> Setting:
    placements: dict[float, Placement] = {}
    prices: dict[str, dict[float, float | None]] = {name: {} for name in (MIX, *PRICES)}
    for rate in RATES:
        asked = demand(lengths.prompt, lengths.output, rate)
        units = _units(asked.buckets, tpot_s)
        placements[rate] = Melange().place(asked, units)
        prices[MIX][rate] = placements[rate].price
        for unit in units:
            prices[unit.name][rate] = _alone(asked, unit)
    return Setting(lengths, tpot_s, placements, prices)


def _alone(asked: Demand, unit: Unit) -> float | None:
    """What enough of one unit costs, None where it cannot serve some bucket."""
    try:
        return Melange().place(asked, (unit,)).price
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


def _saving(key: tuple[str, float], setting: Setting) -> Criterion:
    """The most that the mix saves is about as much as was published."""
    paper, savings = PUBLISHED[key], _savings(setting)
    kind, rate = max(savings, key=lambda place: savings[place])
    most = savings[kind, rate]
    within = paper / 2 <= most <= 2 * paper
    by_kind = {each: [part for (other, _), part in savings.items() if other == each] for each in PRICES}
    ranges = (
        f"{each} {write(min(parts), 'share', 2)} to {write(max(parts), 'share', 2)}" if parts else f"{each} cannot"
        for each, parts in by_kind.items()
    )
    return Criterion(
        f"{_named(key)}: the most that the mix saves against a single kind is within a factor 2 of that",
        f"up to {write(paper, 'share', 2)}",
        f"up to {write(most, 'share', 3)}, against {kind} at {rate:g} req/s ({', '.join(ranges)})",
        within, headline=True, why="" if within else LOW,
    )  # fmt: skip


def _never_dearer(found: Mapping[tuple[str, float], Setting]) -> Criterion:
    savings = [part for setting in found.values() for part in _savings(setting).values()]
    equal = sum(part < 1e-9 for part in savings)
    return Criterion(
        "The mix is dearer than no single kind at any rate", "cheapest of all in every panel",
        f"least saving {write(min(savings), 'share', 2)}; equal to the best kind in {equal} of {len(savings)} cases",
        min(savings) > -1e-9,
    )  # fmt: skip


def _counts(placement: Placement) -> dict[str, int]:
    return {kind: count for kind, count in zip(PRICES, placement.counts, strict=True) if count}


def _shape(found: Mapping[tuple[str, float], Setting]) -> Criterion:
    """Cheap devices at a low rate of short requests, large ones for long requests under the tight limit."""
    small = [_counts(found["short", 0.12].placements[rate]) for rate in RATES[:2]]
    large = [_counts(found["long", 0.04].placements[rate]) for rate in RATES]
    return Criterion(
        "Short, 120 ms, up to 2 req/s: only L4 and A10G; long, 40 ms, at every rate: most of the price is in A100 and "
        "H100",
        "low-end devices at low rates and small sizes, high-end ones at large sizes and a strict SLO",
        f"{small}; {large}",
        all(not set(each) & set(LARGE) for each in small) and all(_large(each) > 0.5 for each in large),
    )  # fmt: skip


def _large(counts: Mapping[str, int]) -> float:
    """The part of the price that is in large devices."""
    prices = {kind: count * PRICES[kind] for kind, count in counts.items()}
    return sum(prices.get(kind, 0.0) for kind in LARGE) / sum(prices.values())


def _tightened(found: Mapping[tuple[str, float], Setting]) -> Criterion:
    """From 120 to 40 ms money goes from small to large devices."""
    parts = {
        slo: [_large(_counts(one.placements[rate])) for (_, own), one in found.items() if own == slo for rate in RATES]
        for slo in SLOS
    }  # fmt: skip
    mean = {slo: float(np.mean(each)) for slo, each in parts.items()}
    return Criterion(
        "The part of the price in A100 and H100 is larger under 40 ms than under 120 ms, in the mean over data sets "
        "and rates",
        "a tighter SLO moves requests to A100 and H100",
        f"{write(mean[0.12], 'share', 2)} at 120 ms, {write(mean[0.04], 'share', 2)} at 40 ms", mean[0.04] > mean[0.12],
        why="" if mean[0.04] > mean[0.12] else "long requests are on large devices under both, for their KV cache",
    )  # fmt: skip


def _per_dollar() -> Criterion:
    """Requests per dollar of A10G over those of A100, over sizes."""
    sizes = [Bucket(prompt, output, 1.0) for prompt in (25, 100, 500, 2000) for output in (25, 100, 500, 2000)]
    units = {unit.name: unit for unit in _units(sizes, SLOS[0])}
    gains = {
        (size.prompt_tokens, size.output_tokens):
        units["A10G"].rates[index] / PRICES["A10G"] / (units["A100"].rates[index] / PRICES["A100"]) - 1
        for index, size in enumerate(sizes)
    }  # fmt: skip
    small, large = max(gains, key=lambda size: gains[size]), min(gains, key=lambda size: gains[size])
    ahead, behind = gains[small], 1 / (1 + gains[large]) - 1
    met = 0 < ahead <= 1.44 and 0 < behind <= 0.76 and sum(small) < sum(large)
    return Criterion(
        "For a dollar A10G serves more of the smallest requests than A100 does, and A100 more of the largest, both by "
        "at most twice as much as published",
        "A10G up to 72 % ahead at small sizes, A100 up to 38 % at large ones",
        f"A10G at most {write(ahead, 'share', 2)} ahead (at {small[0]} + {small[1]} tokens), A100 at most "
        f"{write(behind, 'share', 2)} (at {large[0]} + {large[1]})",
        met, why="" if met else "step times here follow the datasheet, by which an A10G has a fifth of the peak at "
        "28 % of the price of an A100, and a fourth of its memory",
    )  # fmt: skip


def _simulated(bench: Bench, setting: Setting) -> float:
    """The part of requests within the limit when the placement is simulated, each kind of device with its share."""
    asked = demand(setting.lengths.prompt, setting.lengths.output, SIMULATED_RATE)
    places = places_of(setting.lengths.prompt, setting.lengths.output)
    of_bucket = np.searchsorted(np.unique(places), places)
    placement = setting.placements[SIMULATED_RATE]
    met = total = 0.0
    for unit, (kind, count) in enumerate(zip(PRICES, placement.counts, strict=True)):
        shares = {share.bucket: share.rate for share in placement.shares if share.unit == unit}
        if not shares:
            continue
        parts = [shares.get(bucket, 0.0) / each.rate for bucket, each in enumerate(asked.buckets)]
        drawn = _drawn(setting.lengths, np.array(parts)[of_bucket])
        for seed in range(bench.seeds(SEEDS)):
            part = sum(shares.values()) / SIMULATED_RATE
            requests = max(round(bench.requests(REQUESTS) * part), 50)
            cluster = ps.Cluster((replace(_pool(kind), replicas=count),))
            workload = ps.workload.poisson(sum(shares.values()), requests=requests, lengths=drawn, seed=seed)
            result = bench.simulate(cluster, workload, seed=seed)
            met += part * (result.metrics(ps.Slo(tpot_s=setting.tpot_s)).slo_attainment or 0.0)
            total += part
    return met / total


def _drawn(lengths: Pairs, parts: NDArray[np.float64]) -> Pairs:
    """The requests of a kind of device: each with the part of its bucket that goes there."""
    keep = np.random.default_rng(1).random(len(parts)) < parts
    return Pairs(lengths.prompt[keep], lengths.output[keep])


def _meets(met: Mapping[tuple[str, float], float]) -> Criterion:
    enough = all(part >= 0.995 for part in met.values())
    return Criterion(
        f"Placements at {SIMULATED_RATE:g} req/s, simulated: 99.5 % of requests or more have a TPOT within the SLO, in "
        "every setting",
        "99.5 % or more", "; ".join(f"{_named(key)}: {write(part, 'share', 3)}" for key, part in met.items()),
        enough, why="" if enough else "throughputs are those at which the mean TPOT of even arrivals is the limit, and "
        "loads of a placement come near to 1: among chance arrivals many requests meet a fuller device",
    )  # fmt: skip


def _curve(key: tuple[str, float], setting: Setting) -> Curve:
    lines = {
        name: [Point(rate, price) for rate, price in prices.items() if price is not None]
        for name, prices in setting.prices.items()
    }
    return Curve(f"Price per hour: {_named(key)}", "load, req/s", "dollars", {k: v for k, v in lines.items() if v})
