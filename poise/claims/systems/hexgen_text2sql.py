"""HexGen-Text2SQL: the weight of speed is chosen on a replay of earlier traffic, then tried on other traffic."""

from __future__ import annotations

from collections import Counter

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.experiments.figures import Seen
from poise.claims.experiments.setting import built, scenario
from poise.claims.sweep import ratio, times

WEIGHTS = (0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The grid of the authors' code."""
EARLIER = 1000
"""Added to a seed for the arrivals of the replay."""
EVEN, OURS = "round robin, FCFS", "dispatch, urgency"


def measure(bench: Bench) -> Findings:
    """How many times as long round robin takes at each load, and which weights were chosen."""
    ratios, texts = [], []
    for load in bench.claim.runs["load"].at[1:]:
        chosen = [tuned(bench, load, seed) for seed in range(bench.seeds())]
        ours = [late(bench, OURS, load, seed, weight) for seed, weight in enumerate(chosen)]
        ratios.append(ratio(ours, [late(bench, EVEN, load, seed) for seed in range(bench.seeds())]))
        often = ", ".join(f"{weight:g}" for weight, _ in Counter(chosen).most_common(2))
        texts.append(f"at {load:g}: {times(ratios[-1])} (weights, mostly {often})")
    return Findings([Answer("deadline", "; ".join(texts), ratios)])


def tuned(bench: Bench, load: float, seed: int) -> float:
    """The weight with the shortest 95th percentile when earlier traffic of the same load is replayed."""
    return min(WEIGHTS, key=lambda weight: late(bench, OURS, load, EARLIER + seed, weight))


def late(bench: Bench, label: str, load: float, seed: int, weight: float | None = None) -> float:
    """The 95th percentile of queries' seconds in one run."""
    changes = {"workload.poisson.rate": load}
    if weight is not None:
        changes[f"compare.{label}.router.hexgen_text2sql.alpha"] = weight
    problem = built(scenario(bench.claim, bench, changes), label, bench)
    workload = problem.traffic.make(seed)
    result = bench.simulate(
        problem.cluster, workload, problem.bundles[0][1], cost=problem.cost, belief=problem.belief, seed=seed
    )
    return Seen(result, workload, problem).figure("program_s.q95")
