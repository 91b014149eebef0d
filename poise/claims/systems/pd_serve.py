"""P/D-Serve: prefill instances without a queue of their own, groups by scenario, a ratio that is kept in balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve
from poise.claims.ratios import groups, ratios, shifting
from poise.claims.sweep import Sweep, swept
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.pull import Pull
from poise.policies.route.round_robin import RoundRobin
from poise.report.wording import write

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


IN_TIME_S = 6.0
CLUSTER = ps.Cluster.of("A100", count=8).replicas(8, model="llama-3.1-8b", engine=ps.Engine(prefix_caching=False))
PROMPTS = ps.workload.empirical([2000] * 9 + [8000] * 9 + [40_000] * 2)
RATES = (6.0, 8.0, 9.0, 10.0, 12.0)
AGES = (0.0, 1.0, 5.0)
REQUESTS = 3000
SHARE = "slo_attainment"
PULL, HELD, PUSH, BLIND = "pull", "pull without early stop", "push to the fewest", "round robin"
BUNDLES = {
    PULL: ps.Policies(router=Pull(ttft_s=IN_TIME_S)),
    HELD: ps.Policies(router=Pull()),
    PUSH: ps.Policies(router=LeastRequests()),
    BLIND: ps.Policies(router=RoundRobin()),
}


def measure(bench: Bench) -> Findings:
    """Loads × routers at each age of reports, and once with clients that leave when it is too late."""
    ages = {age: _sweep(bench, age) for age in AGES}
    leaving = _sweep(bench, 1.0, leaving=True)
    criteria = [
        *(_ahead(ages[age], age) for age in (1.0, 0.0)),
        ages[1.0].ahead("push", SHARE, PUSH, [BLIND]),
        _kept(ages[1.0]),
        _gap(ages[1.0]),
        _widens(ages),
        *_stop(ages[0.0]),
        leaving.ahead("leaving", SHARE, PULL, [PUSH, BLIND]),
    ]
    carried, rates = ratios(bench)
    apart, grouped = groups(bench)
    late = leaving.curve("In time, clients leave when it is too late", SHARE)
    return Findings([*criteria, *carried, *shifting(bench), *apart], [*_curves(ages), late, rates, grouped])


def _sweep(bench: Bench, age: float, *, leaving: bool = False) -> Sweep:
    belief = ps.Belief(period_s=age, delay_s=0.0, in_flight=False)

    def at(rate: float) -> Comparison:
        def made(seed: int, load: float) -> ps.workload.Workload:
            requests = bench.requests(REQUESTS)
            some = ps.workload.poisson(
                rate * load, requests=requests, prompt_tokens=PROMPTS, output_tokens=1, seed=seed
            )
            return replace(some, timeout=np.full(requests, int(IN_TIME_S * 1e12))) if leaving else some

        slo = ps.Slo(ttft_s=IN_TIME_S)
        label = f"age {age:g} s, {rate:g} req/s"
        return bench.compare(label, CLUSTER, made, BUNDLES, slo=slo, belief=belief, seeds=bench.seeds())

    return swept("load, req/s", RATES, at)


def _ahead(sweep: Sweep, age: float) -> Answer:
    return sweep.ahead(f"reports {age:g} s old", SHARE, PULL, [PUSH, BLIND])


def _kept(sweep: Sweep) -> Answer:
    """Where push has fallen as far as published, pull has lost as little as published."""
    falls = {rate: (sweep.value(rate, PUSH, SHARE), sweep.value(rate, PULL, SHARE)) for rate in RATES}
    rate, (push, pull) = min(falls.items(), key=lambda each: abs(each[1][0] - 0.57))
    return Answer("kept", f"{pull:.1%} at {rate:g} req/s, where push has {push:.1%}", pull)


def _gap(sweep: Sweep) -> Answer:
    gaps = sweep.gaps(SHARE, PULL, [PUSH])
    widest = max(gaps, key=lambda gap: gap.lead.value or 0.0)
    lead = widest.lead.value or 0.0
    return Answer(
        "gap",
        f"{100 * lead:.1f} ± {100 * (widest.lead.half or 0.0):.1f} points at {widest.x:g} req/s "
        f"({write(widest.own, 'share', 3)} vs {write(widest.others, 'share', 3)})",
        lead,
    )


def _widens(ages: Mapping[float, Sweep]) -> Answer:
    """The gap to push at each load, by age."""
    gaps = {age: [gap.lead.value or 0.0 for gap in sweep.gaps(SHARE, PULL, [PUSH])] for age, sweep in ages.items()}
    wider = [old > young for young, old in zip(gaps[0.0], gaps[5.0], strict=True)]
    text = "; ".join(
        f"{rate:g}: {', '.join(f'{100 * gaps[age][place]:.1f}' for age in AGES)}" for place, rate in enumerate(RATES)
    )
    return Answer("widens", f"points, by load: {text}", sum(wider))


def _stop(sweep: Sweep) -> list[Answer]:
    """What is due to the missing queue, and what to early stop."""
    below = Sweep(sweep.across, {rate: sweep.at[rate] for rate in RATES if rate < 9.5})
    above = Sweep(sweep.across, {rate: sweep.at[rate] for rate in RATES if rate > 9.5})
    return [
        below.ahead("below capacity", SHARE, HELD, [PUSH]),
        above.ahead("early stop", SHARE, PULL, [HELD]),
    ]


def _curves(ages: Mapping[float, Sweep]) -> list[Curve]:
    """Push at every age beside the others, and each age by itself."""
    one = ages[1.0].curve("In time by age of reports", SHARE, [PULL, HELD, BLIND])
    push = {f"{PUSH}, {age:g} s": sweep.curve("", SHARE, [PUSH]).lines[PUSH] for age, sweep in ages.items()}
    return [replace(one, lines={**one.lines, **push})]
