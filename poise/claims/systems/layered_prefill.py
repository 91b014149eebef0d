"""Layered prefill: whole prompts pass groups of layers beside all decodes, so that experts' weights stream once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.stalls import tbt
from poise.claims.sweep import Sweep, swept, times
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.layered_prefill import LayeredPrefill

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


EXPERTS, DENSE = "qwen3-30b-a3b", "qwen3-8b"
PROMPTS = ps.workload.lognormal(8000, 0.54, 16_000)
OUTPUTS = ps.workload.lognormal(220, 0.6, 1000)
RATES = (0.7, 1.0, 1.3, 1.6)
REQUESTS = 1000
LAYERED, SMALL = "layered", "chunks of 512"
TTFT, TPOT = "ttft_s.mean", "tpot_s.mean"
BUNDLES = {
    LAYERED: ps.Policies(batcher=LayeredPrefill()),
    SMALL: ps.Policies(batcher=Chunked(tokens=512)),
    "chunks of 1024": ps.Policies(batcher=Chunked(tokens=1024)),
    "chunks of 2048": ps.Policies(batcher=Chunked(tokens=2048)),
}


def measure(bench: Bench) -> Findings:
    """Loads × chunk sizes, for the mixture and for the dense model."""
    experts, dense = _sweep(bench, EXPERTS), _sweep(bench, DENSE)
    criteria = [
        experts.ahead("sooner", TTFT, LAYERED, [SMALL]),
        _gain(experts),
        experts.ahead("per token", TPOT, LAYERED, [SMALL]),
        _tail(experts),
        dense.ahead("dense", TTFT, SMALL, [LAYERED]),
        experts.ahead("large chunks", TTFT, LAYERED, ["chunks of 2048"]),
        _between(bench),
    ]
    curves = [experts.curve("TTFT, mixture of experts", TTFT), experts.curve("TPOT, mixture of experts", TPOT)]
    return Findings(criteria, [*curves, dense.curve("TTFT, dense model", TTFT)])


def _arriving(bench: Bench, rate: float, seed: int) -> ps.workload.Workload:
    requests = bench.requests(REQUESTS)
    return ps.workload.poisson(rate, requests=requests, prompt_tokens=PROMPTS, output_tokens=OUTPUTS, seed=seed)


def _cluster(model: str) -> ps.Cluster:
    engine = ps.Engine(prefix_caching=False)
    return ps.Cluster.of("H100", count=2).replicas(1, model=model, tensor=2, engine=engine)


def _sweep(bench: Bench, model: str) -> Sweep:
    cluster = _cluster(model)

    def at(rate: float) -> Comparison:
        def made(seed: int, load: float) -> ps.workload.Workload:
            return _arriving(bench, rate * load, seed)

        return bench.compare(f"{model}, {rate:g} req/s", cluster, made, BUNDLES, by=TTFT, seeds=bench.seeds())

    return swept("load, req/s", RATES, at)


def _gain(sweep: Sweep) -> Answer:
    """The gain of the mean lies in the dossier's band somewhere, and grows with load as published."""
    ratios = [sweep.ratio(rate, TTFT, LAYERED, SMALL) for rate in RATES]
    told = "; ".join(f"{rate:g}: {times(each)}" for rate, each in zip(RATES, ratios, strict=True))
    return Answer("gain", told, ratios[-2:])


def _tail(sweep: Sweep) -> Answer:
    rate = RATES[-1]
    mean, tail = (sweep.ratio(rate, each, LAYERED, SMALL) for each in (TTFT, "ttft_s.p99"))
    return Answer(
        "tail",
        f"mean {times(mean)}, P99 {times(tail)} times as long with chunks of 512",
        None if mean.value is None or tail.value is None else tail.value / mean.value,
    )


def _between(bench: Bench) -> Answer:
    """P99 of the time between tokens, which rules out the large chunks in the paper."""
    cluster, found = _cluster(EXPERTS), {}
    for name, policies in BUNDLES.items():
        runs = [
            bench.simulate(cluster, _arriving(bench, RATES[2], seed), policies, slices=True)
            for seed in range(bench.seeds())
        ]
        found[name] = sum(map(tbt, runs)) / len(runs)
    told = ", ".join(f"{name} {1000 * each:.1f} ms" for name, each in found.items())
    return Answer(
        "between",
        f"at 1.3 req/s: {told}",
        found[LAYERED] < found["chunks of 2048"] and found[LAYERED] <= 1.1 * found[SMALL],
    )
