"""How many instances prefill and how many decode: throughput by the ratio, a mix that shifts, groups by scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import Sweep, swept
from poise.core.records.records import FINISHED
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.pull import Pull
from poise.policies.scale.pd_serve import PdServe, balanced
from poise.workload.table import Workload

if TYPE_CHECKING:
    from poise.core.spec import Role
    from poise.scenario.compare.comparison import Comparison

INSTANCES = 6
ENGINE = ps.Engine(prefix_caching=False, first_token="prefill", max_sequences=32)
READY = ps.Startup(weights_s=4.0, connect_s=1.0)
FULL, SETTLED_S, END_S = 60.0, 20.0, 60.0
"""Requests a second that no ratio can carry; what ends from the one second to the other is counted."""


class Mix(NamedTuple):
    """Tokens of each prompt and output."""

    prompt: int
    output: int

    def __str__(self) -> str:
        return f"{self.prompt:,}/{self.output:,}"


MIXES = (Mix(3000, 100), Mix(1500, 200), Mix(1000, 300))


def cluster(prefill: int) -> ps.Cluster:
    """So many of six instances prefill, the others decode."""
    return ps.Cluster(tuple(_pool(role, count) for role, count in _split(prefill)))


def _split(prefill: int) -> list[tuple[Role, int]]:
    return [("prefill", prefill), ("decode", INSTANCES - prefill)]


def _pool(role: Role, count: int, **more: Any) -> ps.Pool:
    given = {"engine": ENGINE, "startup": READY, **more}
    return ps.Pool(ps.models("llama-3.1-8b"), ps.devices("A100"), replicas=count, role=role, **given)


# Ratios --------------------------------------------------------------------------------------------------------------


def ratios(bench: Bench) -> tuple[list[Answer], Curve]:
    """Requests a second at each ratio, of three mixes."""
    found = {mix: {each: _carried(bench, mix, each) for each in range(1, INSTANCES)} for mix in MIXES}
    lines = {str(mix): [Point(each, rate) for each, rate in rates.items()] for mix, rates in found.items()}
    curve = Curve("Requests per second, all there are to serve", "prefill instances of 6", "number", lines)
    return [_closed_form(found), _gain(found)], curve


def _carried(bench: Bench, mix: Mix, prefill: int) -> float:
    """Requests a second that end while more come than can be served."""
    some = ps.workload.poisson(FULL, duration_s=END_S, prompt_tokens=mix.prompt, output_tokens=mix.output, seed=0)
    run = bench.simulate(cluster(prefill), some, ps.Policies(router=LeastRequests()), until=END_S, drain=False).run
    ended, status = np.array(run.records.ended_at), np.array(run.records.status)
    return float(((status == FINISHED) & (ended > SETTLED_S * 1e12)).sum()) / (END_S - SETTLED_S)


def _predicted(rates: Mapping[int, float]) -> int:
    """The balance by the closed form, each side's seconds being those of one instance among plenty of the other."""
    return balanced(INSTANCES, 1 / rates[1], 1 / rates[INSTANCES - 1])


def _closed_form(found: Mapping[Mix, Mapping[int, float]]) -> Answer:
    most = {mix: max(rates, key=lambda each: rates[each]) for mix, rates in found.items()}
    return Answer(
        "closed form",
        "; ".join(
            f"{mix}: by the formula {_predicted(rates)} of 6 prefill, by simulation {most[mix]}"
            for mix, rates in found.items()
        ),
        all(_predicted(rates) == most[mix] for mix, rates in found.items()),
    )


def _gain(found: Mapping[Mix, Mapping[int, float]]) -> Answer:
    """What the balance has beyond the other ratios, in their mean and at the next best."""
    gains, nearest = {}, {}
    for mix, rates in found.items():
        best = _predicted(rates)
        others = [rate for each, rate in rates.items() if each != best]
        gains[mix] = rates[best] * len(others) / sum(others) - 1
        nearest[mix] = rates[best] / max(others) - 1
    return Answer(
        "gain",
        "; ".join(f"{mix}: {gains[mix]:+.0%} (over the next best {nearest[mix]:+.0%})" for mix in found),
        list(gains.values()),
    )


# A mix that shifts ---------------------------------------------------------------------------------------------------


class Phase(NamedTuple):
    """A mix for so many seconds at a rate, and the prefill instances of its balance."""

    mix: Mix
    seconds: float
    rate: float
    balance: int


PHASES = (Phase(MIXES[0], 300, 15, 4), Phase(MIXES[2], 600, 24, 2), Phase(MIXES[0], 600, 15, 4))
CONTROLLED = "pd_serve, 4 at the start"


def shifting(bench: Bench) -> list[Answer]:
    """The controller and each fixed ratio over the phases; every phase is near what its own balance carries."""
    share, turns = {}, []
    slo = ps.Slo(ttft_s=2.0, tpot_s=0.1)
    for prefill in range(1, INSTANCES):
        fixed = bench.simulate(cluster(prefill), _phases(bench), ps.Policies(router=LeastRequests()))
        share[f"{prefill} of 6"] = fixed.metrics(slo).slo_attainment or 0.0
    result = bench.simulate(cluster(4), _phases(bench), ps.Policies(router=LeastRequests(), scaler=PdServe()))
    share[CONTROLLED] = result.metrics(slo).slo_attainment or 0.0
    turns = [(each.at / 1e12, 1 if each.role == "prefill" else -1) for each in result.run.converted]
    return [_returns(turns, bench), _better(share)]


def _phases(bench: Bench) -> Workload:
    """The phases after one another; a quick run has a third of each."""
    arrivals, prompts, outputs, begin = [], [], [], 0.0
    for number, phase in enumerate(PHASES):
        span = _span(phase, bench)
        some = ps.workload.poisson(
            phase.rate, duration_s=span, prompt_tokens=phase.mix.prompt, output_tokens=phase.mix.output, seed=number
        )
        arrivals.append(some.arrival + int(begin * 1e12))
        prompts.append(some.prompt)
        outputs.append(some.output)
        begin += span
    return Workload(np.concatenate(arrivals), np.concatenate(prompts), np.concatenate(outputs))


def _span(phase: Phase, bench: Bench) -> float:
    return phase.seconds / 3 if bench.quick else phase.seconds


def _returns(turns: list[tuple[float, int]], bench: Bench) -> Answer:
    """Where the ratio stands at the end of each phase, and when it came there."""
    texts, right, end = [], True, 0.0
    for phase in PHASES:
        begin, end = end, end + _span(phase, bench)
        stands = 4 + sum(change for at, change in turns if at <= end)
        last = max((at for at, _ in turns if begin < at <= end), default=begin)
        texts.append(f"{phase.mix}: {stands} prefill {last - begin:.0f} s after the shift, balance {phase.balance}")
        right = right and stands == phase.balance
    return Answer("returns", "; ".join(texts), right)


def _better(share: Mapping[str, float]) -> Answer:
    fixed = {name: each for name, each in share.items() if name != CONTROLLED}
    best = max(fixed, key=lambda name: fixed[name])
    return Answer(
        "better",
        f"{share[CONTROLLED]:.1%} vs {fixed[best]:.1%} of the best fixed one ({best})",
        share[CONTROLLED] - fixed[best],
    )


# Groups --------------------------------------------------------------------------------------------------------------

SCENARIOS, FAMILIES = 4, 100
GROUP_RATES = (30.0, 45.0, 60.0, 75.0)
TAKEN: dict[str, Any] = {"pull": Pull(ttft_s=1.0), "least_requests": LeastRequests(), "prefix_cache": PrefixCache()}


def groups(bench: Bench) -> tuple[list[Answer], Curve]:
    """Four scenarios with their own prefixes, on their own instances and on all."""
    apart, shared = _sweep(bench, grouped=True), _sweep(bench, grouped=False)
    criteria = [_ahead(name, apart, shared) for name in TAKEN]
    lines: dict[str, Sequence[Point]] = {}
    for sweep, where in ((apart, "groups"), (shared, "no groups")):
        curve = sweep.curve("", "slo_attainment")
        lines |= {f"{name}, {where}": curve.lines[name] for name in TAKEN}
    return criteria, Curve("First tokens within 1 s, four scenarios", "load, req/s", "share", lines)


def _sweep(bench: Bench, *, grouped: bool) -> Sweep:
    bundles = {name: ps.Policies(router=router) for name, router in TAKEN.items()}

    def at(rate: float) -> Comparison:
        label = f"{'groups' if grouped else 'no groups'}, {rate:g} req/s"
        return bench.compare(
            label, _scenarios(grouped), lambda seed, load: _traffic(bench, rate * load, seed), bundles,
            slo=ps.Slo(ttft_s=1.0), seeds=bench.seeds(5),
        )  # fmt: skip

    return swept("load, req/s", GROUP_RATES, at)


def _scenarios(grouped: bool) -> ps.Cluster:
    """Two instances that prefill and one that decodes for each scenario, its own or not."""
    engine = ps.Engine(first_token="prefill")
    sides: list[tuple[Role, int]] = [("prefill", 2), ("decode", 1)]
    tenants = [(each,) if grouped else () for each in range(SCENARIOS)]
    return ps.Cluster(tuple(_pool(*side, engine=engine, tenants=own) for own in tenants for side in sides))


def _traffic(bench: Bench, rate: float, seed: int) -> Workload:
    """Prompts of 500 tokens behind prefixes of 3,000, a hundred of each scenario."""
    base = ps.workload.poisson(rate, requests=bench.requests(3000), prompt_tokens=500, output_tokens=100, seed=seed)
    some = ps.workload.shared_prefixes(base, groups=SCENARIOS * FAMILIES, prefix_tokens=3000, zipf=0.0, seed=seed)
    assert some.prefixes is not None
    _, family = np.unique(some.prefixes.ids, return_inverse=True)
    return replace(some, tenant=(family % SCENARIOS).astype(np.int32))


def _ahead(name: str, apart: Sweep, shared: Sweep) -> Answer:
    """Seed by seed, at each load."""
    figure, texts, better = "slo_attainment", [], 0
    for rate in GROUP_RATES:
        leads = np.array(apart.seeds(rate, name, figure)) - np.array(shared.seeds(rate, name, figure))
        better += bool(leads.min() > 0)
        own, other = apart.value(rate, name, figure), shared.value(rate, name, figure)
        hits = [each.value(rate, name, "prefix_hit_rate") for each in (apart, shared)]
        texts.append(f"at {rate:g}: {own:.1%} vs {other:.1%} (hits {hits[0]:.0%} vs {hits[1]:.0%})")
    return Answer(f"groups, {name}", "; ".join(texts), better)
