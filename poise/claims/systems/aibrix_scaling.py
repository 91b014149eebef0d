"""AIBrix's autoscalers: APA and KPA against Kubernetes' HPA where a replica takes minutes to start."""

from __future__ import annotations

from collections.abc import Sequence

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings
from poise.claims.sweep import Ratio, Sweep, at_most, every, ratio, swept, times
from poise.core.spec import Startup
from poise.policies.scale.apa import Apa
from poise.policies.scale.hpa import Hpa
from poise.policies.scale.kpa import Kpa

CLAIM = Claim(
    system="AIBrix autoscaling",
    paper="arXiv 2504.03648",
    year=2025,
    slot="scaler",
    policies=("apa", "kpa"),
    others=("hpa",),
    headline="against HPA 11.5 % lower latency, 11.4 % more tokens per second, 33 % less oscillation",
    conditions="autoscalers of an LLM service whose pods take two to three minutes; loads and targets unsaid",
    here="1 to 8 replicas of Llama-3.1-8B on an A100 each, starts of 150 s (log-normal, σ 0.2); Poisson arrivals that "
    "rise from 10 to 40 per second and fall again, in waves of the length on the axis, for 80 minutes; prompts of 800 "
    "and outputs of 200 tokens; all three aim at 24 requests per replica and have their own defaults otherwise, APA "
    "without its 300 s of cooldown and with it. Oscillation is how often the wish of replicas changes",
    trust="code",
)

TARGET = 24.0
CLUSTER = ps.Cluster.of("A100", count=8).replicas(
    2, model="llama-3.1-8b", min_replicas=1, max_replicas=8, startup=Startup(provision_s=150.0, sigma=0.2)
)
HPA, APA, QUICK, KPA = "hpa", "apa", "apa without cooldown", "kpa"
BUNDLES = {
    HPA: ps.Policies(scaler=Hpa(target=TARGET)),
    APA: ps.Policies(scaler=Apa(target=TARGET, metric="requests")),
    QUICK: ps.Policies(scaler=Apa(target=TARGET, metric="requests", cooldown_s=0.0)),
    KPA: ps.Policies(scaler=Kpa(target=TARGET, utilisation=1.0)),
}
WAVES = (600.0, 1200.0, 2400.0)
LENGTH_S, SEEDS = 4800.0, 4
LATENCY, TOKENS, HOURS = "e2e_s.mean", "output_tokens_per_s", "replica_hours"


def wave(period_s: float, length_s: float) -> list[tuple[float, float]]:
    """A rate that rises from 10 to 40 and falls again in each period."""
    points = [(0.0, 10.0)]
    for number in range(round(length_s / period_s)):
        points += [((number + 0.5) * period_s, 40.0), ((number + 1) * period_s, 10.0)]
    return points


def measure(bench: Bench) -> Findings:
    """Waves × scalers."""
    length = LENGTH_S / (2 if bench.quick else 1)

    def traffic(period: float, seed: int) -> ps.workload.Workload:
        return ps.workload.diurnal(wave(period, length), prompt_tokens=800, output_tokens=200, seed=seed)

    sweep = swept(
        "length of a wave, s", WAVES,
        lambda period: bench.compare(
            f"waves of {period:g} s", CLUSTER, lambda seed, load: traffic(period, seed), BUNDLES,
            seeds=bench.seeds(SEEDS),
        ),
    )  # fmt: skip
    criteria = [
        sweep.ahead("APA has a lower mean latency than HPA", "11.5 % lower", LATENCY, APA, [HPA], headline=True,
                    why="its metric is a mean over 180 s, so it sees a rise later than HPA, which takes it as it is"),
        sweep.ahead("APA gives more tokens per second than HPA", "11.4 % more", TOKENS, APA, [HPA], headline=True,
                    why="all arrivals are served in the end, so tokens per second follow the load, not the scaler"),
        _steadier(sweep, APA), _steadier(sweep, QUICK),
        sweep.ahead("KPA has a lower mean latency than HPA", "same claim of both", LATENCY, KPA, [HPA]),
        sweep.ahead("Without cooldown APA takes fewer replica-hours than HPA", "nothing is said", HOURS, QUICK, [HPA]),
    ]  # fmt: skip
    curves = [sweep.curve("Mean latency", LATENCY), sweep.curve("Replica-hours", HOURS)]
    return Findings(criteria, curves)


def _steadier(sweep: Sweep, policy: str) -> Criterion:
    """How often the wish changes, over HPA's; a third less is published."""
    found = {wave: ratio(_changes(sweep, wave, HPA), _changes(sweep, wave, policy)) for wave in WAVES}
    return Criterion(
        f"{policy}: fewer changes of the wish than HPA, at each wave", "33 % fewer",
        "; ".join(f"{wave:g} s: {times(each)} times" for wave, each in found.items()),
        every(_fewer(each) for each in found.values()), headline=policy == APA,
    )  # fmt: skip


def _fewer(found: Ratio) -> bool | None:
    return at_most(found, 1.0)


def _changes(sweep: Sweep, wave: float, policy: str) -> Sequence[float]:
    up, down = (sweep.seeds(wave, policy, f"scaling.scale_{way}") for way in ("ups", "downs"))
    return [one + other for one, other in zip(up, down, strict=True)]
