"""AIBrix's autoscalers: APA and KPA against Kubernetes' HPA where a replica takes minutes to start."""

from __future__ import annotations

from collections.abc import Sequence

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.sweep import Sweep, ratio, swept, times
from poise.core.spec import Startup
from poise.policies.scale.apa import Apa
from poise.policies.scale.hpa import Hpa
from poise.policies.scale.kpa import Kpa

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
LENGTH_S = 4800.0
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
            seeds=bench.seeds(),
        ),
    )  # fmt: skip
    criteria = [
        sweep.ahead("latency", LATENCY, APA, [HPA]),
        sweep.ahead("tokens", TOKENS, APA, [HPA]),
        _steadier(sweep, APA),
        _steadier(sweep, QUICK),
        sweep.ahead("KPA", LATENCY, KPA, [HPA]),
        sweep.ahead("hours", HOURS, QUICK, [HPA]),
    ]
    curves = [sweep.curve("Mean latency", LATENCY), sweep.curve("Replica-hours", HOURS)]
    return Findings(criteria, curves)


def _steadier(sweep: Sweep, policy: str) -> Answer:
    """How often the wish changes, over HPA's; a third less is published."""
    found = {wave: ratio(_changes(sweep, wave, HPA), _changes(sweep, wave, policy)) for wave in WAVES}
    return Answer(
        f"steadier, {policy}",
        "; ".join(f"{wave:g} s: {times(each)} times" for wave, each in found.items()),
        list(found.values()),
    )


def _changes(sweep: Sweep, wave: float, policy: str) -> Sequence[float]:
    up, down = (sweep.seeds(wave, policy, f"scaling.scale_{way}") for way in ("ups", "downs"))
    return [one + other for one, other in zip(up, down, strict=True)]
