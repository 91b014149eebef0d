"""Sarathi-Serve: chunked prefill beside decodes, under the largest budget that keeps the time between tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.stalls import capacity, tbt
from poise.claims.sweep import ratio, times
from poise.core.spec import Engine
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.batch.sarathi import Sarathi

LIMITS = {"mistral-7b": (0.1, 0.5), "yi-34b": (0.2, 1.0)}
TENSOR = {"mistral-7b": 1, "yi-34b": 2}
DELAY_S, MOST, EPSILON = 2.0, 12.0, 0.05
REQUESTS = 600
BUDGETS = (128, 256, 512, 1024, 2048, 4096, 8192)
SARATHI, VLLM, ORCA = "Sarathi-Serve", "vLLM", "Orca"
WHOLE = 16_384
"""A budget that holds any prompt."""


class Limit(NamedTuple):
    """Of the P99 time between tokens, for a model."""

    model: str
    tbt_s: float
    strict: bool

    @property
    def batchers(self) -> Mapping[str, Chunked]:
        """The three systems; Sarathi-Serve with the paper's budgets."""
        return {SARATHI: Sarathi(512 if self.strict else 2048), VLLM: PrefillFirst(), ORCA: Chunked(WHOLE)}


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica."""

    bench: Bench
    model: str

    def run(self, batcher: Chunked, rate: float, seed: int) -> ps.Result:
        """At a rate of requests."""
        engine = Engine(token_budget=WHOLE, max_sequences=128, prefix_caching=False)
        tensor = TENSOR[self.model]
        cluster = ps.Cluster.of("A100", count=tensor).replicas(1, model=self.model, tensor=tensor, engine=engine)
        workload = ps.workload.poisson(
            rate, requests=self.bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(2665, 1.17, 8000),
            output_tokens=ps.workload.lognormal(481, 0.59, 1500), seed=seed,
        )  # fmt: skip
        return self.bench.simulate(cluster, workload, ps.Policies(batcher=batcher), slices=True)

    def capacity(self, batcher: Chunked, tbt_s: float) -> list[float]:
        """The highest rate within both limits, for each seed."""

        def meets(rate: float, seed: int) -> bool:
            result = self.run(batcher, rate, seed)
            return (result.ttft.p50 or 0.0) <= DELAY_S and tbt(result) <= tbt_s

        return capacity(meets, self.bench.seeds(), MOST, EPSILON)


def measure(bench: Bench) -> Findings:
    """Capacities under both limits for both models; the ablation; budgets; a low load."""
    found = {}
    for model, (strict, relaxed) in LIMITS.items():
        for limit in (Limit(model, strict, True), Limit(model, relaxed, False)):
            experiment = Experiment(bench, model)
            found[limit] = {name: experiment.capacity(each, limit.tbt_s) for name, each in limit.batchers.items()}
    budgets = {budget: Experiment(bench, "mistral-7b").capacity(Sarathi(budget), 0.1) for budget in BUDGETS}
    criteria = [_ahead(found), *_gains(found), _shrinks(found), _interior(budgets), *_ablation(bench), _found(bench)]
    return Findings(criteria, [_curve(budgets)])


Capacities = Mapping[Limit, Mapping[str, Sequence[float]]]


def _name(limit: Limit) -> str:
    return f"{limit.model} within {limit.tbt_s:g} s"


def _ratios(found: Capacities, other: str) -> dict[Limit, Ratio]:
    return {limit: ratio(each[other], each[SARATHI]) for limit, each in found.items()}


def _ahead(found: Capacities) -> Answer:
    ratios = {(limit, other): each for other in (VLLM, ORCA) for limit, each in _ratios(found, other).items()}
    told = "; ".join(
        f"{_name(limit)}: " + ", ".join(f"{name} {sum(each) / len(each):.2f}" for name, each in found[limit].items())
        for limit in found
    )
    return Answer("ahead", f"req/s: {told}", [each for (limit, _), each in ratios.items() if limit.strict])


def _gains(found: Capacities) -> list[Answer]:
    """Within the published band, half as much again on either side."""
    return [
        Answer(f"over vLLM, {limit.model}", f"{times(each)} times", each)
        for (limit, each), (low, high, paper) in zip(
            [pair for pair in _ratios(found, VLLM).items() if pair[0].strict],
            ((1.5, 5.3, "3.5"), (1.5, 5.6, "up to 3.7")),
            strict=True,
        )
    ]


def _shrinks(found: Capacities) -> Answer:
    ratios = {limit: each.value for limit, each in _ratios(found, VLLM).items()}
    [each for limit, each in ratios.items() if not limit.strict]
    told = "; ".join(f"{_name(limit)}: {'?' if each is None else f'{each:.2f}'}" for limit, each in ratios.items())
    return Answer("shrinks", told, [ratio for limit, ratio in _ratios(found, VLLM).items() if not limit.strict])


def _interior(budgets: Mapping[int, Sequence[float]]) -> Answer:
    means = {budget: sum(each) / len(each) for budget, each in budgets.items()}
    best = max(means, key=lambda budget: means[budget])
    return Answer(
        "interior",
        f"{best} ({means[best]:.2f} req/s); {BUDGETS[0]}: {means[BUDGETS[0]]:.2f}, {BUDGETS[-1]}: "
        f"{means[BUDGETS[-1]]:.2f}",
        best not in (BUDGETS[0], BUDGETS[-1]),
    )


def _ablation(bench: Bench) -> list[Answer]:
    """Yi-34B with a budget of 1,024: P50 of the first token and P99 between tokens."""
    batchers = {
        "mixing only": Chunked(WHOLE), "chunks only": Sarathi(1024, mixed=False), "both": Sarathi(1024),
        "vLLM": PrefillFirst(),
    }  # fmt: skip
    experiment, rate = Experiment(bench, "yi-34b"), 2.0
    results = {name: experiment.run(each, rate, 0) for name, each in batchers.items()}
    first = {name: each.ttft.p50 or 0.0 for name, each in results.items()}
    between = {name: tbt(each) for name, each in results.items()}
    told = "; ".join(f"{name}: {first[name]:.2f} / {between[name]:.2f} s" for name in batchers)
    ours = ("mixing only", "chunks only", "both")
    return [
        Answer(
            "ablation",
            f"at {rate:g} req/s: {told}",
            min(ours, key=first.__getitem__) == max(ours, key=between.__getitem__) == "mixing only"
            and max(ours, key=first.__getitem__) == "chunks only",
        ),
        Answer("low load", f"{first['both']:.2f} vs {first['vLLM']:.2f} s", first["both"] / first["vLLM"]),
    ]


def _found(bench: Bench) -> Answer:
    """The rule's own budgets beside those that the paper used."""
    told = {}
    for model, limits in LIMITS.items():
        for limit in limits:
            batcher = Sarathi(tbt_s=limit)
            experiment = Experiment(bench, model)
            told[f"{model} within {limit:g} s"] = (experiment.capacity(batcher, limit), limit)
    figures = "; ".join(f"{name}: {sum(each) / len(each):.2f}" for name, (each, _) in told.items())
    return Answer("found", f"req/s: {figures}", [min(each) for each, _ in told.values()])


def _curve(budgets: Mapping[int, Sequence[float]]) -> Curve:
    points = [Point(float(budget), sum(each) / len(each)) for budget, each in budgets.items()]
    return Curve("Capacity by budget, Mistral-7B within 0.1 s", "tokens", "number", {SARATHI: points})
