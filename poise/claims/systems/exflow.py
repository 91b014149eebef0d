"""ExFlow on recorded routing: how many tokens change their rank between two layers."""

from __future__ import annotations

import numpy as np

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.recorded_routing import DOMAINS, read_flows, view_of
from poise.policies.rebalance.exflow import ExFlow

RANKS = (2, 4, 8)


def measure(bench: Bench) -> Findings:
    """Models × domains × ranks, and each placement on the other domains too."""
    flows = read_flows(bench.file())
    saved: dict[str, dict[int, float]] = {}
    moved: list[float] = []
    loads: list[float] = []
    for (model, domain), each in flows.items():
        for ranks in RANKS:
            view = view_of(each, ranks)
            before, after = view.standing(), ExFlow().rebalance(view)
            saved.setdefault(f"{model}, {domain}", {})[ranks] = 1 - after.crossings(each) / before.crossings(each)
            loads.append(float(after.balance(view.counts).mean() / before.balance(view.counts).mean()))
            others = [flows[model, other] for other in DOMAINS if other != domain]
            moved += [1 - after.crossings(other) / before.crossings(other) for other in others]
    best, least = (each(each(line.values()) for line in saved.values()) for each in (max, min))
    answers = [
        Answer("fewer", f"{best:.3f} at the best", best),
        Answer("everywhere", f"{least:.3f} at the least", least),
        Answer("elsewhere", f"{min(moved):.3f} to {max(moved):.3f}", min(moved)),
        Answer("balance", f"{np.mean(loads):.3f} times", float(np.mean(loads))),
    ]
    lines = {name: [Point(ranks, value) for ranks, value in line.items()] for name, line in saved.items()}
    return Findings(answers, [Curve("Fewer changes of rank", "ranks", "share", lines)])
