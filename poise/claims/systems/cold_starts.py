"""Serverless cold starts: what the keep-alive time and a pre-warmed slot buy, and at which price."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings
from poise.claims.sweep import Ratio, Sweep, at_most, every, ratio, swept, times
from poise.core.spec import Startup
from poise.policies.scale.deepflow import Deepflow
from poise.policies.scale.keep_alive import KeepAlive

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison

CLAIM = Claim(
    system="Serverless cold starts",
    paper="arXiv 2410.06145",
    year=2025,
    slot="scaler",
    policies=("keep_alive", "deepflow"),
    headline="no controlled one; a longer keep-alive time saves cold starts and costs idle pods, and pods that are "
    "pre-warmed by the size of a pool are suggested to hide them",
    conditions="31 days of functions in five regions, 11.9 million cold starts; their duration is log-normal with a "
    "mean of 3.24 s and a standard deviation of 7.10 s (σ 1.326), pods are kept for 60 s",
    here="0 to 8 replicas of Llama-3.2-1B on an L4 each, four requests each at once; starts of the same shape with a "
    "median of 8 s, of which a pre-warmed slot has 6 s behind it; arrivals with Gamma gaps of a coefficient of "
    "variation of 4, one in 20 s in the mean, for 11 hours; keep-alive times of 10, 60 and 600 s",
    trust="text",
)

STARTUP = Startup(provision_s=4.0, engine_s=2.0, weights_s=1.0, capture_s=1.0, sigma=1.326)
CLUSTER = ps.Cluster.of("L4", count=8).replicas(
    1, model="llama-3.2-1b", min_replicas=0, max_replicas=8, startup=STARTUP
)
KEEPS = (10.0, 60.0, 600.0)
REQUESTS, SEEDS = 2000, 5
PLAIN, WARM = "cold", "one pre-warmed"
HOURS, COLD, WAIT, TAIL = "replica_hours", "scaling.cold_requests", "scaling.cold_wait_s", "ttft_s.p99"


def measure(bench: Bench) -> Findings:
    """Keep-alive times, each with and without a pre-warmed slot."""

    def at(keep: float) -> Comparison:
        bundles = {
            PLAIN: ps.Policies(scaler=KeepAlive(concurrency=4, keep_s=keep)),
            WARM: ps.Policies(scaler=Deepflow(target=4.0, keep_s=keep, warm_least=1, warm_most=1)),
        }
        return bench.compare(
            f"kept for {keep:g} s", CLUSTER,
            lambda seed, load: ps.workload.gamma(
                0.05 * load, 4.0, requests=bench.requests(REQUESTS), prompt_tokens=300, output_tokens=100, seed=seed
            ),
            bundles, seeds=bench.seeds(SEEDS),
        )  # fmt: skip

    sweep = swept("keep-alive, s", KEEPS, at)
    criteria = [
        _step(sweep, COLD, "Fewer requests meet a cold start, the longer replicas are kept", "cold ratio falls"),
        _step(sweep, HOURS, "More replica-hours, the longer replicas are kept", "idle cost rises", more=True),
        _warm(sweep),
        sweep.ahead("A pre-warmed slot shortens the P99 time to first token, at each keep-alive time",
                    "pre-warming hides cold starts", TAIL, WARM, [PLAIN], headline=True),
        sweep.ahead("… and costs more replica-hours", "an idle pool costs", HOURS, PLAIN, [WARM]),
    ]  # fmt: skip
    return Findings(criteria, [sweep.curve("Replica-hours", HOURS), sweep.curve("TTFT, P99", TAIL)])


def _step(sweep: Sweep, figure: str, asks: str, paper: str, *, more: bool = False) -> Criterion:
    """The figure falls, or rises, from each keep-alive time to the next."""
    found = {
        after: ratio(sweep.seeds(before, PLAIN, figure), sweep.seeds(after, PLAIN, figure))
        for before, after in pairwise(KEEPS)
    }
    turned = {after: _inverse(each) if more else each for after, each in found.items()}
    return Criterion(
        asks, paper, "; ".join(f"to {after:g} s: {times(each)} times" for after, each in found.items()),
        every(at_most(each, 1.0) for each in turned.values()), headline=True,
    )  # fmt: skip


def _inverse(found: Ratio) -> Ratio:
    value, low, high = (None if each is None else 1 / each for each in found)
    return Ratio(value, high, low)


def _warm(sweep: Sweep) -> Criterion:
    found = {keep: ratio(sweep.seeds(keep, PLAIN, WAIT), sweep.seeds(keep, WARM, WAIT)) for keep in KEEPS}
    return Criterion(
        "With a pre-warmed slot requests wait at most half as long for cold starts", "pre-warming hides cold starts",
        "; ".join(f"{keep:g} s: {times(each)} times" for keep, each in found.items()),
        every(at_most(each, 0.5) for each in found.values()),
    )  # fmt: skip
