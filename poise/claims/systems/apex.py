"""APEX: searching all parallel plans finds one faster than the rule of thumb, or one that takes less energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio
from poise.core.errors import UserError
from poise.core.placement import Bucket, Demand
from poise.core.power import Power, capped
from poise.core.spec import Device, Pool
from poise.core.units import seconds
from poise.cost import Roofline, kv_blocks
from poise.cost.cells import cut, priced
from poise.policies.place.apex import Apex, Plan, Score, heuristic
from poise.report.wording import Kind, write
from poise.workload import Workload

DEVICES, NODE, CLOCKS = 16, 8, (1.0, 810 / 1980)
V100 = replace(
    device("V100-16GB"), name="V100-PCIe-16GB", bf16_flops=112e12, scaleup_bw=0.0, scaleup_domain=1, scaleout_bw=12.5e9,
    tdp_w=250.0,
)  # fmt: skip
"""Without NVLink, as it was profiled; its nodes are joined by 100 Gb/s a device, which is ours."""
CLUSTERS: Mapping[str, tuple[Device, tuple[str, ...]]] = {
    "H100": (device("H100"), ("llama-3.1-70b", "mixtral-8x7b")),
    "V100": (V100, ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b")),
}
TRACES = {"creation": (150, 800), "summarisation": (3000, 200), "chat": (500, 250)}
REQUESTS, RATE = 600, 50.0
NOISE = 0.1


@dataclass
class Study:
    """One model on one cluster under one trace: every plan that fits, evaluated once."""

    bench: Bench
    cluster: str
    model: str
    trace: str

    def __str__(self) -> str:
        return f"{self.model} on {self.cluster}, {self.trace}"

    @property
    def device(self) -> Device:
        """The device of the cluster."""
        return CLUSTERS[self.cluster][0]

    def cells(self, plan: Plan) -> bool:
        """Whether a plan lays attention over data ranks and a dense feed-forward block over all ranks."""
        return plan.data > 1 and model(self.model).moe is None

    def pool(self, plan: Plan) -> Pool:
        """The pool of a plan, its device at the plan's clock."""
        shape = model(self.model)
        return Pool(
            cut(shape) if self.cells(plan) else shape, capped(self.device, plan.clock), replicas=plan.replicas,
            tensor=plan.tensor, pipeline=plan.pipeline, data=plan.data, expert=plan.expert,
        )  # fmt: skip

    def fits(self, plan: Plan) -> bool:
        """Whether the model with some KV cache fits, and heads and layers can be cut so."""
        shape = model(self.model)
        if shape.heads % plan.tensor or shape.layers % plan.pipeline:
            return False
        try:
            return kv_blocks(self.pool(plan)) > 0
        except UserError:
            return False

    def score(self, plan: Plan, cost: Roofline | None = None, seed: int = 1) -> Score:
        """Time until the last request ends, and joules until then."""
        pool, cost = self.pool(plan), cost or Roofline()
        cost = priced(cost) if self.cells(plan) else cost
        result = self.bench.simulate(ps.Cluster((pool,)), self.requests(seed), cost=cost, slices=True)
        span = seconds(max(result.run.records.ended_at))
        joules = Power().joules(result.run.slices, self.device, pool.devices, plan.replicas, span, plan.clock)
        return Score(span, joules)

    def requests(self, seed: int = 1) -> Workload:
        """The trace."""
        prompt, output = TRACES[self.trace]
        return ps.workload.poisson(
            RATE, requests=self.bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(prompt, 1.0),
            output_tokens=ps.workload.lognormal(output, 1.0), seed=seed,
        )  # fmt: skip

    @property
    def clocks(self) -> tuple[float, ...]:
        """Those that were profiled."""
        return CLOCKS if self.cluster == "H100" else (1.0,)

    @cached_property
    def scores(self) -> Mapping[Plan, Score]:
        """Every plan at every clock."""
        return {plan: self.score(plan) for plan in self.plans(self.clocks)}

    def plans(self, clocks: tuple[float, ...]) -> tuple[Plan, ...]:
        """Every plan that fits."""
        moe = model(self.model).moe
        return Apex(clocks=clocks).plans(DEVICES, self.fits, moe.experts if moe else 1)

    def best(self, policy: Apex, scores: Mapping[Plan, Score]) -> Plan:
        """What the policy takes, by these scores."""
        prompt, output = TRACES[self.trace]
        moe = model(self.model).moe
        placement, plans = policy.search(
            Demand((Bucket(prompt, output, RATE),)), DEVICES, self.fits, scores.__getitem__, moe.experts if moe else 1
        )
        return plans[placement.counts.index(1)]

    @cached_property
    def fastest(self) -> Plan:
        """At the full clock."""
        return self.best(Apex(), self.scores)

    @cached_property
    def leanest(self) -> Plan:
        """Of least energy, at any clock."""
        return self.best(Apex("energy", CLOCKS), self.scores)

    @cached_property
    def speedup(self) -> Ratio:
        """Of the plan that is the fastest for the first seed over the heuristic one, over all seeds."""
        theirs, ours = (
            [self.score(plan, seed=seed).latency_s for seed in range(1, 1 + self.bench.seeds())]
            for plan in (heuristic(DEVICES, NODE), self.fastest)
        )
        return ratio(ours, theirs)

    @property
    def saving(self) -> float:
        """The part of the fastest plan's energy that the leanest does without."""
        return 1 - self.scores[self.leanest].energy_j / self.scores[self.fastest].energy_j

    @property
    def by_cells(self) -> float:
        """How many times as fast the best plan is as the best of those that cut both cells alike."""
        alike = min(score.latency_s for plan, score in self.scores.items() if not self.cells(plan))
        return alike / self.scores[self.fastest].latency_s

    def regret(self, noise: float) -> float:
        """How much slower the plan is that is taken when attention and matrices are mistaken by `noise`, both ways."""
        whole = Roofline()
        wrong = replace(
            whole, gemm_bf16=whole.gemm_bf16 * (1 + noise), stream_bf16=whole.stream_bf16 * (1 - noise),
            attention_prefill=whole.attention_prefill * (1 - noise),
            attention_decode_bf16=whole.attention_decode_bf16 * (1 + noise), link=whole.link * (1 - noise),
        )  # fmt: skip
        taken = self.best(Apex(), {plan: self.score(plan, wrong) for plan in self.plans((1.0,))})
        return self.scores[taken].latency_s / self.scores[self.fastest].latency_s - 1


def measure(bench: Bench) -> Findings:
    """Models on clusters × traces, each over all plans."""
    studies = [
        Study(bench, cluster, name, trace)
        for cluster, (_, names) in CLUSTERS.items() for name, trace in product(names, TRACES)
    ]  # fmt: skip
    lean = [study for study in studies if len(study.clocks) > 1]
    answers = [_faster(studies), _leaner(lean), _other(studies), _stable(studies), _cells(studies)]
    return Findings(answers, _curves(studies))


def _faster(studies: list[Study]) -> Answer:
    most = max((study.speedup for study in studies), key=lambda each: each.value or 0.0)
    words = (f"{study}: {study.speedup.value or 0.0:.2f} times ({study.fastest})" for study in studies)
    return Answer("faster", "; ".join(words), most)


def _leaner(studies: list[Study]) -> Answer:
    most = max(study.saving for study in studies)
    texts = (
        f"{study}: {write(study.saving, 'share', 2)} ({study.leanest}, "
        f"{study.scores[study.leanest].latency_s / study.scores[study.fastest].latency_s:.2f} times as long)"
        for study in studies
    )
    return Answer("leaner", "; ".join(texts), most)


def _other(studies: list[Study]) -> Answer:
    ahead = [study for study in studies if (study.speedup.low or 0.0) > 1.1]
    return Answer(
        "one trace of each model",
        f"{len({(study.cluster, study.fastest) for study in studies})} different plans are best over {len(studies)} "
        f"studies; surely ahead by more than a tenth in {len(ahead)}",
        {study.model for study in ahead} == {study.model for study in studies},
    )


def _stable(studies: list[Study]) -> Answer:
    regrets = {str(study): max(study.regret(NOISE), study.regret(-NOISE)) for study in studies}
    words = "; ".join(f"{name}: {write(each, 'share', 2)}" for name, each in regrets.items())
    return Answer("stable", words, list(regrets.values()))


def _cells(studies: list[Study]) -> Answer:
    dense = [study for study in studies if model(study.model).moe is None]
    return Answer("cells", "; ".join(f"{study}: {study.by_cells:.2f} times" for study in dense))


def _curves(studies: list[Study]) -> list[Curve]:
    """Time and energy of the fastest plan, the slowest, and those at quarters between them."""
    curves = []
    kinds: dict[str, Kind] = {"Time to serve all": "seconds", "Energy, J": "number"}
    for place, (title, kind) in enumerate(kinds.items()):
        lines = {}
        for study in studies:
            ordered = sorted(score for plan, score in study.scores.items() if plan.clock == 1.0)
            chosen = [(quarter, ordered[round(quarter / 4 * (len(ordered) - 1))]) for quarter in range(5)]
            lines[str(study)] = [Point(25.0 * quarter, float(score[place] or 0.0)) for quarter, score in chosen]
        curves.append(Curve(f"{title}, plans at full clock", "% of plans that are faster", kind, lines))
    return curves
