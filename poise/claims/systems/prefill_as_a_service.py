"""Prefill-as-a-Service: only long prompts are worth another datacentre."""

from __future__ import annotations

import numpy as np

from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.cost.cross_site import CrossSite, Lengths

CLAIM = Claim(
    system="Prefill-as-a-Service",
    paper="arXiv 2604.15039",
    year=2026,
    slot="cost",
    policies=("cross_site",),
    headline="54 % more requests per second than a homogeneous cluster (3.24 to 2.11), 32 % more than naive splitting",
    conditions="a hybrid model of 1T parameters; 32 H200 for remote prefill in 4 instances, 64 H20 in 3 prefill and 5 "
    "decode instances, 100 Gb/s between; lognormal lengths with μ = 9.90 and σ = 1.00, cut to 128 and 128k tokens; the "
    "paper's numbers are those of a model fed with profiles, too",
    here="the same closed forms, the published profile of 8 H200 joined by straight lines; of the local side its "
    "throughput, which the published 3.24 implies",
    trust="notes",
)

LENGTHS, THRESHOLD = Lengths(9.90, 1.00, 128, 131_072), 19_400
SIZES, SECONDS, MIB = (1024, 8192, 32_768, 131_072), (0.44, 0.72, 1.84, 7.40), (190.8, 308.9, 701.3, 2316.3)
LOCAL, HOMOGENEOUS = 1.63, 2.11


def _prefill_s(tokens: float) -> float:
    return float(np.interp(tokens, SIZES, SECONDS))


def _kv_bytes(tokens: float) -> float:
    return float(np.interp(tokens, SIZES, MIB)) * 2**20


def measure(bench: Bench) -> Findings:
    """Nothing is simulated: thresholds × formulas."""
    site = CrossSite(LENGTHS, 4, 1, 1e9, _prefill_s, lambda _: 1 / LOCAL, _kv_bytes, 100e9 / 8)
    found, best = site.at(THRESHOLD), site.best()
    away = LENGTHS.part(THRESHOLD, LENGTHS.high)
    naive = 4 / _prefill_s(LENGTHS.mean(LENGTHS.low, LENGTHS.high))
    figures = {
        "part of requests that go away": (away, 0.496), "remote throughput": (found.remote, 1.61),
        "the whole": (found.whole, 3.24), "naive splitting": (naive, 2.45),
    }  # fmt: skip
    criteria = [
        Criterion(
            "Each figure is within 3 % of the published one",
            ", ".join(f"{name} {paper}" for name, (_, paper) in figures.items()),
            ", ".join(f"{name} {own:.3g}" for name, (own, _) in figures.items()),
            all(abs(own / paper - 1) <= 0.03 for own, paper in figures.values()), headline=True,
        ),
        Criterion(
            "The gains over a homogeneous cluster and over naive splitting are the published ones within 5 points",
            "54 % and 32 %", f"{found.whole / HOMOGENEOUS - 1:.0%} and {found.whole / naive - 1:.0%}",
            abs(found.whole / HOMOGENEOUS - 1.54) <= 0.05 and abs(found.whole / naive - 1.32) <= 0.05, headline=True,
        ),
        Criterion(
            "The best threshold is within 5 % of the published one, and the link is far from full",
            "19,400 tokens, 13 of 100 Gb/s", f"{best:,.0f} tokens, {found.egress * 8e-9:.1f} Gb/s",
            abs(best / THRESHOLD - 1) <= 0.05 and found.egress * 8e-9 < 20,
        ),
    ]  # fmt: skip
    places = (5000.0, 10_000.0, 15_000.0, 19_400.0, 25_000.0, 40_000.0)
    lines = {"requests per second": [Point(each, site.at(each).whole) for each in places]}
    return Findings(criteria, [Curve("Throughput over the threshold", "tokens", "number", lines)])
