"""DistServe: each phase in its own best layout, against one engine for both, per application as the paper has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import poise as ps
from poise.catalogue import device
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.phase_lines import DISTSERVE, VLLM, PhaseLines, profiled
from poise.claims.sweep import ratio, times
from poise.core.errors import CapacityError, ScenarioError
from poise.core.model import Model
from poise.core.placement import Bucket, Demand
from poise.core.spec import Pool, Role
from poise.cost import Roofline, kv_blocks
from poise.cost.term import Recipe
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.place.distserve import Candidate, DistServe, Layout, goodput
from poise.report.wording import write
from poise.workload.lengths import Distribution, Empirical

OPT_13B = Model("OPT-13B", 40, 5120, 40, 40, 128, 50272, 20480, 2048, gated=False, tied=True)
OPT_66B = Model("OPT-66B", 64, 9216, 72, 72, 128, 50272, 36864, 2048, gated=False, tied=True)
PROMPTS = (16, 48, 132, 210, 278, 345, 414, 480, 561, 645, 732, 816, 901, 1004, 1095, 1203, 1337, 1492, 1632, 1835)
OUTPUTS = (3, 7, 10, 13, 16, 20, 25, 32, 44, 65, 92, 132, 189, 234, 278, 328, 374, 445, 571, 773)
"""Of ShareGPT: the middles of twentieths of 1,600 requests that the artefact's runs were recorded with."""

MET, REQUESTS, SEARCHED = 0.9, 1000, 300
MOST, EPSILON = 8.0, 0.01
USED = 79.4e9
"""Bytes of an A100-80GB for weights and KV, by the most tokens of each layout that the artefact lists."""
EASED = 0.75
"""The part of DistServe's goodput at which limits are tightened; at all of it vLLM's waits grow with the run."""
SCALES = (0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
ARTEFACT, RATE, ALONE = 1.5625, 10.0, 12
ENGINE = ps.Engine(token_budget=65_536, max_sequences=1024, prefix_caching=False, first_token="prefill")
A100 = device("A100")
LINES = PhaseLines(DISTSERVE)


class Application(NamedTuple):
    """A model and its requests; limits in seconds; devices of a node, and the layout of the engine for both phases."""

    model: Model
    prompts: Distribution
    outputs: Distribution
    slo: ps.Slo
    devices: int
    whole: Layout


CHAT = (Empirical(PROMPTS), Empirical(OUTPUTS))
CODE = (ps.workload.lognormal(171, 0.5, 1000), ps.workload.lognormal(98, 0.7, 1000))
LONG = (ps.workload.lognormal(1738, 0.2, 1900), ps.workload.lognormal(91, 1.0, 140))
APPLICATIONS = {
    "chat, 13B": Application(OPT_13B, *CHAT, ps.Slo(0.25, 0.1), 4, Layout(1, 1)),
    "chat, 66B": Application(OPT_66B, *CHAT, ps.Slo(0.4, 0.1), 8, Layout(4, 1)),
    "code, 66B": Application(OPT_66B, *CODE, ps.Slo(0.125, 0.2), 8, Layout(4, 1)),
    "summaries, 66B": Application(OPT_66B, *LONG, ps.Slo(15.0, 0.15), 8, Layout(4, 1)),
}
ARTEFACTS = APPLICATIONS["chat, 13B"]._replace(slo=ps.Slo(0.2, 0.1))


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of an application under one cost; all rates are for each device."""

    bench: Bench
    use: Application
    cost: Recipe = LINES

    def pool(self, layout: Layout, role: Role = "mixed", replicas: int = 1) -> Pool:
        """Instances of one layout, with the room for KV that the artefact lists."""
        pool = Pool(
            self.use.model, A100, replicas=replicas, tensor=layout.tensor, pipeline=layout.pipeline, role=role,
            engine=ENGINE,
        )  # fmt: skip
        if self.cost == Roofline():
            return replace(pool, engine=replace(ENGINE, token_budget=8192))
        room = (USED * layout.devices - pool.weight_bytes) / self.use.model.kv_bytes_per_token(16)
        return replace(pool, engine=replace(ENGINE, kv_blocks=max(0, int(room / ENGINE.block_tokens))))

    def fits(self, layout: Layout) -> bool:
        """Whether heads and layers can be cut so, steps have a cost, and there is room for KV."""
        model = self.use.model
        if model.heads % layout.tensor or model.layers % layout.pipeline:
            return False
        try:
            pool = self.pool(layout)
            self.cost.build(pool)
            return kv_blocks(pool) > 0
        except (CapacityError, ScenarioError):
            return False

    def run(
        self, pools: Sequence[Pool], rate: float, seed: int, *, requests: int = REQUESTS,
        batcher: Chunked | None = None,
        outputs: Distribution | float | None = None,
    ) -> ps.Result:  # fmt: skip
        """A run at a rate for each device."""
        devices = sum(pool.replicas * pool.devices for pool in pools)
        workload = ps.workload.poisson(
            rate * devices, requests=self.bench.requests(requests), prompt_tokens=self.use.prompts,
            output_tokens=outputs or self.use.outputs, seed=seed,
        )  # fmt: skip
        policies = ps.Policies(batcher=batcher) if batcher else ps.Policies()
        cluster = ps.Cluster(tuple(pools), link_bw=A100.scaleup_bw)
        return self.bench.simulate(cluster, workload, policies, cost=self.cost, seed=seed)

    def apart(self, pair: Candidate) -> tuple[Pool, Pool]:
        """A pair's two pools."""
        assert pair.prefill and pair.decode
        return self.pool(pair.prefill, "prefill"), self.pool(pair.decode, "decode")

    def searched(
        self, most: float = 5.0, epsilon: float = 0.05, *, each: bool = False, seed: int = 0
    ) -> tuple[Candidate, float]:
        """Algorithm 2 on one node: the best pair and its goodput.  each: limits hold one by one, as in the artefact."""
        slo = self.use.slo
        slos = [ps.Slo(slo.ttft_s, None), ps.Slo(None, slo.tpot_s)] if each else [slo]

        def rate(pair: Candidate) -> float:
            def meets(per_device: float) -> bool:
                run = self.run(self.apart(pair), per_device, seed, requests=SEARCHED)
                return all(within(run, one) >= MET for one in slos)

            return pair.devices * goodput(meets, most, epsilon)

        demand = Demand((Bucket(int(sum(PROMPTS) / 20), int(sum(OUTPUTS) / 20), 1.0),))
        placed, found = DistServe("low", 1, self.use.devices).search(demand, self.fits, rate)
        return found[next(at for at, count in enumerate(placed.counts) if count)], 1.0 / placed.bound

    def carried(self, pools: Sequence[Pool], batcher: Chunked | None = None, seeds: int | None = None) -> list[float]:
        """The highest rate within the limits for each seed; 0 where there is none."""

        def highest(seed: int) -> float:
            def meets(rate: float) -> bool:
                return within(self.run(pools, rate, seed, batcher=batcher), self.use.slo) >= MET

            return goodput(meets, MOST, EPSILON)

        return [highest(seed) for seed in range(seeds or self.bench.seeds())]


def within(run: ps.Result, slo: ps.Slo) -> float:
    """The share of requests within limits."""
    return run.metrics(slo).slo_attainment or 0.0


def scale(run: ps.Result, slo: ps.Slo) -> float:
    """The least scale of both limits under which enough requests of a run are within them."""
    low, high = 0.0, 256.0
    assert slo.ttft_s and slo.tpot_s
    for _ in range(24):
        middle = (low + high) / 2
        tight = ps.Slo(slo.ttft_s * middle, slo.tpot_s * middle)
        low, high = (low, middle) if within(run, tight) >= MET else (middle, high)
    return high


class Found(NamedTuple):
    """Of an application: DistServe's layouts; goodputs of both by the seed; vLLM's limits over DistServe's; and the
    ratio of goodputs by lines as profiled.
    """

    pair: Candidate
    apart: list[float]
    whole: list[float]
    tighter: Ratio
    profiled: Ratio

    @property
    def ratio(self) -> Ratio:
        """How many times as much DistServe carries; nothing where vLLM carries no rate."""
        return ratio(self.whole, self.apart)


def measure(bench: Bench) -> Findings:
    """Applications by the artefact's lines; its own search; placements; and the same under today's costs."""
    found = {name: _application(bench, use) for name, use in APPLICATIONS.items()}
    ratios = {name: each.ratio for name, each in found.items()}
    seen = [each for each in ratios.values() if each.value is not None]
    tighter = [each.tighter for each in found.values()]
    raw = [each.profiled for each in found.values()]
    answers = [
        Answer("order", _goodputs(found), sum(_ahead(each) for each in found.values())),
        Answer("most", "; ".join(f"{name}: {times(each)}" for name, each in ratios.items()), _largest(seen)),
        Answer("tighter", "; ".join(f"{n}: {times(each.tighter)}" for n, each in found.items()), _largest(tighter)),
        Answer("tighter each", "as above", tighter),
        Answer("profiled", "; ".join(f"{n}: {times(each.profiled)}" for n, each in found.items()), raw),
        _artefact(bench),
        *_placed(bench),
        _today(bench),
    ]
    return Findings(answers, [_curve(bench, found["chat, 13B"].pair)])


def _application(bench: Bench, use: Application) -> Found:
    own, theirs = Experiment(bench, use), Experiment(bench, use, PhaseLines(VLLM))
    pair, _ = own.searched()
    whole = [theirs.pool(use.whole)]
    carried = own.carried(own.apart(pair))
    scales: list[list[float]] = [[], []]
    for seed, rate in enumerate(carried):
        scales[0].append(scale(own.run(own.apart(pair), EASED * rate, seed), use.slo))
        scales[1].append(scale(theirs.run(whole, EASED * rate, seed, batcher=PrefillFirst()), use.slo))
    fast = (
        Experiment(bench, use, PhaseLines(profiled(DISTSERVE, "DistServe"))).carried(own.apart(pair)),
        Experiment(bench, use, PhaseLines(profiled(VLLM, "vLLM"))).carried(whole, PrefillFirst()),
    )
    return Found(pair, carried, theirs.carried(whole, PrefillFirst()), ratio(*scales), ratio(*reversed(fast)))


def _ahead(found: Found) -> bool:
    return min(found.apart) > max(found.whole) or (found.ratio.low or 0.0) > 1


def _largest(some: Sequence[Ratio]) -> Ratio:
    return max(some, key=lambda each: each.value or 0.0, default=Ratio(None, None, None))


def _goodputs(found: Mapping[str, Found]) -> str:
    def mean(some: Sequence[float]) -> str:
        return f"{sum(some) / len(some):.3f}"

    return "; ".join(f"{name}: {mean(each.apart)} ({each.pair}) vs {mean(each.whole)}" for name, each in found.items())


def _artefact(bench: Bench) -> Answer:
    """The artefact's own search: 4 devices, 300 requests, limits of 0.2 and 0.1 s that hold one by one."""
    experiment = Experiment(bench, ARTEFACTS)
    rates, best = [], Candidate(None, None)
    for seed in range(bench.seeds()):
        best, rate = experiment.searched(5.0, 0.25, each=True, seed=seed)
        if best != Candidate(Layout(2, 1), Layout(1, 1)):
            break
        rates.append(rate)
    else:
        found = ratio([ARTEFACT] * len(rates), rates)
        return Answer("artefact", f"{best}: {times(found)} times that", found)
    return Answer("artefact", f"{best}", False)


def _placed(bench: Bench) -> list[Answer]:
    """Algorithm 1 on nodes of 4 under scales of the artefact's limits, and its placement simulated as a whole."""
    found = {scale: _placement(bench, scale) for scale in SCALES}
    experiment = Experiment(bench, ARTEFACTS)
    pools = [
        experiment.pool(layout, each.role, count)
        for each, count in found[1.0].items()
        for layout in (each.prefill, each.decode)
        if layout
    ]
    run = experiment.run(pools, RATE / sum(pool.replicas * pool.devices for pool in pools), 0)
    slo = ARTEFACTS.slo
    shares = [within(run, each) for each in (ps.Slo(slo.ttft_s, None), ps.Slo(None, slo.tpot_s))]
    ranks = [each.prefill.tensor for one in found.values() for each in one if each.prefill]
    carries = f"{_text(found[1.0])}: TTFT {write(shares[0], kind='share')}, TPOT {write(shares[1], kind='share')}"
    layouts = "; ".join(f"{scale:g}: {_text(one)}" for scale, one in found.items())
    return [Answer("carries", carries, shares), Answer("layouts", layouts, ranks == sorted(ranks, reverse=True))]


def _placement(bench: Bench, scale: float) -> Mapping[Candidate, int]:
    """Instances of each layout for `RATE`, each phase rated by itself; none where no layout is enough."""
    slo = ARTEFACTS.slo
    assert slo.ttft_s and slo.tpot_s
    first, later = ps.Slo(scale * slo.ttft_s, None), ps.Slo(None, scale * slo.tpot_s)
    experiment = Experiment(bench, ARTEFACTS)

    def rate(one: Candidate) -> float:
        outputs: float | None = 1.0
        if one.prefill:
            pools, limit = [experiment.pool(one.prefill)], first
        else:
            assert one.decode
            ample = experiment.pool(Layout(1, 1), "prefill", ALONE)
            pools, limit, outputs = [ample, experiment.pool(one.decode, "decode")], later, None

        def meets(each: float) -> bool:
            part = one.devices / sum(pool.replicas * pool.devices for pool in pools)
            return within(experiment.run(pools, each * part, 0, requests=SEARCHED, outputs=outputs), limit) >= MET

        return one.devices * goodput(meets, MOST, 0.1)

    demand = Demand((Bucket(int(sum(PROMPTS) / 20), int(sum(OUTPUTS) / 20), RATE),))
    try:
        placed, found = DistServe("high", 1, 4).search(demand, experiment.fits, rate)
    except CapacityError:
        return {}
    return {each: count for each, count in zip(found, placed.counts, strict=True) if count}


def _text(found: Mapping[Candidate, int]) -> str:
    return " + ".join(f"{count} {each}" for each, count in found.items()) or "none"


def _today(bench: Bench) -> Answer:
    """The roofline, and chunked prefill in its best tensor group, in place of the artefact's lines."""
    found = {}
    for name, use in APPLICATIONS.items():
        today = Experiment(bench, use, Roofline())
        pair, _ = today.searched(MOST)
        groups = [each for ranks in (1, 2, 4, 8) if today.fits(each := Layout(ranks, 1)) and ranks <= use.devices]
        together = [today.carried([today.pool(each)], Chunked(2048)) for each in groups]
        found[name] = ratio(max(together, key=sum), today.carried(today.apart(pair)))
    return Answer("today", "; ".join(f"{name}: {times(each)}" for name, each in found.items()), list(found.values()))


def _curve(bench: Bench, pair: Candidate) -> Curve:
    """Goodput of the chat on OPT-13B under scales of its limits."""
    lines: dict[str, list[Point]] = {"DistServe": [], "vLLM": [], "vLLM as profiled": []}
    use = APPLICATIONS["chat, 13B"]
    assert use.slo.ttft_s and use.slo.tpot_s
    costs = {"DistServe": DISTSERVE, "vLLM": VLLM, "vLLM as profiled": profiled(VLLM, "vLLM")}
    for scale in SCALES:
        scaled = use._replace(slo=ps.Slo(use.slo.ttft_s * scale, use.slo.tpot_s * scale))
        for name, table in costs.items():
            one = Experiment(bench, scaled, PhaseLines(table))
            pools = one.apart(pair) if name == "DistServe" else [one.pool(use.whole)]
            rates = one.carried(pools, None if name == "DistServe" else PrefillFirst(), 2)
            lines[name].append(Point(scale, sum(rates) / len(rates)))
    return Curve("Requests per second and device within the SLO, chat on OPT-13B", "scale of the SLO", "number", lines)
