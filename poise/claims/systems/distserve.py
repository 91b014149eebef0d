"""DistServe: prefill and decode apart, each laid out and replicated for its own limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil

import poise as ps
from poise.catalogue import device
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.errors import CapacityError
from poise.core.model import Model
from poise.core.placement import Bucket, Demand
from poise.core.spec import Pool, Role
from poise.cost import kv_blocks
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.place.distserve import Candidate, DistServe, Layout, goodput
from poise.report.wording import write

OPT_13B = Model("OPT-13B", 40, 5120, 40, 40, 128, 50272, 20480, 2048, gated=False, tied=True)
TTFT_S, TPOT_S, MET = 0.2, 0.1, 0.9
SCALES = (0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
REQUESTS, MOST, EPSILON = 600, 32.0, 0.1
ARTEFACT, RATE, ALONE = 1.56, 10.0, 12
ENGINE = ps.Engine(token_budget=2048, prefix_caching=False, first_token="prefill")
A100 = device("A100")


def fits(layout: Layout) -> bool:
    """Whether heads and layers can be cut so, and the model leaves room for KV cache."""
    if OPT_13B.heads % layout.tensor or OPT_13B.layers % layout.pipeline:
        return False
    try:
        return kv_blocks(_pool(layout)) > 0
    except CapacityError:
        return False


def _pool(layout: Layout, role: Role = "mixed", replicas: int = 1) -> Pool:
    return Pool(
        OPT_13B, A100, replicas=replicas, tensor=layout.tensor, pipeline=layout.pipeline, role=role, engine=ENGINE
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Experiment:
    """Whether clusters meet limits scaled by `scale`; rates are for each device."""

    bench: Bench
    scale: float

    def run(self, cluster: ps.Cluster, rate: float, output: float = 200.0, *, vllm: bool = False) -> ps.Result:
        """A run at a rate of the whole cluster."""
        workload = ps.workload.poisson(
            rate, requests=self.bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(756, 1.0, 1500),
            output_tokens=ps.workload.lognormal(output, 1.0, 540) if output > 1 else 1, seed=3,
        )  # fmt: skip
        policies = ps.Policies(batcher=PrefillFirst()) if vllm else ps.Policies()
        return self.bench.simulate(cluster, workload, policies, seed=3)

    def slo(self, *, ttft: bool = True, tpot: bool = True) -> ps.Slo:
        """The scaled limits, or one of them."""
        return ps.Slo(TTFT_S * self.scale if ttft else None, TPOT_S * self.scale if tpot else None)

    def within(self, result: ps.Result, slo: ps.Slo) -> bool:
        """Whether enough requests are."""
        return (result.metrics(slo).slo_attainment or 0.0) >= MET

    def rated(self, candidate: Candidate) -> float:
        """The goodput of a phase alone, or of a pair, in requests per second."""
        meets = {"prefill": self._prefill, "decode": self._decode, "mixed": self._pair}[candidate.role]
        devices = candidate.devices
        return devices * goodput(lambda rate: meets(candidate, rate * devices), MOST, EPSILON)

    def _prefill(self, candidate: Candidate, rate: float) -> bool:
        assert candidate.prefill
        return self.within(self.run(ps.Cluster((_pool(candidate.prefill),)), rate, 1.0), self.slo(tpot=False))

    def _decode(self, candidate: Candidate, rate: float) -> bool:
        """Beside so many prefill replicas that none of them waits for long."""
        assert candidate.decode
        pools = (_pool(Layout(1, 1), "prefill", ALONE + ceil(rate)), _pool(candidate.decode, "decode"))
        return self.within(self.run(ps.Cluster(pools, link_bw=1e12), rate), self.slo(ttft=False))

    def _pair(self, candidate: Candidate, rate: float) -> bool:
        assert candidate.prefill and candidate.decode
        pools = (_pool(candidate.prefill, "prefill"), _pool(candidate.decode, "decode"))
        return self.within(self.run(ps.Cluster(pools, link_bw=A100.scaleup_bw), rate), self.slo())

    def vllm(self, rate: float) -> bool:
        """One replica that does both."""
        return self.within(self.run(ps.Cluster((_pool(Layout(1, 1)),)), rate, vllm=True), self.slo())


@dataclass(frozen=True, slots=True)
class Found:
    """Under one scale of limits: goodput per device of both, and DistServe's instances (None: no layout is enough)."""

    apart: float
    together: float
    instances: Mapping[Candidate, int]


def measure(bench: Bench) -> Findings:
    """Scales of the limits; then the artefact's own search."""
    found = {scale: _apart(Experiment(bench, scale)) for scale in SCALES}
    criteria = [_most(found), _order(found), _artefact(bench), _carries(bench, found[1.0]), _layouts(found)]
    lines = {
        "distserve": [Point(scale, each.apart) for scale, each in found.items()],
        "vLLM, one device": [Point(scale, each.together) for scale, each in found.items()],
    }
    title = "Requests per second and device within the SLO"
    return Findings(criteria, [Curve(title, "scale of the SLO", "number", lines)])


def _apart(experiment: Experiment) -> Found:
    """Algorithm 1 on nodes of 4, and vLLM."""
    together = goodput(experiment.vllm, MOST, EPSILON)
    demand = Demand((Bucket(756, 200, RATE),))
    try:
        placement, candidates = DistServe("high", nodes=1, node_devices=4).search(demand, fits, experiment.rated)
    except CapacityError:
        return Found(0.0, together, {})
    instances = {each: count for each, count in zip(candidates, placement.counts, strict=True) if count}
    return Found(RATE / placement.bound, together, instances)


def _text(found: Found) -> str:
    return " + ".join(f"{count} {each}" for each, count in found.instances.items()) or "none"


def _most(found: Mapping[float, Found]) -> Answer:
    ratios = {scale: each.apart / each.together for scale, each in found.items() if each.together}
    most = max(ratios.values(), default=0.0)
    return Answer(
        "most",
        "; ".join(
            f"{scale:g}: {each.apart:.2f} vs {each.together:.2f}"
            + (f" ({ratios[scale]:.2f} times)" if scale in ratios else "")
            for scale, each in found.items()
        ),
        most,
    )


def _order(found: Mapping[float, Found]) -> Answer:
    ahead = [scale for scale, each in found.items() if each.apart > each.together]
    return Answer("order", f"ahead at {', '.join(f'{scale:g}' for scale in ahead) or 'none'}", len(ahead))


def _artefact(bench: Bench) -> Answer:
    """Algorithm 2 on one node of 4."""
    demand = Demand((Bucket(756, 200, 1.0),))
    policy = DistServe("low", nodes=1, node_devices=4)
    placement, candidates = policy.search(demand, fits, Experiment(bench, 1.0).rated)
    best = candidates[next(index for index, count in enumerate(placement.counts) if count)]
    rate = 1.0 / placement.bound
    return Answer(
        "artefact",
        f"{best}: {rate:.2f} requests per second and device",
        best == Candidate(Layout(2, 1), Layout(1, 1)) and ARTEFACT / 1.5 <= rate <= 1.5 * ARTEFACT,
    )


def _carries(bench: Bench, found: Found) -> Answer:
    """Both phases together, as placed, at the rate that they were placed for."""
    pools = tuple(
        _pool(layout, each.role, count)
        for each, count in found.instances.items()
        for layout in (each.prefill, each.decode)
        if layout
    )
    experiment = Experiment(bench, 1.0)
    result = experiment.run(ps.Cluster(pools, link_bw=A100.scaleup_bw), RATE)
    shares = [
        result.metrics(slo).slo_attainment or 0.0
        for slo in (experiment.slo(tpot=False), experiment.slo(ttft=False), experiment.slo())
    ]
    share = partial(write, kind="share", digits=3)
    return Answer(
        "carries",
        f"{_text(found)}: TTFT {share(shares[0])}, TPOT {share(shares[1])}, both {share(shares[2])}",
        shares[:2],
    )


def _layouts(found: Mapping[float, Found]) -> Answer:
    """Tight limits ask prefill for tensor ranks."""
    ranks = {scale: [each.prefill.tensor for each in one.instances if each.prefill] for scale, one in found.items()}
    known = [each[0] for each in ranks.values() if each]
    return Answer(
        "layouts",
        "; ".join(f"{scale:g}: {_text(one)}" for scale, one in found.items()),
        known == sorted(known, reverse=True),
    )
